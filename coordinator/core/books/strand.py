"""A strand: what waits in one order, in which nobody passes anybody (S4)."""

from typing import TypeAlias

from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.books.backlog import Backlog
from jobyard.coordinator.core.books.durations import Duration
from jobyard.coordinator.core.books.turns import Turn
from jobyard.coordinator.core.places import Waiting

Entry: TypeAlias = tuple[Instant, str, int, Waiting]
"""run_at, id, and a number that is never the same, so that jobs are never compared."""


class Strand:
    """Waiting jobs of one priority, kind, version and size class; of one submitter, too, where the lane shares fairly. The top of the heap is always one
    that still waits.

    `dropped`: how many entries below it, at most, are of jobs that wait here no longer.
    """

    __slots__ = ("backlog", "dropped", "duration", "heap", "kind", "priority", "size_class", "turn", "version")

    def __init__(self, priority: int, kind: str, version: int, size_class: int, backlog: Backlog, duration: Duration, turn: Turn) -> None:
        self.priority = priority
        self.kind = kind
        self.version = version
        self.size_class = size_class
        self.backlog = backlog
        self.duration = duration
        self.turn = turn
        self.heap: list[Entry] = []
        self.dropped = 0
