"""The wrappers on a real broker."""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import confluent_kafka
import pytest

from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.contracts.topics import LaneTopics, lane_topics
from jobyard.embedded.services import Addresses, Services
from jobyard.kafka.admin import Admin, ensure_topics
from jobyard.kafka.consumer import BEGINNING, Consumer, Message, OutOfRange, Read, open_consumer
from jobyard.kafka.failures import KafkaFailure, KafkaRefused
from jobyard.kafka.producer import Producer, open_producer

PATIENCE_S = 30.0


@pytest.fixture
def topics(services: Addresses, namespace: str) -> LaneTopics:
    """The topics of a lane, made."""
    ensure_topics(services.kafka_bootstrap_servers, {}, namespace, "default")
    return lane_topics(namespace, "default")


@pytest.fixture
def admin(services: Addresses) -> Generator[Admin]:
    opened = Admin(services.kafka_bootstrap_servers, {})
    yield opened
    opened.close()


@pytest.fixture
def producer(services: Addresses) -> Generator[Producer]:
    opened = open_producer(services.kafka_bootstrap_servers, {})
    yield opened
    opened.close()


@pytest.fixture
def consumer(services: Addresses) -> Generator[Consumer]:
    opened = open_consumer(services.kafka_bootstrap_servers, {})
    yield opened
    opened.close()


def read(consumer: Consumer, count: int) -> list[Read]:
    """So many, within the patience."""
    found: list[Read] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), 0.2)
    return found


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)


def values(found: list[Read]) -> list[bytes]:
    return [one.value for one in found if isinstance(one, Message)]


def test_what_is_sent_comes_once_in_order_and_deliveries_are_told(topics: LaneTopics, producer: Producer, consumer: Consumer) -> None:
    told: list[KafkaFailure | None] = []
    name = topics.intake.name
    consumer.assign([(name, 0, 0)])
    before = time.time()
    for number in range(500):
        producer.produce(name, b"%d" % number, key=b"k", on_delivery=told.append)
    assert producer.flush(PATIENCE_S) == 0
    assert told == [None] * 500
    found = read(consumer, 500)
    assert values(found) == [b"%d" % number for number in range(500)]
    first = found[0]
    assert isinstance(first, Message)
    assert (first.topic, first.partition, first.offset, first.key) == (name, 0, 0, b"k")
    assert before - 5 < first.timestamp_s < time.time() + 5
    assert consumer.poll(0.05) is None


def test_consume_waits_for_the_first_only(topics: LaneTopics, producer: Producer, consumer: Consumer) -> None:
    name = topics.intake.name
    consumer.assign([(name, 0, 0)])
    producer.produce(name, b"one")
    started = time.monotonic()
    assert values(consumer.consume(1000, PATIENCE_S)) == [b"one"]
    assert time.monotonic() - started < PATIENCE_S / 2


def test_a_position_passes_the_marks_of_transactions(
    topics: LaneTopics, admin: Admin, services: Addresses, consumer: Consumer, namespace: str
) -> None:
    name = topics.reports.name
    transactional = confluent_kafka.Producer({"bootstrap.servers": services.kafka_bootstrap_servers, "transactional.id": namespace})
    transactional.init_transactions(PATIENCE_S)
    consumer.assign([(name, 0, BEGINNING)])
    assert consumer.position(name, 0) == BEGINNING
    offsets: list[int] = []
    for number, settle in enumerate((transactional.commit_transaction, transactional.abort_transaction, transactional.commit_transaction)):
        transactional.begin_transaction()
        transactional.produce(name, b"%d" % number, partition=0)
        assert transactional.flush(PATIENCE_S) == 0  # what is aborted before it was sent leaves nothing
        settle(PATIENCE_S)
        end = 2 * (number + 1)  # a message, and the mark behind it
        until(lambda end=end: admin.end_offsets(name, [0]) == {0: end})  # type: ignore[misc]

        def passed(end: int = end) -> bool:
            offsets.extend(one.offset for one in consumer.consume(10, 0.1) if isinstance(one, Message))
            return consumer.position(name, 0) == end

        until(passed)
    assert offsets == [0, 2, 4]
    # whoever begins at a mark finds nothing but the mark
    consumer.remove([(name, 0)])
    with pytest.raises(KeyError):
        consumer.position(name, 0)
    consumer.add([(name, 0, 5)])
    assert consumer.position(name, 0) == 5
    until(lambda: consumer.consume(10, 0.1) == [] and consumer.position(name, 0) == 6)
    # a poll that takes a part of what was fetched stands before the rest
    consumer.assign([(name, 0, 0)])
    assert values([consumer.poll(PATIENCE_S) or OutOfRange("", 0)]) == [b"0"]
    assert consumer.position(name, 0) in (1, 2)


