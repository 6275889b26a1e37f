"""What was decided, for people: a log line for what is rare. Derived from events, so names cannot drift."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from jobyard.coordinator.core import events
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.meters import Meters

_log = logging.getLogger("jobyard.coordinator")

Line = Callable[[Any], tuple[int, str, tuple[object, ...]]]


def _refused(e: events.Refused) -> tuple[int, str, tuple[object, ...]]:
    return logging.WARNING, "job %s (%s) refused: %s", (e.job.id, e.job.kind, e.job.problem.message)


def _quarantined(e: events.Quarantined) -> tuple[int, str, tuple[object, ...]]:
    m = e.message
    return logging.WARNING, "%s[%d] offset %d quarantined: %s", (m.topic, m.partition, m.offset, m.reason)


def _noted(e: events.Noted) -> tuple[int, str, tuple[object, ...]]:
    return logging.INFO, "job %s (%s): %s by %s", (e.job_id, e.kind, e.event, e.actor or "the leader")


def _late(e: events.LateReported) -> tuple[int, str, tuple[object, ...]]:
    return (
        logging.WARNING,
        "late report for job %s under fence %d: %s%s",
        (e.job_id, e.fence, e.outcome, ", closes the job" if e.closed_job else ""),
    )


def _joined(e: events.AgentJoined) -> tuple[int, str, tuple[object, ...]]:
    return logging.INFO, "agent %s joined (incarnation %s)", (e.name, e.incarnation)


def _changed(e: events.AgentChanged) -> tuple[int, str, tuple[object, ...]]:
    return logging.INFO, "agent %s is %s (capacity %g, %d slots)", (e.name, e.state, e.capacity, e.slots)


def _ended(e: events.AgentEnded) -> tuple[int, str, tuple[object, ...]]:
    level = logging.INFO if e.state == "gone" else logging.WARNING
    return level, "agent %s is %s (incarnation %s)", (e.name, e.state, e.incarnation)


def _fenced(e: events.FencedOff) -> tuple[int, str, tuple[object, ...]]:
    return logging.INFO, "agent %s (incarnation %s) is told that it is over: %s", (e.name, e.incarnation, e.reason)


def _answered(e: events.Answered) -> tuple[int, str, tuple[object, ...]]:
    said = "explained" if e.code is None and e.answer.startswith("{") else e.answer
    return logging.INFO, "command %d: %s %s", (e.command_id, e.code or "done", said)


def _drain_ended(e: events.DrainEnded) -> tuple[int, str, tuple[object, ...]]:
    return logging.INFO, "agent %s has left, its drain is over", (e.name,)


def _repaired(e: events.Repaired) -> tuple[int, str, tuple[object, ...]]:
    some = ", ".join(e.job_ids[:3]) + (" …" if len(e.job_ids) > 3 else "")
    return (
        logging.WARNING,
        "repaired by %s: %d jobs of fence %d on agent %s %s: %s",
        (e.rule, len(e.job_ids), e.fence, e.agent, e.action, some),
    )


LINES: Final[dict[type[object], Line]] = {
    events.Refused: _refused,
    events.Quarantined: _quarantined,
    events.Noted: _noted,
    events.LateReported: _late,
    events.AgentJoined: _joined,
    events.AgentChanged: _changed,
    events.AgentEnded: _ended,
    events.FencedOff: _fenced,
    events.Answered: _answered,
    events.DrainEnded: _drain_ended,
    events.Repaired: _repaired,
}
"""Events that get a log line."""

SILENT: Final[frozenset[type[object]]] = frozenset(
    {
        events.Accepted,
        events.Waits,
        events.Left,
        events.Moved,
        events.Placed,
        events.Ended,
        events.Closed,
        events.Started,
        events.Progressed,
        events.Reopened,
        events.AgentsHeard,
        events.BucketsMoved,
        events.BucketsWanted,
        events.Welcomed,
        events.Confirmed,
        events.CancelSent,
        events.Resent,
        events.DrainSent,
        events.Learned,
        events.NotHere,
    }
)
"""Events without a line: too many, or told by another."""


class Telemetry:
    """Logs one lane's events, and counts them if there are `meters`."""

    def __init__(self, lane: str, meters: Meters | None = None) -> None:
        self._lane = lane
        self._meters = meters

    def saw(self, decided: Sequence[Event], took_s: float, in_memory: int) -> None:
        """Take note of what a committed tick decided. `in_memory`: waiting jobs."""
        if self._meters is not None:
            self._meters.ticked(self._lane, decided, took_s, in_memory)
        for event in decided:
            kind = type(event)
            line = LINES.get(kind)
            if line is not None:
                level, text, arguments = line(event)
                _log.log(level, text, *arguments, extra={"event": kind.__name__, "lane": self._lane})
