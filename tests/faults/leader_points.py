"""What the facts of a leader's points must be for it to break there, and what of them a test is told."""

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from jobyard.contracts.reports import Finished
from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.core.events import AgentEnded, Ended, Event, Noted, Placed, Resent
from jobyard.process.points import Point

When = Callable[..., bool]
Told = dict[str, Any]
SEVERAL: Final = 3


def reads_ends(batch: Batch) -> bool:
    """MESSAGES_TAKEN, QUESTIONS_ASKED: ends of attempts came in."""
    return any(isinstance(report, Finished) for read in batch.reports for report in read.message.reports)


def reads_jobs(batch: Batch) -> bool:
    """MESSAGES_TAKEN, QUESTIONS_ASKED: jobs came in by Kafka."""
    return any(read.jobs for read in batch.intake)


def ends_jobs(events: list[Event]) -> bool:
    return any(isinstance(event, Ended) for event in events)


def places_jobs(events: list[Event]) -> bool:
    return any(isinstance(event, Placed) for event in events)


def gives_agent_up(events: list[Event]) -> bool:
    return any(isinstance(event, AgentEnded) and event.state == "lost" for event in events)


def asks_to_cancel(events: list[Event]) -> bool:
    return any(isinstance(event, Noted) and event.event == "cancel_asked" for event in events)


def sends_again(events: list[Event]) -> bool:
    """OPENING_COMMITTED, OPENING_SENT: bundles are open."""
    return any(isinstance(event, Resent) for event in events)


def is_bundle(event: Event) -> bool:
    return isinstance(event, Placed | Resent)


def bundle_of(jobs: frozenset[str]) -> When:
    """MESSAGE_MADE, MESSAGE_PRODUCED: a bundle with one of the jobs."""

    def holds(event: Event) -> bool:
        return isinstance(event, Placed) and any(job.id in jobs for job in event.bundle.jobs)

    return holds


MADE: Final[dict[str, Callable[[frozenset[str]], When]]] = {"bundle of": bundle_of}
"""Conditions that are made for jobs."""


class FirstOfSeveral:
    """MESSAGE_MADE, MESSAGE_PRODUCED: the first of at least three bundles that one tick has placed."""

    def __init__(self) -> None:
        self._first: Placed | None = None

    def committed(self, events: list[Event]) -> None:
        placed = [event for event in events if isinstance(event, Placed)]
        self._first = placed[0] if len(placed) >= SEVERAL else None

    def __call__(self, event: Event) -> bool:
        return event is self._first


_first: Final = FirstOfSeveral()
CONDITIONS: Final[dict[str, When]] = {
    "reads ends": reads_ends,
    "reads jobs": reads_jobs,
    "ends jobs": ends_jobs,
    "places jobs": places_jobs,
    "gives an agent up": gives_agent_up,
    "asks to cancel": asks_to_cancel,
    "sends again": sends_again,
    "is a bundle": is_bundle,
    "first of several bundles": _first,
}


class Tick:
    """What the last tick took and decided, for tests that are told of a later point in it."""

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.events: list[Event] = []

    def taken(self, batch: Batch) -> None:
        self.batch = batch

    def committed(self, events: list[Event]) -> None:
        self.events = events
        _first.committed(events)

    @property
    def watches(self) -> dict[Point, Callable[..., None]]:
        return {Point.MESSAGES_TAKEN: self.taken, Point.TICK_COMMITTED: self.committed}

    def told(self, facts: Iterable[object]) -> Told:
        """The tick, and the point's own facts, as JSON.

        `read` (topic and offset of each message), `ends` (fence, job, outcome: said by agents), `jobs` (of the intake), `placed` (fence, jobs and attempts
        of each bundle), `ended` (fence, job: decided), `resent` (fences), `bundle` (the fence of the one that it is about), `agents` (names of those that
        are given up), `cancels` (jobs).
        """
        batch = self.batch or Batch()
        given = list(facts)
        events = next((cast("list[Event]", fact) for fact in given if isinstance(fact, list)), self.events)
        return {
            "read": batch.taken,
            "jobs": [job.id for read in batch.intake for job in read.jobs],
            "ends": [
                (report.fence, end.job, str(end.outcome))
                for read in batch.reports
                for report in read.message.reports
                if isinstance(report, Finished)
                for end in report.ends
            ],
            "placed": [
                {
                    "fence": event.bundle.fence,
                    "jobs": [job.id for job in event.bundle.jobs],
                    "attempts": event.bundle.attempts,
                }
                for event in events
                if isinstance(event, Placed)
            ],
            "ended": [(event.bundle.fence, end.job) for event in events if isinstance(event, Ended) for end in event.ends],
            "cancels": [event.job_id for event in events if isinstance(event, Noted) and event.event == "cancel_asked"],
            "agents": [event.name for event in events if isinstance(event, AgentEnded)],
            "resent": [event.fence for event in events if isinstance(event, Resent)],
            "bundle": next(
                (fact.bundle.fence if isinstance(fact, Placed) else fact.fence for fact in given if isinstance(fact, Placed | Resent)), None
            ),
        }