def test_adding_and_removing_disturbs_no_other(topics: LaneTopics, producer: Producer, consumer: Consumer) -> None:
    buckets, control = topics.buckets.name, topics.control.name
    for number in range(3):
        producer.produce(control, b"c%d" % number)
    producer.produce(buckets, b"b0", partition=7)
    producer.flush(PATIENCE_S)
    consumer.assign([(control, 0, 0)])
    assert values([consumer.poll(PATIENCE_S) or OutOfRange("", 0)]) == [b"c0"]
    consumer.add([(buckets, 7, 0)])
    assert sorted(values(read(consumer, 3))) == [b"b0", b"c1", b"c2"]
    consumer.remove([(buckets, 7)])
    producer.produce(buckets, b"b1", partition=7)
    producer.flush(PATIENCE_S)
    producer.produce(control, b"c3")
    assert values(read(consumer, 1)) == [b"c3"]


def test_a_topic_that_is_new_to_a_consumer_is_read_without_waiting_for_the_library(
    topics: LaneTopics, producer: Producer, services: Addresses
) -> None:
    buckets, control = topics.buckets.name, topics.control.name
    producer.produce(buckets, b"first")
    assert producer.flush(PATIENCE_S) == 0
    took: list[float] = []
    for _ in range(5):
        opened = open_consumer(services.kafka_bootstrap_servers, {"fetch.wait.max.ms": "10"})
        opened.add([(control, 0, 0)])
        assert opened.consume(1, 1.2) == []
        started = time.monotonic()
        opened.add([(buckets, 0, 0)])
        assert values(read(opened, 1)) == [b"first"]
        took.append(time.monotonic() - started)
        opened.close()
    # by itself the library looks for new topics once a second: half a second on the average
    assert min(took) < 0.2


@pytest.mark.parametrize("offset", [3, 1000])
def test_an_offset_out_of_range_is_a_value(offset: int, topics: LaneTopics, admin: Admin, producer: Producer, consumer: Consumer) -> None:
    name = topics.intake.name
    for number in range(10):
        producer.produce(name, b"%d" % number)
    producer.flush(PATIENCE_S)
    admin.delete_records(name, 0, 5)
    admin.delete_records(name, 0, 2)  # deleted already
    assert (admin.begin_offsets(name, [0]), admin.end_offsets(name, [0])) == ({0: 5}, {0: 10})
    consumer.assign([(name, 0, offset)])
    assert consumer.poll(PATIENCE_S) == OutOfRange(name, 0)
    consumer.assign([(name, 0, BEGINNING)])
    assert values(read(consumer, 5)) == [b"5", b"6", b"7", b"8", b"9"]


def test_partitions_added_under_producer_and_consumer_are_found(
    topics: LaneTopics, admin: Admin, producer: Producer, consumer: Consumer
) -> None:
    buckets = topics.buckets.name
    producer.produce(buckets, b"old", partition=49)
    consumer.assign([(buckets, 49, 0)])
    assert values(read(consumer, 1)) == [b"old"]
    admin.add_partitions(buckets, 100)
    admin.add_partitions(buckets, 100)  # as many as there are
    assert admin.partitions(buckets) == 100
    assert set(admin.end_offsets(buckets, range(50, 100))) == set(range(50, 100))  # asks until the new ones answer
    producer.produce(buckets, b"new", partition=99)
    consumer.add([(buckets, 99, 0)])
    assert values(read(consumer, 1)) == [b"new"]


def test_a_topic_made_again_has_a_new_id(topics: LaneTopics, admin: Admin, services: Addresses, namespace: str) -> None:
    name = topics.reports.name
    first = admin.topic_ids([name, "absent"])
    assert first["absent"] is None
    assert first[name]
    admin.delete_topics([name, "absent"])
    until(lambda: admin.topic_ids([name])[name] is None)
    assert ensure_topics(services.kafka_bootstrap_servers, {}, namespace, "default") == [name]
    assert admin.topic_ids([name])[name] not in (None, first[name])


def test_topics_are_made_once_with_their_settings(topics: LaneTopics, admin: Admin) -> None:
    assert admin.ensure(topics.all()) == []
    assert admin.check(topics.all()) == []
    described = admin.describe([topics.buckets.name])[topics.buckets.name]
    assert described is not None
    assert described.partitions == 50
    assert described.settings.items() >= {"retention.ms": "3600000", "max.message.bytes": "4194304", "cleanup.policy": "delete"}.items()


