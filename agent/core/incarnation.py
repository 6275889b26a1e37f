"""Who this agent is at the moment, and which messages are meant for it (A1, A2, A10, A12)."""

from collections.abc import Callable
from typing import Protocol

from jobyard.agent.core.lease import Lease
from jobyard.contracts.control import Bucket


class Life:
    """One incarnation.

    `introduced`: hello was said. `buckets`: as welcome said; empty before. `lost_after_s`: what welcome said, never a local setting (A6).
    """

    __slots__ = ("buckets", "id", "introduced", "lease", "lost_after_s", "priorities", "welcomed")

    def __init__(self, incarnation: str) -> None:
        self.id = incarnation
        self.lease = Lease()
        self.introduced = False
        self.welcomed = False
        self.lost_after_s = 0.0
        self.buckets: list[Bucket] = []
        self.priorities: dict[int, int] = {}

    def assigned(self, buckets: list[Bucket]) -> bool:
        """Take the buckets of a welcome; whether they differ from those read so far. A start offset alone is no difference: it only saves reading (A1)."""
        differs = [(b.priority, b.partition, b.topic_id) for b in buckets] != [(b.priority, b.partition, b.topic_id) for b in self.buckets]
        if differs:
            self.buckets = buckets
            self.priorities = {b.partition: b.priority for b in buckets}
        return differs


class Addressed(Protocol):
    """What every message from a leader carries."""

    @property
    def epoch(self) -> int: ...
    @property
    def agent(self) -> str: ...
    @property
    def incarnation(self) -> str: ...


class Incarnations:
    """The agent's name, its current life and the highest epoch seen. `fresh` gives UUIDs; it comes from outside, so that the core draws nothing."""

    def __init__(self, name: str, fresh: Callable[[], str]) -> None:
        self.name = name
        self.epoch = 0
        self._fresh = fresh
        self.life = Life(fresh())

    def accepts(self, message: Addressed) -> bool:
        """Whether the message is for this life (A1) and from no deposed leader (A2); remembers its epoch."""
        if message.incarnation != self.life.id or message.agent != self.name or message.epoch < self.epoch:
            return False
        self.epoch = message.epoch
        return True

    def renew(self) -> None:
        """Fenced: the lease ends at once, and a new life begins without one (A12)."""
        self.life.lease.end()
        self.life = Life(self._fresh())
