"""The states of a job and the outcomes of an attempt.

                submit                  place                 start                 success
     (none) ───────────► pending ───────────► placed ───────────► running ───────────► succeeded
                           ▲  ▲                  │ released / lost    │ failed, lost, timed out, interrupted
                           │  └──────────────────┘                    │
                           └────── retry after backoff ◄──────────────┤ attempts left
                                                                      └──► failed          (no attempt left, or not retryable)
     cancelled: from pending, placed, running       refused: by the coordinator, in place of pending

`pending` is shown as `scheduled` (due later, before the first attempt) or `retrying` (due later, after one).
"""

from enum import StrEnum


class State(StrEnum):
    """Where a job stands. The values are those of the SQL type job_state."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    RETRYING = "retrying"
    PLACED = "placed"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REFUSED = "refused"


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED, State.REFUSED})


class Outcome(StrEnum):
    """How an attempt ended. The values are those of the SQL type outcome."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    CANCELLED = "cancelled"
    LOST = "lost"
    INTERRUPTED = "interrupted"
    SNOOZED = "snoozed"
    RELEASED = "released"
    SUPERSEDED = "superseded"


# What an agent may report as the end of an attempt; the others are decided by the leader.
REPORTABLE = frozenset(
    {
        Outcome.SUCCEEDED,
        Outcome.FAILED,
        Outcome.TIMED_OUT,
        Outcome.CRASHED,
        Outcome.CANCELLED,
        Outcome.INTERRUPTED,
        Outcome.SNOOZED,
    }
)
# Outcomes that always count against max_attempts. An interruption counts only with max_attempts = 1 or past its own bound.
USED = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED, Outcome.LOST})