def test_a_topic_that_is_deleted_while_it_is_described_is_absent(topics: LaneTopics, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    name = topics.control.name
    find = admin._topics  # pyright: ignore[reportPrivateUsage] - between its two questions

    def found_and_gone(names: Sequence[str]) -> dict[str, Any]:
        found = find(names)
        admin.delete_topics([name])
        until(lambda: find([name])[name] is None)
        return found

    monkeypatch.setattr(admin, "_topics", found_and_gone)
    assert admin.describe([name]) == {name: None}


def test_a_topic_that_is_otherwise_is_an_error_that_names_the_mend(topics: LaneTopics, admin: Admin) -> None:
    wrong = replace(topics.control, partitions=2, settings=topics.control.settings | {"retention.ms": "5"})
    with pytest.raises(ConfigurationError) as caught:
        admin.ensure([wrong])
    first, second = str(caught.value).splitlines()
    assert "exactly 2" in first
    assert "retention.ms=3600000, and must have 5: run `kafka-configs" in second


def test_messages_too_large_and_partitions_unknown_are_refused_at_once(topics: LaneTopics, services: Addresses) -> None:
    producer = open_producer(services.kafka_bootstrap_servers, {}, block_s=1.0)
    with pytest.raises(KafkaRefused, match="too large"):
        producer.produce(topics.intake.name, b"x" * 4_200_000)
    producer.produce(topics.intake.name, b"x" * 4_100_000)
    assert producer.flush(PATIENCE_S) == 0
    producer.produce(topics.buckets.name, b"x", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    with pytest.raises(ConfigurationError, match=r"buckets\[500\]"):
        producer.produce(topics.buckets.name, b"x", partition=500)
    assert producer.close(1.0) == 0


def test_a_partition_unknown_to_a_new_producer_is_told_on_delivery(topics: LaneTopics, producer: Producer) -> None:
    told: list[KafkaFailure | None] = []
    producer.produce(topics.buckets.name, b"x", partition=500, on_delivery=told.append)
    assert producer.flush(PATIENCE_S) == 0
    (failure,) = told
    assert failure is not None
    assert failure.sort == "configuration"


def test_a_topic_that_is_not_there_is_told_on_delivery(namespace: str, producer: Producer) -> None:
    told: list[KafkaFailure | None] = []
    producer.produce(f"{namespace}.absent.intake", b"x", on_delivery=told.append)
    started = time.monotonic()
    assert producer.flush(PATIENCE_S) == 0
    assert time.monotonic() - started < 10  # what clients wait
    (failure,) = told
    assert failure is not None
    assert failure.sort == "configuration"


def test_a_full_buffer_waits_then_says_so(namespace: str) -> None:
    nobody = open_producer("127.0.0.1:1", {"queue.buffering.max.messages": "10"}, block_s=0.3)
    for _ in range(10):
        nobody.produce(f"{namespace}.default.intake", b"x")
    with pytest.raises(ServiceUnavailable, match="10 messages wait"):
        nobody.produce(f"{namespace}.default.intake", b"x")
    assert nobody.close() == 10


def test_a_producer_with_a_time_out_gives_up_and_tells(namespace: str) -> None:
    told: list[KafkaFailure | None] = []
    nobody = open_producer("127.0.0.1:1", {}, timeout_s=0.5)
    nobody.produce(f"{namespace}.default.intake", b"x", on_delivery=told.append)
    assert nobody.flush(PATIENCE_S) == 0
    (failure,) = told
    assert failure is not None
    assert failure.sort == "unavailable"
    assert nobody.fatal() is None
    nobody.close()


def test_nobody_there_is_unavailable_within_the_time_out() -> None:
    started = time.monotonic()
    with pytest.raises(ServiceUnavailable, match="topic x"):
        Admin("127.0.0.1:1", {}, timeout_s=0.5).topic_ids(["x"])
    assert time.monotonic() - started < 10


def test_a_restart_of_the_broker_is_lived_through(breakable_services: Services, namespace: str) -> None:
    servers = breakable_services.kafka_bootstrap_servers
    ensure_topics(servers, {}, namespace, "default")
    name = lane_topics(namespace, "default").intake.name
    producer, consumer = open_producer(servers, {}), open_consumer(servers, {})
    consumer.assign([(name, 0, 0)])
    producer.produce(name, b"before")
    assert values(read(consumer, 1)) == [b"before"]
    breakable_services.kill_kafka()
    told: list[KafkaFailure | None] = []
    producer.produce(name, b"meanwhile", on_delivery=told.append)
    assert consumer.consume(10, 0.5) == []  # hidden, not raised
    breakable_services.start_kafka()
    started = time.monotonic()
    assert producer.flush(PATIENCE_S) == 0
    assert told == [None]
    producer.produce(name, b"after")
    assert values(read(consumer, 2)) == [b"meanwhile", b"after"]
    assert time.monotonic() - started < 10
    assert servers == breakable_services.kafka_bootstrap_servers
    producer.close()
    consumer.close()
