"""When a message came is told by the broker, never by who sent it (L19)."""

import time
from collections.abc import Generator

import pytest
from confluent_kafka import Producer

from jobyard.contracts.topics import LaneTopics, lane_topics
from jobyard.embedded.services import Addresses
from jobyard.kafka.admin import Admin, ensure_topics
from jobyard.kafka.consumer import Message, open_consumer

PATIENCE_S = 30.0
OLD_MS = 1_000_000_000_000
"""In 2001."""


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


def sent_long_ago(services: Addresses, topic: str) -> Message:
    """What the reader gets of a message to which its producer gave an old time."""
    before = time.time()
    producer = Producer({"bootstrap.servers": services.kafka_bootstrap_servers})
    producer.produce(topic, b"x", timestamp=OLD_MS)
    assert producer.flush(PATIENCE_S) == 0
    consumer = open_consumer(services.kafka_bootstrap_servers, {})
    try:
        consumer.assign([(topic, 0, 0)])
        deadline = before + PATIENCE_S
        while time.time() < deadline:
            for found in consumer.consume(1, 0.2):
                assert isinstance(found, Message)
                return found
    finally:
        consumer.close()
    raise AssertionError("nothing came")


@pytest.mark.parametrize("which", ["intake", "reports"])
def test_L19_a_time_that_the_producer_gave_is_replaced_by_the_brokers(which: str, services: Addresses, topics: LaneTopics) -> None:
    before = time.time()
    topic = topics.intake if which == "intake" else topics.reports
    assert before - 1 <= sent_long_ago(services, topic.name).timestamp_s <= time.time() + 1


def test_L19_buckets_and_control_are_as_they_were(topics: LaneTopics) -> None:
    assert "message.timestamp.type" not in topics.buckets.settings | topics.control.settings


def test_L19_a_topic_made_by_an_earlier_version_is_told_with_its_mend(services: Addresses, topics: LaneTopics, admin: Admin) -> None:
    name = topics.intake.name
    admin.delete_topics([name])
    deadline = time.monotonic() + PATIENCE_S
    while admin.topic_ids([name])[name] is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    earlier = type(topics.intake)(
        name, 1, False, {key: value for key, value in topics.intake.settings.items() if key != "message.timestamp.type"}
    )
    admin.ensure([earlier])
    (problem,) = admin.check(topics.all())
    assert problem == (
        f"topic {name} has message.timestamp.type=CreateTime, and must have LogAppendTime: run `kafka-configs --bootstrap-server "
        f"{services.kafka_bootstrap_servers} --alter --entity-type topics --entity-name {name} --add-config message.timestamp.type=LogAppendTime`"
    )
