"""Kafka, as far as the protocol sees it: topics with ids, partitions in the order of writing, offsets."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from jobyard.contracts.job import NewJob
from jobyard.contracts.moments import Instant

Name: TypeAlias = Literal["intake", "reports", "control", "buckets"]
BUCKETS = 5
PARTITIONS = 50


@dataclass(frozen=True, slots=True)
class Submitted:
    """A message of the intake topic, with the moment at which the broker appended it."""

    at: Instant
    job: NewJob


@dataclass(frozen=True, slots=True)
class Told:
    """A message of the control topic, and for whom it is: the others need not decode it."""

    agent: str
    raw: bytes


class Kafka:
    """`partitions`: how many buckets has; the others have one."""

    def __init__(self, partitions: int = PARTITIONS) -> None:
        self.partitions = partitions
        self._made: dict[Name, int] = {"intake": 1, "reports": 1, "control": 1, "buckets": 1}
        self._logs: dict[tuple[Name, int], list[object]] = {}
        self._deleted: dict[tuple[Name, int], int] = {}

    def topic_id(self, topic: Name) -> str:
        """Another one after the topic was made anew."""
        return f"{topic}-{self._made[topic]}"

    def append(self, topic: Name, partition: int, message: object) -> None:
        """At the end of the partition."""
        self._logs.setdefault((topic, partition), []).append(message)

    def begin(self, topic: Name, partition: int) -> int:
        """The first offset that is there."""
        return self._deleted.get((topic, partition), 0)

    def end(self, topic: Name, partition: int) -> int:
        """The offset of the next message."""
        key = (topic, partition)
        return self._deleted.get(key, 0) + len(self._logs.get(key, ()))

    def read(self, topic: Name, partition: int, offset: int, most: int = 1_000_000) -> list[object]:
        """The messages from an offset on. What was deleted is skipped."""
        key = (topic, partition)
        log = self._logs.get(key)
        if not log:
            return []
        start = max(0, offset - self._deleted.get(key, 0))
        return log[start : start + most]

    def delete(self, topic: Name, partition: int, before: int) -> None:
        """Forget what lies before an offset."""
        key = (topic, partition)
        log = self._logs.get(key)
        gone = before - self._deleted.get(key, 0)
        if log and gone > 0:
            del log[:gone]
            self._deleted[key] = before

    def remake(self, topic: Name) -> None:
        """Deleted, and made again: empty, under another id."""
        self._made[topic] += 1
        for key in [key for key in self._logs if key[0] == topic]:
            del self._logs[key]
        for key in [key for key in self._deleted if key[0] == topic]:
            del self._deleted[key]
