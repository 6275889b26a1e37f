"""The share of placements that belongs to whoever has waited longest (S3)."""

from heapq import heapify, heappop, heappush

from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.books.strand import Strand
from jobyard.coordinator.core.books.waiting import WaitingJobs


class AgedShare:
    """Counts placements: of every `every`, one goes to the aged job with the earliest (due, id) that can be placed now, whatever its priority.

    A share and no step up in priority: raised step by step, an old backlog would overtake everything.
    """

    def __init__(self, waiting: WaitingJobs, aging_s: float, every: int) -> None:
        self._waiting = waiting
        self._aging = aging_s
        self._most = every - 1
        self._count = 0
        # of this pass: the heads that are aged and may find room; None: not looked for yet
        self._heads: list[tuple[Instant, str, Strand]] | None = None

    def begin(self) -> None:
        """A pass begins."""
        self._heads = None

    def aged(self, due: Instant, now: Instant) -> bool:
        """Whether a job due then has waited for `aging`."""
        return now - due >= self._aging

    def since(self, now: Instant) -> Instant:
        """Who is due then, or was before, is aged."""
        return now - self._aging

    def turn(self, now: Instant) -> Strand | None:
        """The strand whose head has waited longest, if the share is due and the head is aged; until `found_no_room` tells that it can't be placed."""
        if self._count < self._most:
            return None
        if self._heads is None:
            self._heads = [entry for entry in self._waiting.heads() if self.aged(entry[0], now)]
            heapify(self._heads)
        heads = self._heads
        while heads:
            due, job_id, strand = heads[0]
            if not strand.heap:
                heappop(heads)
                continue
            top = strand.heap[0]
            if top[0] == due and top[1] == job_id:
                return strand
            heappop(heads)
            if self.aged(top[0], now):
                heappush(heads, (top[0], top[1], strand))
        return None

    def found_no_room(self) -> None:
        """The strand that had its turn can't be placed in this pass: the next oldest is asked."""
        if self._heads:
            heappop(self._heads)

    def served(self, jobs: int, *, aged: bool, first: bool) -> None:
        """A bundle of so many was placed. `aged`: the share's one job. `first`: the share was due, and its job was first in order anyway."""
        if aged:
            self._count -= self._most
        else:
            if first:
                self._count, jobs = 0, jobs - 1
            self._count = min(self._count + jobs, max(self._most, jobs))
