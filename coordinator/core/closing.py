"""The one door out of a bundle: every job that leaves one gets its attempt row (L8), and is final or waits again."""

from collections.abc import Sequence

from jobyard.contracts import retry
from jobyard.contracts.moments import DAY_S, LATEST, Instant
from jobyard.contracts.reports import NO_RESULT, End, Error
from jobyard.contracts.retry import LONGEST_DELAY_S, Retrying
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import USED, Outcome, State
from jobyard.coordinator.core.books.bundles import Bundles
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.books.waiting import WaitingJobs
from jobyard.coordinator.core.events import Ended, Event
from jobyard.coordinator.core.places import Bundle, Waiting, Why

MOST_PLACEMENTS = 32_000
"""Attempts are numbered with 15 bits; a job that is placed this often without an end has a handler that never gets on."""
_DEFAULT = Retrying()
_LEAST_S = 1e-6


class Closing:
    """Used by all steps that end attempts. `later`: reads the job's policy, or the agent's proposal."""

    def __init__(self, rules: Rules, bundles: Bundles, fleet: Fleet, waiting: WaitingJobs) -> None:
        self._rules = rules
        self._bundles = bundles
        self._fleet = fleet
        self._waiting = waiting

    def succeeded(self, bundle: Bundle, indexes: list[int], ends: list[End], rows: list[str] | None, events: list[Event]) -> None:
        """All of these succeeded: no loop. Their spots are taken already."""
        jobs = bundle.jobs
        if len(indexes) == len(jobs) and indexes[0] == 0 and indexes == list(range(len(jobs))):
            used = bundle.used
            size = sum([job.size for job in jobs])
        else:
            used = [bundle.used[index] for index in indexes]
            size = sum([jobs[index].size for index in indexes])
        self._out(bundle, indexes, ends, rows, used, [State.SUCCEEDED] * len(indexes), size, events)

    def ended(
        self,
        bundle: Bundle,
        indexes: list[int],
        ends: list[End],
        rows: list[str] | None,
        now: Instant,
        events: list[Event],
    ) -> None:
        """These attempts ended as reported, or as the leader decided. Their spots are taken already."""
        used: list[int] = []
        finals: list[State | None] = []
        again: list[Waiting] = []
        remade = list(ends)
        for position, (index, end) in enumerate(zip(indexes, ends, strict=True)):
            final, counted, waiting = self._verdict(bundle, index, end, now)
            if waiting is not None and waiting.attempt >= MOST_PLACEMENTS:
                final, waiting = State.FAILED, None
                remade[position] = _with_error(
                    end,
                    Error(
                        "TooManyAttempts", f"placed {bundle.attempts[index]} times without an end; at most {MOST_PLACEMENTS} are allowed"
                    ),
                )
            mended = self._mended_time(bundle, index, remade[position], final, now)
            if mended is not None:
                remade[position] = mended
            used.append(counted)
            finals.append(final)
            if waiting is not None:
                again.append(waiting)
        if any(one is not other for one, other in zip(remade, ends, strict=True)):
            rows = None
        size = sum([bundle.jobs[index].size for index in indexes])
        self._out(bundle, indexes, remade, rows, used, finals, size, events)
        for waiting in again:
            self._waiting.came(waiting, now)

    def decided(self, bundle: Bundle, outcomes: Sequence[tuple[int, Outcome, Error | None]], now: Instant, events: list[Event]) -> None:
        """The leader ends these attempts itself: released, lost or superseded, with the error that tells why."""
        indexes = [index for index, _, _ in outcomes]
        self._bundles.took(bundle, indexes)
        ends = [
            End(
                job=bundle.jobs[index].id,
                attempt=bundle.attempts[index],
                outcome=outcome,
                started_at=bundle.running.get(index),
                ended_at=now,
                error=error,
            )
            for index, outcome, error in outcomes
        ]
        self.ended(bundle, indexes, ends, None, now, events)

    def given_up(self, bundle: Bundle, error: Error, now: Instant, events: list[Event], keep_careful: bool = False) -> bool:
        """The bundle's agent is over: careful jobs without a running row are proved unstarted, hence released; all others are lost (L10).

        `keep_careful`: the process may live yet, so they wait for the end of its lease (L11). Whether any is kept.
        """
        outcomes: list[tuple[int, Outcome, Error | None]] = []
        kept = False
        for index in range(len(bundle.jobs)):
            if index in bundle.ended:
                continue
            if bundle.careful[index] and index not in bundle.running:
                if keep_careful:
                    kept = True
                else:
                    outcomes.append((index, Outcome.RELEASED, None))
            else:
                outcomes.append((index, Outcome.LOST, error))
        if outcomes:
            self.decided(bundle, outcomes, now, events)
        return kept

    def _out(
        self,
        bundle: Bundle,
        indexes: list[int],
        ends: list[End],
        rows: list[str] | None,
        used: list[int],
        finals: list[State | None],
        size: float,
        events: list[Event],
    ) -> None:
        running = bundle.running
        stood = [bundle.jobs[index].id for index in indexes if running.pop(index, None) is not None] if running else []
        events.append(Ended(bundle, ends, rows, used, finals, stood))
        if bundle.cancels:
            for index in indexes:
                bundle.cancels.pop(index, None)
        self._bundles.ended(bundle, indexes)
        agent = self._fleet.holder(bundle.incarnation)
        if agent is not None:
            self._fleet.freed(agent, len(indexes), size)

    def _verdict(self, bundle: Bundle, index: int, end: End, now: Instant) -> tuple[State | None, int, Waiting | None]:
        """The final state (None: not final), what is used with this attempt, and how the job waits again."""
        outcome = end.outcome
        job = bundle.jobs[index]
        used = bundle.used[index]
        bound = bundle.bounds[index]
        interruptions = bundle.interruptions[index]
        if outcome is Outcome.SUCCEEDED:
            return State.SUCCEEDED, used, None
        if outcome is Outcome.SUPERSEDED:
            return None, used, None
        stopped = outcome is Outcome.INTERRUPTED or (outcome is Outcome.CANCELLED and index not in bundle.cancels)
        if stopped:
            interruptions += 1
        if outcome in USED or (stopped and (job.max_attempts == 1 or interruptions > self._rules.interruptions_max)):
            used += 1
        if index in bundle.cancels:
            return State.CANCELLED, used, None
        if used >= bound or (stopped and job.max_attempts == 1) or (outcome in USED and not end.retryable):
            return State.FAILED, used, None
        why: Why = "r"
        if outcome is Outcome.LOST or outcome is Outcome.RELEASED:
            why = "l"  # in their old place (S2)
        elif outcome is Outcome.SNOOZED:
            why = "s"
            job.run_at = _later(now, end.delay_s or 0.0)
        elif stopped:
            if end.delay_s:
                job.run_at = _later(now, end.delay_s)
        else:
            proposed = end.delay_s
            if proposed is None:
                proposed = retry.delay(job.retry or _DEFAULT, used, f"{job.id}:{bundle.attempts[index]}")
            job.run_at = _later(now, proposed)
        return None, used, Waiting(job, bundle.attempts[index], used, interruptions, bound, why)

    def _mended_time(self, bundle: Bundle, index: int, end: End, final: State | None, now: Instant) -> End | None:
        """The end with times that can be true, if its own cannot: an agent's wall clock may be wrong. None: leave it.

        A retry by hand voids the final states before it (`reopened`), so a failed end never lies in the future, and none before its placement.
        """
        ended, started, placed = end.ended_at, end.started_at, bundle.placed_at
        if not placed < ended <= now + DAY_S or (ended > now and final is not None and final is not State.SUCCEEDED):
            ended = max(now, placed + _LEAST_S)
        if started is not None and not placed - DAY_S <= started <= ended:
            started = min(max(started, placed), ended)
        if ended == end.ended_at and started == end.started_at:
            return None
        return End(end.job, end.attempt, end.outcome, started, ended, end.result, end.error, end.retryable, end.delay_s)


def _later(now: Instant, delay_s: float) -> Instant:
    """When that is, to the microsecond, as the Master DB keeps it."""
    return round(min(now + min(delay_s, LONGEST_DELAY_S), LATEST - 1.0), 6)


def _with_error(end: End, error: Error) -> End:
    return End(end.job, end.attempt, end.outcome, end.started_at, end.ended_at, NO_RESULT, error, False, None)
