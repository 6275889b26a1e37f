"""What the facts of an agent's points must be for it to break there. Each condition is made for the jobs that it is about, and remembers what it saw."""

from collections.abc import Callable
from typing import Any, Final

from jobyard.agent.core.actions import Say
from jobyard.agent.inbox import Taken
from jobyard.contracts.reports import Finished, Started

Jobs = frozenset[str]
When = Callable[..., bool]


def read(jobs: Jobs) -> When:
    """TURN_HEARD: a bundle with one of the jobs came in just now, so nothing of it is started."""

    def holds(taken: Taken, acknowledged: list[Say], settled: bool) -> bool:
        return any(job.id in jobs for bundle in taken.bundles for job in bundle.jobs)

    return holds


def said_started(jobs: Jobs) -> When:
    """REPORTS_DECIDED, REPORTS_SENT: one of the jobs is reported as started."""

    def holds(says: list[Say]) -> bool:
        return any(isinstance(say.report, Started) and say.report.job in jobs for say in says)

    return holds


def said_ended(jobs: Jobs) -> When:
    """REPORTS_DECIDED, REPORTS_SENT: the end of one of the jobs is reported."""

    def holds(says: list[Say]) -> bool:
        return any(end.job in jobs for say in says if isinstance(say.report, Finished) for end in say.report.ends)

    return holds


class StartedAcknowledged:
    """TURN_HEARD: the broker has `started` of the jobs, all careful; they are handed over in what follows."""

    def __init__(self, jobs: Jobs) -> None:
        self._missing = set(jobs)

    def __call__(self, taken: Taken, acknowledged: list[Say], settled: bool) -> bool:
        self._missing -= {say.report.job for say in acknowledged if isinstance(say.report, Started)}
        return not self._missing


class Begun:
    """TURN_HEARD: the handlers of all the jobs have been called."""

    def __init__(self, jobs: Jobs) -> None:
        self._missing = set(jobs)

    def __call__(self, taken: Taken, acknowledged: list[Say], settled: bool) -> bool:
        self._missing -= {held.job.id for held, *_ in taken.begun}
        return not self._missing


class Reported:
    """TURN_HEARD: all the jobs ended in earlier turns, and the broker has every report of that."""

    def __init__(self, jobs: Jobs) -> None:
        self._missing = set(jobs)

    def __call__(self, taken: Taken, acknowledged: list[Say], settled: bool) -> bool:
        if not self._missing and settled:
            return True
        self._missing -= {held.job.id for held, _ in taken.ended}
        return False


MADE: Final[dict[str, Callable[[Jobs], Any]]] = {
    "read": read,
    "said started": said_started,
    "said ended": said_ended,
    "started acknowledged": StartedAcknowledged,
    "begun": Begun,
    "reported": Reported,
}
"""By name: makes a condition for the jobs that AtPoint names."""
