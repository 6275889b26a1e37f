"""What the coordinator needs of the world, as Protocols. Adapters prove themselves in the composition root."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import Finished
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.questions import Answers, Questions
from jobyard.coordinator.core.snapshot import Snapshot
from jobyard.kafka.consumer import Message, OutOfRange
from jobyard.kafka.failures import KafkaFailure

Prepare: TypeAlias = Callable[[Finished], list[str]]
"""The store's text of each end, made by the reader while the last tick commits."""


class Deposed(Exception):
    """Somebody else leads the lane (or the lease row is not ours any more): step down, produce nothing."""


class PendingMoved(Exception):
    """Rows of `pending` are not where they were read: somebody else has rewritten the table. The take-over reads them anew."""


class ClockSet(Exception):
    """The database's clock was set. What is remembered with times of before is not to be compared with times of now: take over again (T4)."""


class TopicsChanged(Exception):
    """A topic is not the one that was read so far (deleted and made again, or its tail lost): take over again (L17)."""


class KafkaSilent(Exception):
    """Kafka has not answered for `lost_after`: the lane is given up, somebody else may reach it (L24)."""


class Restored(Exception):
    """An agent has seen a higher epoch than the Master DB gives: this was restored from a backup (T1). `epoch`: the one to take over above."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"an agent knows epoch {epoch}: the Master DB was restored from a backup")
        self.epoch = epoch


class DataRefused(Exception):
    """The database refused a value of this tick: it would again. The tick is halved until the guilty message is alone (L18)."""


class Source(Protocol):
    """The consumer, as the reader sees it. Used by one thread; `close` by another after that thread's end."""

    def assign(self, partitions: Iterable[tuple[str, int, int]]) -> None:
        """Read these (topic, partition, offset)."""
        ...

    def consume(self, most: int, timeout_s: float = 0.0) -> Sequence[Message | OutOfRange]:
        """What has come, at most `most`; waits at most `timeout_s` for the first."""
        ...

    def position(self, topic: str, partition: int) -> int:
        """The offset that is read next, behind all that `consume` gave and behind marks of transactions, which are no messages."""
        ...

    def close(self) -> None: ...


class TopicAdmin(Protocol):
    """What leader and reader ask of the cluster. Each raises ServiceUnavailable when it doesn't answer."""

    def end_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]: ...
    def begin_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]: ...
    def topic_ids(self, names: Sequence[str]) -> dict[str, str | None]: ...
    def partitions(self, topic: str) -> int: ...
    def add_partitions(self, topic: str, total: int) -> None: ...
    def delete_records(self, topic: str, partition: int, before_offset: int) -> None: ...


@dataclass(slots=True)
class Term:
    """One leadership. `trusted_until`: on the leader's monotonic clock, seconds; counted from before the renewal was sent. `now`: the database's clock,
    read with the last renewal, which was sent after `asked_at` and answered before `answered_at` of the monotonic clock."""

    epoch: int
    trusted_until: float
    now: Instant
    asked_at: float = 0.0
    answered_at: float = 0.0


class LaneStore(Protocol):
    """One lane in the Master DB. Used by one thread; any exception but Deposed means: outcome unknown, take over anew (L3)."""

    def seize(self, at_least: int = 0) -> Term | None:
        """Take the lane if its lease is over or already ours (T1), with an epoch above `at_least`; commits. None: another's lease holds.

        `at_least` above the Master DB's epoch means that it was restored from a backup: the fence counter is raised by 10^9 as well."""
        ...

    def snapshot(self) -> Snapshot:
        """All that a lane's memory is made of, read after the epoch was taken (T2)."""
        ...

    def ask(self, questions: Questions) -> Answers:
        """Open the tick's transaction, insert what is new, look up the rest."""
        ...

    def write(self, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, term: Term) -> None:
        """Write the events, offsets and the lease; commit (L1). Renews `term`, but for its epoch. Deposed: the epoch was taken, nothing is written."""
        ...

    def sleep(self) -> None:
        """Give up the lock that tells submitters that this leader is awake (D8). Between two ticks."""
        ...

    def wake(self) -> None:
        """Take that lock again."""
        ...

    def release(self, term: Term) -> None:
        """End the lease at once, so that another may lead (an orderly end). Never raises."""
        ...

    def close(self) -> None:
        """Drop the connection; a transaction under way is lost. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Peer:
    """A coordinator that is alive. `wanted`: the only lanes that it leads; empty: all. `unable`: lanes that it could not lead just now.

    `settled`: it has been here for a while; until then nobody hands a lane over to it."""

    coordinator: str
    wanted: frozenset[str] = frozenset()
    unable: frozenset[str] = frozenset()
    settled: bool = True

    def may_lead(self, lane: str) -> bool:
        """Whether it can be given this lane."""
        return (not self.wanted or lane in self.wanted) and lane not in self.unable


@dataclass(frozen=True, slots=True)
class Seen:
    """One look, by the database's clock. `lanes`: all, with the coordinator whose lease holds; None: nobody's does. `peers`: who asked among them."""

    lanes: Mapping[str, str | None]
    peers: Sequence[Peer]


class Lanes(Protocol):
    """Which lanes there are, who leads them, and who else could (election)."""

    def look(self, wanted: Collection[str], unable: Collection[str]) -> Seen:
        """Say that we are alive, with the only lanes that we lead (none: all) and those that we could not lead just now; and see the others."""
        ...

    def leave(self) -> None:
        """Say that we are not there any more. Never raises."""
        ...


class Bus(Protocol):
    """The producer, as the sender sees it. Used by one thread, in which delivery callbacks run, too."""

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = 0,
        on_delivery: Callable[[KafkaFailure | None], None] | None = None,
    ) -> None:
        """Hand over one message; `on_delivery` is told what became of it. Raises if it can't be taken."""
        ...

    def poll(self, timeout_s: float = 0.0) -> int:
        """Serve delivery callbacks."""
        ...

    def flush(self, timeout_s: float) -> int:
        """Wait until all is delivered; how many were not."""
        ...

    def fatal(self) -> str | None:
        """Why it can do nothing more; None: it can."""
        ...

    def close(self, timeout_s: float = 0.0) -> int:
        """Give up what is not delivered."""
        ...


class Notices(Protocol):
    """Wake-ups from the database."""

    def wait(self, timeout_s: float) -> bool:
        """Whether somebody has woken this lane within the time. ServiceUnavailable if the connection is gone; the next call opens a new one."""
        ...

    def close(self) -> None:
        """Drop the connection. Never raises."""
        ...


class Clock(Protocol):
    """The database's clock, carried on by the monotonic one."""

    def heard(self, database_now: Instant, asked_at: float, answered_at: float) -> float:
        """Take a reading. How far the database's clock was set since the one before, in seconds; 0: it was not."""
        ...

    def now(self) -> Instant: ...
    def monotonic(self) -> float: ...
