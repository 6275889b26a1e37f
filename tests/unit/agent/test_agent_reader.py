"""Where reading goes on when topics change under it: A1, A10."""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import pytest

from jobyard.agent.inbox import Inbox, Taken
from jobyard.agent.reader import Reader
from jobyard.contracts import codec
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Bucket, Drain
from jobyard.contracts.errors import JobyardError, ServiceUnavailable
from jobyard.kafka.consumer import BEGINNING, Message, OutOfRange, Read
from jobyard.kafka.failures import KafkaDenied

CONTROL, BUCKETS = "ns.default.control", "ns.default.buckets"
PATIENCE_S = 10.0


class Log:
    """Kafka, as far as a reader sees it: partitions with messages, topic ids, consumers and an admin client. One lock for all."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.ids: dict[str, str | None] = {CONTROL: "c1", BUCKETS: "b1"}
        self.first: dict[tuple[str, int], int] = {}
        self.messages: dict[tuple[str, int], list[bytes]] = {}
        self.at: dict[tuple[str, int], int] = {}
        self.added: list[tuple[str, int, int]] = []
        self.fails = 0
        self.admin_fails = 0
        self.opened = 0
        self.expected: list[str] = []

    def write(self, topic: str, partition: int, *values: bytes) -> None:
        with self.changed:
            self.messages.setdefault((topic, partition), []).extend(values)
            self.changed.notify_all()

    def made_anew(self, topic: str, new_id: str) -> None:
        with self.changed:
            self.ids[topic] = new_id
            for key in [key for key in self.messages if key[0] == topic]:
                self.messages[key] = []

    def until(self, holds: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, PATIENCE_S), "did not happen in time"

    # ---- the consumer ----

    def expect(self, topics: Sequence[str]) -> None:
        with self.changed:
            assert not self.at, "asked for before anything is read"
            self.expected = [*topics]

    def add(self, partitions: Sequence[tuple[str, int, int]]) -> None:
        with self.changed:
            for topic, partition, offset in partitions:
                self.added.append((topic, partition, offset))
                self.at[topic, partition] = self.first.get((topic, partition), 0) if offset == BEGINNING else offset
            self.changed.notify_all()

    def remove(self, partitions: Sequence[tuple[str, int]]) -> None:
        with self.changed:
            for key in partitions:
                del self.at[key]
            self.changed.notify_all()

    def consume(self, most: int, timeout_s: float = 0.0) -> list[Read]:
        with self.changed:
            if self.fails:
                self.fails -= 1
                raise ServiceUnavailable("broken")
            if not any(self._there(key) for key in self.at):
                self.changed.wait(0.01)
            return [read for key in list(self.at) for read in self._read(key)]

    def _there(self, key: tuple[str, int]) -> bool:
        return self.at[key] != self.first.get(key, 0) + len(self.messages.get(key, []))

    def _read(self, key: tuple[str, int]) -> list[Read]:
        first, messages, at = self.first.get(key, 0), self.messages.get(key, []), self.at[key]
        if not first <= at <= first + len(messages):
            return [OutOfRange(*key)]
        self.at[key] = first + len(messages)
        return [Message(*key, first + n, None, messages[n], 0.0) for n in range(at - first, len(messages))]

    def close(self) -> None:
        with self.changed:
            self.at.clear()

    # ---- the admin client ----

    def topic_ids(self, names: Sequence[str]) -> dict[str, str | None]:
        with self.changed:
            if self.admin_fails:
                self.admin_fails -= 1
                self.changed.notify_all()
                raise ServiceUnavailable("the admin client gets no answer")
            return {name: self.ids[name] for name in names}

    def begin_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        with self.changed:
            return {p: self.first.get((topic, p), 0) for p in partitions}

    def end_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        with self.changed:
            return {p: self.first.get((topic, p), 0) + len(self.messages.get((topic, p), [])) for p in partitions}


def drain(epoch: int) -> bytes:
    return codec.encode(Drain(v=1, epoch=epoch, agent="a", incarnation="i"))


def bundle(fence: int, bucket: int = 3) -> bytes:
    return codec.encode(BundleMessage(v=1, epoch=1, fence=fence, agent="a", incarnation="i", bucket=bucket, jobs=[], attempts=[], used=[]))


@contextmanager
def reading(log: Log, ids_every_s: float = 1000.0) -> Generator[tuple[Reader, Inbox]]:
    inbox = Inbox()
    given_up: list[JobyardError] = []

    def opened() -> Log:
        log.opened += 1
        return log

    reader = Reader(opened, log, CONTROL, BUCKETS, inbox, ids_every_s, given_up.append)
    reader.find_control()
    thread = threading.Thread(target=reader.run, daemon=True)
    thread.start()
    try:
        yield reader, inbox
    finally:
        reader.stop()
        inbox.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert given_up == []


def take(inbox: Inbox, enough: Callable[[Taken], bool]) -> Taken:
    """All that has come until it is enough."""
    total = Taken()
    for _ in range(1000):
        taken = inbox.take(0.01)
        total.control += taken.control
        total.bundles += taken.bundles
        if enough(total):
            return total
    raise AssertionError("did not come in time")


def fences(inbox: Inbox, count: int) -> list[int]:
    return [message.fence for message in take(inbox, lambda taken: len(taken.bundles) >= count).bundles]


def test_A10_control_is_read_from_where_it_ended_before_the_hello() -> None:
    log = Log()
    log.write(CONTROL, 0, drain(1), drain(2))
    with reading(log) as (_, inbox):
        log.write(CONTROL, 0, drain(3))
        assert [message.epoch for message in take(inbox, lambda taken: bool(taken.control)).control] == [3]
    assert log.expected == [CONTROL, BUCKETS]


def test_A1_buckets_are_read_from_their_start_offsets_and_only_while_assigned() -> None:
    log = Log()
    log.write(BUCKETS, 3, bundle(1), bundle(2), bundle(3))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 1)])
        assert fences(inbox, 2) == [2, 3]
        reader.assign([Bucket(2, 3, "b1", 0), Bucket(1, 4, "b1", 0)])  # what is being read goes on
        log.until(lambda: (BUCKETS, 4) in log.at)
        log.write(BUCKETS, 3, bundle(4))
        assert fences(inbox, 1) == [4]
        reader.assign([])
        log.until(lambda: list(log.at) == [(CONTROL, 0)])


def test_A1_another_topic_id_in_welcome_means_from_the_beginning() -> None:
    log = Log()
    log.write(BUCKETS, 3, bundle(1), bundle(2))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 2) == [1, 2]
        log.made_anew(BUCKETS, "b2")
        reader.assign([Bucket(2, 3, "b2", 0)])
        log.until(lambda: log.added[-1] == (BUCKETS, 3, BEGINNING))


def test_A1_a_topic_made_anew_is_noticed_by_its_id_and_read_from_the_beginning() -> None:
    log = Log()
    log.write(CONTROL, 0, drain(1))
    with reading(log, ids_every_s=0.05) as (_, inbox):
        log.made_anew(CONTROL, "c2")
        log.write(CONTROL, 0, drain(7), drain(8))
        # by a new consumer: the old one may keep what it knew of the old topic, and read nothing
        log.until(lambda: log.opened == 2)
        # the first offset in the new topic was never read in the old one
        assert 7 in [message.epoch for message in take(inbox, lambda taken: len(taken.control) >= 2).control]


def test_a_reader_that_is_told_to_renews_its_consumer_and_misses_nothing() -> None:
    log = Log()
    log.write(BUCKETS, 3, bundle(1))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 1) == [1]
        reader.renew()
        log.until(lambda: log.opened == 2)
        log.write(BUCKETS, 3, bundle(2))
        assert fences(inbox, 1) == [2]


def test_A1_nothing_of_a_new_topic_is_skipped_for_what_was_read_in_the_old_one() -> None:
    log = Log()
    log.write(BUCKETS, 3, bundle(1), bundle(2), bundle(3))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 3) == [1, 2, 3]
        log.made_anew(BUCKETS, "b2")
        log.write(BUCKETS, 3, bundle(4), bundle(5))
        reader.assign([Bucket(2, 3, "b2", 0)])
        assert fences(inbox, 2) == [4, 5]


def test_A1_what_was_read_in_a_new_topic_before_it_was_known_is_not_read_twice() -> None:
    log = Log()
    log.write(BUCKETS, 3, bundle(1))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 1) == [1]
        with log.changed:  # the library goes on at the old offset, 1
            log.ids[BUCKETS] = "b2"
            log.messages[BUCKETS, 3] = [bundle(2), bundle(3)]
        assert fences(inbox, 1) == [3]
        reader.assign([Bucket(2, 3, "b2", 0)])
        assert fences(inbox, 1) == [2]
        log.write(BUCKETS, 3, bundle(4))
        assert fences(inbox, 1) == [4]


def test_A1_an_offset_that_retention_has_deleted_means_from_the_first_there_is() -> None:
    log = Log()
    log.first[BUCKETS, 3] = 10
    log.write(BUCKETS, 3, bundle(1), bundle(2))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 4)])
        assert fences(inbox, 2) == [1, 2]


def test_A1_an_offset_beyond_the_end_of_a_new_topic_means_from_the_beginning() -> None:
    log = Log()
    log.write(BUCKETS, 3, bundle(1))
    with reading(log) as (reader, inbox):
        log.ids[BUCKETS] = "b2"
        reader.assign([Bucket(2, 3, "b1", 9)])
        assert fences(inbox, 1) == [1]


def test_a_lost_tail_of_the_same_topic_is_not_read_again() -> None:
    log = Log()
    log.write(BUCKETS, 3, bundle(1), bundle(2), bundle(3))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 3) == [1, 2, 3]
        with log.changed:
            del log.messages[BUCKETS, 3][2:]
        log.until(lambda: log.at[BUCKETS, 3] == 2)
        log.write(BUCKETS, 3, bundle(4))
        assert fences(inbox, 1) == [4]


def test_a_consumer_that_fails_is_replaced_and_reading_goes_on() -> None:
    log = Log()
    log.write(BUCKETS, 3, bundle(1))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 1) == [1]
        with log.changed:
            log.fails = 1
        log.until(lambda: log.fails == 0)
        log.write(BUCKETS, 3, bundle(2))
        assert fences(inbox, 1) == [2]
        assert log.opened == 2


def test_what_was_read_before_a_failure_of_the_admin_client_is_handed_over() -> None:
    log = Log()
    with reading(log) as (reader, inbox):
        with log.changed:
            # both come in one read: a message of one bucket, then that the offset of the other is not there
            log.admin_fails = 1
            log.write(BUCKETS, 3, bundle(1))
            log.write(BUCKETS, 4, bundle(2, 4))
            reader.assign([Bucket(2, 3, "b1", 0), Bucket(1, 4, "b1", 7)])
        assert fences(inbox, 1) == [1]
        log.until(lambda: log.admin_fails == 0)
        log.until(lambda: log.opened == 2 and log.at.get((BUCKETS, 4)) == 1)  # as after a lost tail
        log.write(BUCKETS, 4, bundle(3, 4))
        assert fences(inbox, 1) == [3]


def test_what_cannot_be_decoded_is_dropped_and_reading_goes_on() -> None:
    log = Log()
    log.write(BUCKETS, 3, b"no json", b'{"v": 99}', bundle(5))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 1) == [5]


def test_a_bundle_for_another_bucket_than_the_one_it_lies_in_is_dropped() -> None:
    """Its `open` would close what is open in that one (A5)."""
    log = Log()
    log.write(BUCKETS, 3, bundle(4, 2), bundle(5))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 1) == [5]


def test_of_many_bad_messages_few_lines_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    log.write(BUCKETS, 3, *[b"no json" + b"!" * n for n in range(500)], *[b'{"v": %d}' % n for n in range(500)], bundle(5))
    with reading(log) as (reader, inbox):
        reader.assign([Bucket(2, 3, "b1", 0)])
        assert fences(inbox, 1) == [5]
    said = [record.getMessage() for record in caplog.records if "was dropped" in record.getMessage()]
    assert 2 <= len(said) <= 4


class Denying(Log):
    """A consumer that may not read: as often as `times`, then it may."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def consume(self, most: int, timeout_s: float = 0.0) -> list[Read]:
        if self.times:
            self.times -= 1
            raise KafkaDenied("no right", "TOPIC_AUTHORIZATION_FAILED")
        return super().consume(most, timeout_s)


@pytest.mark.parametrize(("patience_s", "gives_up"), [(0.0, True), (60.0, False)])
def test_who_may_not_read_gives_up_after_a_while(monkeypatch: pytest.MonkeyPatch, patience_s: float, gives_up: bool) -> None:
    monkeypatch.setattr("jobyard.agent.reader._DENIED_S", patience_s)
    monkeypatch.setattr("jobyard.agent.reader._AGAIN_S", 0.0)
    log, inbox, given_up = Denying(2), Inbox(), list[JobyardError]()
    reader = Reader(lambda: log, log, CONTROL, BUCKETS, inbox, 0.0, given_up.append)
    reader.find_control()
    thread = threading.Thread(target=reader.run, daemon=True)
    thread.start()
    log.write(CONTROL, 0, drain(7))
    try:
        if gives_up:
            thread.join(PATIENCE_S)
            assert [str(error) for error in given_up] == ["no right"]
        else:
            assert take(inbox, lambda taken: bool(taken.control)).control == [codec.decode_control(drain(7))]
            assert given_up == []
    finally:
        reader.stop()
        inbox.close()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
