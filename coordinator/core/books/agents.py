"""One incarnation of an agent, as the leader believes it to be: what it can do, what it holds, how fast it is."""

import math
from typing import TypeAlias

from jobyard.contracts.control import Bucket
from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.events import AgentState

_LEAST_BUSY_S = 0.05
_LEAST_RATE = 1e-300
_CLOCK_SET_BACK_S = 60.0
Entry: TypeAlias = "tuple[float, int, Agent]"


class Agent:
    """`heard`: when its last report was fetched. `met`: heard from under this epoch (L6). `seq`: of its last batch.

    `jobs`, `size`: held in open bundles; `others_jobs`, `others_size`: what its heartbeat says still runs from earlier incarnations. `alone`: an
    oversized job is held. `reserved`: kept for a large job (S7). `suspended`: its last heartbeat says that it starts
    nothing, for lack of a lease (A6). `gave_back`: see forget_rate. `buckets`: by priority, empty until it has got its partitions. `stamp`: of its last hello.
    """

    __slots__ = (
        "agent_id",
        "alone",
        "buckets",
        "busy_s",
        "busy_until",
        "capacity",
        "ended_jobs",
        "ended_size",
        "entry",
        "gave_back",
        "heard",
        "host",
        "incarnation",
        "jobs",
        "kinds",
        "lost_after_s",
        "met",
        "name",
        "others_jobs",
        "others_size",
        "reserved",
        "seq",
        "size",
        "slots",
        "stamp",
        "state",
        "suspended",
        "where",
    )

    def __init__(
        self,
        agent_id: int,
        name: str,
        incarnation: str,
        host: str,
        capacity: float,
        slots: int,
        kinds: dict[str, int],
        lost_after_s: float,
        heard: Instant,
        state: AgentState = "active",
    ) -> None:
        self.agent_id = agent_id
        self.name = name
        self.incarnation = incarnation
        self.host = host
        self.capacity = capacity
        self.slots = slots
        self.kinds = kinds
        self.lost_after_s = lost_after_s
        self.heard = heard
        self.state: AgentState = state
        self.met = False
        self.seq = 0
        self.stamp = 0.0
        self.buckets: list[Bucket] = []
        self.jobs = 0
        self.size = 0.0
        self.others_jobs = 0
        self.others_size = 0.0
        self.alone = False
        self.reserved = False
        self.suspended = False
        self.gave_back = False
        self.where: list[Entry] | None = None
        self.entry: Entry | None = None
        self.ended_jobs = 0.0
        self.ended_size = 0.0
        self.busy_s = 0.0
        self.busy_until: Instant = 0.0

    # -- what it has room for

    @property
    def held_jobs(self) -> int:
        """Jobs that it holds, those of earlier incarnations among them."""
        return self.jobs + self.others_jobs

    @property
    def held_size(self) -> float:
        """Sizes that it holds."""
        return self.size + self.others_size

    @property
    def load(self) -> float:
        """The larger of sizes held ÷ capacity and jobs held ÷ slots."""
        return max(self.held_size / self.capacity, self.held_jobs / self.slots)

    @property
    def free_room(self) -> float:
        """Capacity that nothing holds; negative if it is overfull."""
        return self.capacity - self.held_size

    def fits(self, size: float) -> bool:
        """Whether it has a free slot, and room for this size."""
        return self.held_jobs < self.slots and self.free_room >= size and not self.alone

    def window(self, window_s: float) -> tuple[int, float]:
        """How many jobs and sizes it may hold in all: its slots and what it ends within `window_s` at its own rate (S8)."""
        share = window_s / max(self.busy_s, _LEAST_BUSY_S)
        return self.slots + int(self.ended_jobs * share), self.capacity + self.ended_size * share

    # -- how fast it is

    @property
    def rate(self) -> tuple[float, float]:
        """Jobs and sizes that it ends a second while it has work."""
        busy = max(self.busy_s, _LEAST_BUSY_S)
        return self.ended_jobs / busy, max(self.ended_size / busy, _LEAST_RATE)

    def worked(self, ends: int, size: float, first: Instant, last: Instant, busy_s: float) -> None:
        """So many ended there. `first`, `last`: the earliest start and latest end of them by its own clock, so the leader's delay counts for nothing.

        Time that an earlier batch covered is not counted again. `busy_s`: what its monotonic clock says, 0: it doesn't say.
        """
        self.gave_back = False
        if self.busy_until > last + _CLOCK_SET_BACK_S:
            self.busy_until = first
        busy = max(0.0, last - max(first, self.busy_until))
        if busy_s and busy_s < busy:
            busy = busy_s
        if last > self.busy_until:
            self.busy_until = last
        faded = math.exp(-busy)
        self.ended_jobs = self.ended_jobs * faded + ends
        self.ended_size = self.ended_size * faded + size
        self.busy_s = self.busy_s * faded + busy

    def forget_rate(self) -> None:
        """It gave work back: until it ends something it gets only free slots, and those after everybody else's (S9)."""
        self.gave_back = True
        self.ended_jobs = 0.0
        self.ended_size = 0.0
        self.busy_s = 0.0
        self.busy_until = 0.0
