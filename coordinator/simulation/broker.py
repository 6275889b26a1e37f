"""Kafka: topics with ids, partitions with offsets, records that go by retention or with their topic."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from jobyard.contracts.codec import decode_control
from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.moments import Instant
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.simulation.schedule import Schedule

_TRIMMED: Final = 2_000
Watcher: TypeAlias = Callable[[str, int], None]
"""Told of each record: topic and partition."""


class Partition:
    """`first`: the offset of the first record that there is; `end`: that of the next one."""

    __slots__ = ("_base", "_records", "first")

    def __init__(self) -> None:
        self.first = 0
        self._base = 0
        self._records: list[tuple[bytes, Instant]] = []

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self._base + len(self._records)

    def append(self, value: bytes, at: Instant) -> int:
        """Its offset."""
        self._records.append((value, at))
        return self.end - 1

    def record(self, offset: int) -> tuple[bytes, Instant]:
        """A record that is there."""
        return self._records[offset - self._base]

    def delete_before(self, offset: int) -> None:
        """Records below are gone."""
        self.first = max(self.first, min(offset, self.end))
        if self.first - self._base > _TRIMMED:
            del self._records[: self.first - self._base]
            self._base = self.first


class Topic:
    """`id`: of this life of the name."""

    __slots__ = ("id", "lives", "name", "partitions")

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.lives = 1
        self.id = f"{name}#1"
        self.partitions = [Partition() for _ in range(partitions)]


class Broker:
    """All topics of a lane. `down_until`: nobody gets an answer before. Also the admin client of coordinators (TopicAdmin).

    `destroyed`: called before a topic's records are gone. `sparing`: of a control message only the agent that it names is told, and it reads no others: for
    lanes with many agents, where all the others would look at each message, and do nothing with it.
    """

    def __init__(self, schedule: Schedule, wall: Callable[[], Instant], topics: LaneTopics) -> None:
        self._schedule = schedule
        self._wall = wall
        self.topics = {topic.name: Topic(topic.name, topic.partitions) for topic in topics.all()}
        self.down_until = 0.0
        self.destroyed: Callable[[Topic], None] = lambda topic: None
        self.sparing = False
        self._control = topics.control.name
        self._offsets: dict[str, list[int]] = {}
        self._watchers: dict[tuple[str, int], list[tuple[str, Watcher]]] = {}
        self._named: dict[tuple[str, int, str], list[Watcher]] = {}

    @property
    def up(self) -> bool:
        """Whether it answers."""
        return self._schedule.now >= self.down_until

    def partition(self, topic: str, number: int) -> Partition | None:
        """None: the topic has fewer."""
        partitions = self.topics[topic].partitions
        return partitions[number] if number < len(partitions) else None

    def append(self, topic: str, number: int, value: bytes) -> int | None:
        """A record comes in; who watches the partition is told. None: there is no such partition."""
        partition = self.partition(topic, number)
        if partition is None:
            return None
        offset = partition.append(value, self._wall())
        if self.sparing and topic == self._control:
            name = decode_control(value).agent
            self._offsets.setdefault(name, []).append(offset)
            for watcher in self._named.get((topic, number, name), ()):
                watcher(topic, number)
        else:
            for _, watcher in self._watchers.get((topic, number), ()):
                watcher(topic, number)
        return offset

    def watch(self, topic: str, number: int, watcher: Watcher, name: str = "") -> None:
        """Be told of each record. `name`: of an agent."""
        self._watchers.setdefault((topic, number), []).append((name, watcher))
        self._named.setdefault((topic, number, name), []).append(watcher)

    def unwatch(self, topic: str, number: int, watcher: Watcher, name: str = "") -> None:
        """Be told no more."""
        self._watchers[topic, number].remove((name, watcher))
        self._named[topic, number, name].remove(watcher)

    def addressed(self, name: str, after: int) -> list[int]:
        """Offsets of the control messages to an agent, from this one on, while it is `sparing`."""
        offsets = self._offsets.get(name, [])
        return offsets[bisect_left(offsets, after) :]

    def destroy(self, name: str) -> None:
        """Deleted and made again, empty: with as many partitions as topics are made with."""
        topic = self.topics[name]
        if name == self._control:
            self._offsets.clear()
        self.destroyed(topic)
        topic.lives += 1
        topic.id = f"{name}#{topic.lives}"
        topic.partitions = [Partition() for _ in range(len(topic.partitions))]

    # -- what coordinators ask (TopicAdmin)

    def end_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        self._answer()
        return {number: self.topics[topic].partitions[number].end for number in partitions}

    def begin_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        self._answer()
        return {number: self.topics[topic].partitions[number].first for number in partitions}

    def topic_ids(self, names: Sequence[str]) -> dict[str, str | None]:
        self._answer()
        return {name: self.topics[name].id for name in names}

    def partitions(self, topic: str) -> int:
        self._answer()
        return len(self.topics[topic].partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self._answer()
        found = self.topics[topic].partitions
        found.extend(Partition() for _ in range(total - len(found)))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        self._answer()
        self.topics[topic].partitions[partition].delete_before(before_offset)

    def _answer(self) -> None:
        if not self.up:
            raise ServiceUnavailable("Kafka does not answer")
