"""Reading partitions that were given: no group, no commit. Used by one thread."""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import confluent_kafka
import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from jobyard.contracts.errors import ConfigurationError
from jobyard.contracts.moments import Instant
from jobyard.kafka.failures import ABSENT, as_exception, failure_of, raised
from jobyard.kafka.options import LIBRARY_LOG, consumer_options

_log: Final = logging.getLogger(__name__)

BEGINNING: Final = -2
"""As an offset in `assign`: from the first message that there is."""

_SAID_AGAIN_S: Final = 10.0
_REFRESH_S: Final = 5.0
_LOOK_S: Final = 1.0


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message. `timestamp_s`: the instant of its record, 0 if it has none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    timestamp_s: Instant


class OutOfRange(msgspec.Struct, frozen=True):
    """The offset to read from is not there (deleted, or beyond the end). The partition stands still until it is assigned anew."""

    topic: str
    partition: int


Read: TypeAlias = Message | OutOfRange


class Consumer:
    """Reads what it was assigned. Broker failures that may pass are logged and hidden; no right to read is raised."""

    def __init__(self, client: confluent_kafka.Consumer) -> None:
        self._client = client
        self._said: dict[str, float] = {}
        self._assigned: dict[tuple[str, int], int] = {}
        self._looked: set[str] = set()

    def expect(self, topics: Iterable[str]) -> None:
        """Learn where these topics' partitions are, for at most a second each, so that they can be read as soon as they are added.

        Best before anything is assigned: behind a fetch that waits for messages, the brokers answer nothing else on the same connection.
        """
        for topic in topics:
            if topic not in self._looked:
                self._look(topic)

    def assign(self, partitions: Iterable[tuple[str, int, int]]) -> None:
        """Read exactly these, as (topic, partition, next offset). Those given up, and what was read ahead of them, are forgotten.

        A partition that is also in the former assignment starts anew at the offset given here.
        """
        self._assigned.clear()
        self._client.assign(self._places(partitions))

    def add(self, partitions: Iterable[tuple[str, int, int]]) -> None:
        """Read these, too; what is being read already goes on undisturbed."""
        self._client.incremental_assign(self._places(partitions))

    def remove(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these no longer."""
        given_up = list(partitions)
        self._client.incremental_unassign([TopicPartition(topic, partition) for topic, partition in given_up])
        for place in given_up:
            self._assigned.pop(place, None)

    def poll(self, timeout_s: float) -> Read | None:
        """The next message, waiting for at most `timeout_s` (0: not at all). None: nothing came."""
        deadline = time.monotonic() + timeout_s
        while True:
            message = self._client.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                return None
            read = self._read(message)
            if read is not None:
                return read

    def consume(self, most: int, timeout_s: float = 0.0) -> list[Read]:
        """At most `most` messages: waits for the first for at most `timeout_s`, then takes what is there without waiting."""
        first = self.poll(timeout_s)
        if first is None:
            return []
        # consume(n, t) of the library waits its time out unless n have come: so never with a time-out.
        taken: list[Read] = [first]
        if most > 1:
            for message in self._client.consume(most - 1, 0):
                read = self._read(message)
                if read is not None:
                    taken.append(read)
        return taken

    def position(self, topic: str, partition: int) -> int:
        """The offset that is read next: after the last message that `poll` or `consume` gave, and after the marks of transactions behind it.

        Those marks have offsets, but are no messages: a partition to which a transactional producer writes is read up to its end when this is the
        end, never when the last message's offset + 1 is. It passes a mark in the poll after it was fetched. Until the first message or mark:
        what the partition was assigned with. KeyError if it is not assigned.
        """
        assigned = self._assigned[topic, partition]
        found = self._client.position([TopicPartition(topic, partition)])[0].offset
        return found if found >= 0 else assigned

    def close(self) -> None:
        """Stop reading. Twice is safe."""
        self._client.close()

    def _places(self, partitions: Iterable[tuple[str, int, int]]) -> list[TopicPartition]:
        places = list(partitions)
        self.expect({topic for topic, _, _ in places})
        self._assigned.update({(topic, partition): offset for topic, partition, offset in places})
        return [TopicPartition(topic, partition, offset) for topic, partition, offset in places]

    def _look(self, topic: str) -> None:
        """Have the library learn where a topic's partitions are. By itself it asks for a topic that is new to it up to a second later."""
        try:
            self._client.list_topics(topic, timeout=_LOOK_S)
            self._looked.add(topic)
        except KafkaException as error:
            _log.debug("%s", raised(error, f"look for topic {topic}"))  # found later, by the library

    def _read(self, message: confluent_kafka.Message) -> Read | None:
        error = message.error()
        if error is not None:
            return self._failed(message, error)
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None  # noqa: S101 - so of each message read
        assert partition is not None  # noqa: S101
        assert offset is not None  # noqa: S101
        _, stamp = message.timestamp()
        return Message(topic, partition, offset, message.key(), message.value() or b"", max(0, stamp) / 1000)

    def _failed(self, message: confluent_kafka.Message, error: KafkaError) -> OutOfRange | None:
        topic, partition = message.topic(), message.partition()
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE) and topic is not None and partition is not None:
            return OutOfRange(topic, partition)
        failure = failure_of(error)
        where = f"{topic}[{partition}]" if topic is not None else "Kafka"
        if error.code() in ABSENT:
            # Just added, or made anew: the next look finds it. The library goes on by itself then.
            self._say(where, f"{where}: {failure.message} ({failure.code}); looking again every {_REFRESH_S:.0f} s")
            return None
        if failure.sort in ("configuration", "fatal"):
            raise as_exception(failure, f"read {where}")
        self._say(where, f"{where}: {failure.message} ({failure.code}); goes on when Kafka answers again")
        return None

    def _say(self, where: str, text: str) -> None:
        now = time.monotonic()
        if now - self._said.get(where, -_SAID_AGAIN_S) >= _SAID_AGAIN_S:
            self._said[where] = now
            _log.warning("%s", text)


def _heard(error: KafkaError) -> None:
    """Errors that concern no partition: brokers that went away, and come back."""
    _log.debug("Kafka: %s (%s)", error.str(), error.name())


def open_consumer(bootstrap: str, options: Mapping[str, str], *, namespace: str = "jobyard") -> Consumer:
    """A consumer without assignment. Connects in the background: that nobody answers is no error here.

    Raises ConfigurationError for an option that the library does not know or that is Jobyard's own.
    """
    settings = consumer_options(bootstrap, options, namespace)
    try:
        return Consumer(confluent_kafka.Consumer(settings, logger=LIBRARY_LOG, error_cb=_heard))
    except KafkaException as error:
        raise ConfigurationError(f"JOBYARD_KAFKA_OPTIONS: {raised(error, 'open a consumer')}") from None
