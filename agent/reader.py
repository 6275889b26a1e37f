"""Buckets and control from Kafka into the inbox: one consumer, partitions assigned, never a group (A1, A10)."""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from jobyard.agent.inbox import Inbox
from jobyard.contracts import codec
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Bucket, ControlMessage
from jobyard.contracts.errors import JobyardError
from jobyard.kafka.consumer import BEGINNING, Message, OutOfRange, Read
from jobyard.kafka.failures import KafkaDenied
from jobyard.process.seldom import Seldom

_log: Final = logging.getLogger(__name__)

_WAIT_S: Final = 0.1
"""A new assignment waits for the running poll at most so long."""
_MOST: Final = 500
_AGAIN_S: Final = 1.0
_DETAIL: Final = re.compile(r" - at .*|[0-9]+|'[^']*'|`[^`]*`")
"""What differs between two troubles of one kind: places, numbers, quoted values and names."""
_DENIED_S: Final = 10.0
"""So long it is tried again when a right is missing: while somebody changes rights, one may be gone for a moment."""


class Reading(Protocol):
    """The consumer, as far as it is needed here."""

    def expect(self, topics: Sequence[str]) -> None: ...
    def add(self, partitions: Sequence[tuple[str, int, int]]) -> None: ...
    def remove(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def consume(self, most: int, timeout_s: float = 0.0) -> list[Read]: ...
    def close(self) -> None: ...


class Asking(Protocol):
    """The admin client, as far as it is needed here."""

    def begin_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]: ...
    def end_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]: ...
    def topic_ids(self, names: Sequence[str]) -> dict[str, str | None]: ...


class _Place(msgspec.Struct, eq=False):
    """Where reading stands in a partition. `unsure`: what was read since the topic's id was last seen to be `topic_id`: offset → its mark.

    `skip`: that of the time before the topic was known to be new. Some of it may have been read in the new topic already; read again, a bundle
    forgotten meanwhile would start twice. The mark tells it from what only has the same offset as a message of the old topic.
    """

    topic_id: str | None
    next: int
    unsure: dict[int, int] = msgspec.field(default_factory=dict[int, int])
    skip: dict[int, int] = msgspec.field(default_factory=dict[int, int])


