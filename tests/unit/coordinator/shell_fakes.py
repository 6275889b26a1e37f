"""Fakes of the coordinator's seams for tests of its shell: each does what its Protocol says, in memory."""

from collections.abc import Callable, Iterable, Sequence

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.questions import Answers, Questions
from jobyard.coordinator.core.snapshot import Snapshot
from jobyard.coordinator.seams import Bus, Clock, LaneStore, Source, Term, TopicAdmin
from jobyard.kafka.consumer import Message, OutOfRange
from jobyard.kafka.failures import KafkaFailure


class FakeClock:
    """Stands still until it is told to go on."""

    def __init__(self, now: Instant = 1_800_000_000.0) -> None:
        self.at = now

    def heard(self, database_now: Instant, asked_at: float, answered_at: float) -> float:
        return 0.0

    def now(self) -> Instant:
        return self.at

    def monotonic(self) -> float:
        return self.at - 1_000_000.0


class FakeSource:
    """Gives what was queued, then nothing."""

    def __init__(self) -> None:
        self.assigned: list[tuple[str, int, int]] = []
        self.queued: list[Message | OutOfRange] = []
        self.closed = False
        self.positions: dict[str, int] = {}

    def assign(self, partitions: Iterable[tuple[str, int, int]]) -> None:
        self.assigned = list(partitions)
        self.positions = {topic: offset for topic, _, offset in self.assigned}

    def position(self, topic: str, partition: int) -> int:
        return self.positions[topic]

    def consume(self, most: int, timeout_s: float = 0.0) -> list[Message | OutOfRange]:
        taken, self.queued = self.queued[:most], self.queued[most:]
        for message in taken:
            if isinstance(message, Message):
                self.positions[message.topic] = message.offset + 1
        return taken

    def close(self) -> None:
        self.closed = True


class FakeAdmin:
    """A cluster with these topics: name → id; end offsets as told; `silent`: answers nothing."""

    def __init__(self, ids: dict[str, str]) -> None:
        self.ids: dict[str, str | None] = dict(ids)
        self.ends: dict[tuple[str, int], int] = {}
        self.begins: dict[tuple[str, int], int] = {}
        self.count = 50
        self.deleted: dict[str, int] = {}
        self.silent = False

    def _answer(self) -> None:
        if self.silent:
            raise ServiceUnavailable("Kafka does not answer")

    def end_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        self._answer()
        return {partition: self.ends.get((topic, partition), 0) for partition in partitions}

    def begin_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        self._answer()
        return {partition: self.begins.get((topic, partition), 0) for partition in partitions}

    def topic_ids(self, names: Sequence[str]) -> dict[str, str | None]:
        self._answer()
        return {name: self.ids.get(name) for name in names}

    def partitions(self, topic: str) -> int:
        self._answer()
        return self.count

    def add_partitions(self, topic: str, total: int) -> None:
        self._answer()
        self.count = total

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        self._answer()
        self.deleted[topic] = before_offset


class FakeBus:
    """Keeps what was produced; `deliver` says what became of it."""

    def __init__(self) -> None:
        self.produced: list[tuple[str, int, bytes]] = []
        self._open: list[Callable[[KafkaFailure | None], None]] = []
        self.died: str | None = None
        self.closed = False

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = 0,
        on_delivery: Callable[[KafkaFailure | None], None] | None = None,
    ) -> None:
        self.produced.append((topic, partition, value))
        if on_delivery is not None:
            self._open.append(on_delivery)

    def deliver(self, failure: KafkaFailure | None = None) -> None:
        told, self._open = self._open, []
        for on_delivery in told:
            on_delivery(failure)

    def poll(self, timeout_s: float = 0.0) -> int:
        return 0

    def flush(self, timeout_s: float) -> int:
        self.deliver()
        return 0

    def fatal(self) -> str | None:
        return self.died

    def close(self, timeout_s: float = 0.0) -> int:
        self.closed = True
        return 0


class FakeStore:
    """Remembers what was asked of it; `asleep`: whether the lock of D8 was given up."""

    def __init__(self) -> None:
        self.asleep = False
        self.written: list[Sequence[Event]] = []

    def seize(self, at_least: int = 0) -> Term | None:
        return Term(1, 3.0, 1_800_000_000.0)

    def snapshot(self) -> Snapshot:
        return Snapshot(fence=0)

    def ask(self, questions: Questions) -> Answers:
        return Answers()

    def write(self, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, term: Term) -> None:
        self.written.append(events)

    def sleep(self) -> None:
        self.asleep = True

    def wake(self) -> None:
        self.asleep = False

    def release(self, term: Term) -> None:
        return

    def close(self) -> None:
        return


_clock: Clock = FakeClock()
_source: Source = FakeSource()
_admin: TopicAdmin = FakeAdmin({})
_bus: Bus = FakeBus()
_store: LaneStore = FakeStore()