class Reader:
    """Its own thread; `assign`, `renew` and `stop` may be called from others. `give_up` is told, in its thread, when it may not read: it has ended then."""

    def __init__(
        self,
        open_consumer: Callable[[], Reading],
        admin: Asking,
        control: str,
        buckets: str,
        inbox: Inbox,
        ids_every_s: float,
        give_up: Callable[[JobyardError], None],
    ) -> None:
        self._open = open_consumer
        self._admin = admin
        self._control = control
        self._buckets = buckets
        self._inbox = inbox
        self._every_s = ids_every_s
        self._places: dict[tuple[str, int], _Place] = {}
        self._wanted: list[Bucket] | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._seldom = Seldom(_log)
        self._give_up = give_up
        self._denied_at: float | None = None
        self._stale = False

    def find_control(self) -> None:
        """Ask where control ends now: before the first hello, so that no answer to it is missed (A10). ServiceUnavailable."""
        topic_id = self._admin.topic_ids([self._control])[self._control]
        offset = self._admin.end_offsets(self._control, [0])[0]
        self._places[self._control, 0] = _Place(topic_id, offset)

    def assign(self, buckets: list[Bucket]) -> None:
        """Read these buckets from soon on, and no others. One that is being read already goes on (A1)."""
        with self._lock:
            self._wanted = buckets

    def renew(self) -> None:
        """Go on with another consumer soon."""
        _log.warning("the leader has not been heard for long: reading on with a new consumer")
        self._stale = True

    def stop(self) -> None:
        """Let `run` return."""
        self._stopping.set()

    def run(self) -> None:
        """Read until `stop`. A consumer that fails, or knows a topic that is no more, is replaced by another that goes on at the same places."""
        while not self._stopping.is_set():
            consumer: Reading | None = None
            try:
                consumer = self._open()
                consumer.expect([self._control, self._buckets])  # so that the first bundles after welcome wait for no look-up
                consumer.add([(topic, partition, place.next) for (topic, partition), place in self._places.items()])
                self._read(consumer)
            except KafkaDenied as error:
                if self._denied_for_long():
                    self._give_up(error)
                    return
                _log.warning("may not read: %s; tried again for %g s", error, _DENIED_S)
                self._stopping.wait(_AGAIN_S)
            except JobyardError as error:
                _log.warning("reading failed: %s; goes on with a new consumer", error)
                self._stopping.wait(_AGAIN_S)
            finally:
                if consumer is not None:
                    consumer.close()

    def _denied_for_long(self) -> bool:
        now = time.monotonic()
        if self._denied_at is None:
            self._denied_at = now
        return now - self._denied_at >= _DENIED_S

    def _read(self, consumer: Reading) -> None:
        self._stale = False
        look_at = time.monotonic() + self._every_s
        while not self._stopping.is_set():
            self._reassign(consumer)
            if self._stale:
                return
            control: list[ControlMessage] = []
            bundles: list[BundleMessage] = []
            try:
                for read in consumer.consume(_MOST, _WAIT_S):
                    if isinstance(read, OutOfRange):
                        self._find(consumer, read.topic, read.partition)
                    else:
                        self._decode(read, control, bundles)
            finally:
                # When `_find` fails, too: the places of these have moved on, so nobody reads them again.
                if control or bundles:
                    self._inbox.read(control, bundles)
            if time.monotonic() >= look_at:
                self._denied_at = None  # it has been read since
                self._look()
                look_at = time.monotonic() + self._every_s

    def _decode(self, message: Message, control: list[ControlMessage], bundles: list[BundleMessage]) -> None:
        place = self._places.get((message.topic, message.partition))
        if place is None:
            return  # of a bucket that was just taken away
        place.next = message.offset + 1
        mark = hash((message.timestamp_s, message.value))
        if place.skip and place.skip.pop(message.offset, None) == mark:
            return
        place.unsure[message.offset] = mark
        try:
            if message.topic == self._control:
                control.append(codec.decode_control(message.value))
            else:
                bundle = codec.decode_bundle(message.value)
                if bundle.bucket != message.partition:
                    raise codec.Undecodable(f"bundle for bucket {bundle.bucket} in partition {message.partition}")
                bundles.append(bundle)
        except codec.Undecodable as error:
            self._drop(message, error.reason)
        except Exception as error:  # a mistake of this program, that the same message would bring out again: it must not end the agent
            self._drop(message, f"the reader stumbled over it: {type(error).__name__}: {error}"[:500])

    def _drop(self, message: Message, reason: str) -> None:
        """A message that nobody understands: one line for each kind of trouble, however many there are."""
        where = f"{message.topic}[{message.partition}]@{message.offset}"
        kind = f"{message.topic} {_DETAIL.sub('', reason)[:60]}"
        self._seldom.say(logging.ERROR, kind, f"a message from the leader was dropped: {where}: {reason}", where=where)

    def _reassign(self, consumer: Reading) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        of_buckets = {bucket.partition: bucket for bucket in wanted}
        gone = [key for key in self._places if key[0] == self._buckets and key[1] not in of_buckets]
        for key in gone:
            del self._places[key]
        consumer.remove(gone)
        added: list[tuple[str, int, int]] = []
        for bucket in wanted:
            key = (self._buckets, bucket.partition)
            place = self._places.get(key)
            if place is None:
                self._places[key] = _Place(bucket.topic_id, bucket.start_offset)
                added.append((*key, bucket.start_offset))
            elif place.topic_id != bucket.topic_id:
                self._made_anew(key, place, bucket.topic_id)
        if not self._stale:
            consumer.add(added)

    def _made_anew(self, key: tuple[str, int], place: _Place, topic_id: str | None) -> None:
        """The topic has another id than the one read so far: from the beginning (A1), and by a new consumer.

        One that has read the old topic keeps what it knew of that: now and then it reads nothing of the new one, without a word.
        """
        _log.warning("topic %s was made anew: reading it from the beginning", key[0])
        place.topic_id, place.next, place.skip, place.unsure = topic_id, BEGINNING, place.unsure, {}
        self._stale = True

    def _look(self) -> None:
        """Ask for the topics' ids: the client library goes on at the old offset in a topic made anew, without a word."""
        try:
            ids = self._admin.topic_ids([self._control, self._buckets])
        except JobyardError as error:
            _log.debug("topic ids: %s", error)
            return
        for key, place in self._places.items():
            found = ids[key[0]]
            if found is None:
                continue
            if found != place.topic_id:
                self._made_anew(key, place, found)
            else:
                place.unsure.clear()

    def _find(self, consumer: Reading, topic: str, partition: int) -> None:
        """The next offset is not there. Deleted by retention: on from the first that there is. Beyond the end: see below."""
        key = (topic, partition)
        place = self._places.get(key)
        if place is None:
            return
        found = self._admin.topic_ids([topic])[topic]
        if found != place.topic_id:
            self._made_anew(key, place, found)
            return
        begin = self._admin.begin_offsets(topic, [partition])[partition]
        end = self._admin.end_offsets(topic, [partition])[partition]
        # Beyond the end of the same topic the broker has lost its tail. What lies before was read: read again, a bundle forgotten meanwhile would
        # start twice. What was lost or is skipped here the leader sends again (L12, L17).
        goes_on = begin if place.next < begin else end
        _log.warning("%s[%d]: offset %d is not there; going on at %d", topic, partition, place.next, goes_on)
        place.next = goes_on
        place.unsure.clear()
        consumer.remove([key])
        consumer.add([(*key, goes_on)])
