"""What Kafka's library says, sorted; what a topic must be; what options may say. No broker."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.contracts.topics import lane_topics
from jobyard.kafka.admin import Admin
from jobyard.kafka.consumer import open_consumer
from jobyard.kafka.described import Described, problems_of
from jobyard.kafka.failures import KafkaClientDied, KafkaDenied, KafkaFailure, KafkaRefused, failure_of, raised
from jobyard.kafka.heard import Heard
from jobyard.kafka.options import consumer_options, producer_options
from jobyard.kafka.producer import open_producer

TOPICS = lane_topics("jobyard", "default")


@pytest.mark.parametrize(
    ("error", "sort", "kind"),
    [
        (KafkaError(KafkaError._TRANSPORT), "unavailable", ServiceUnavailable),
        (KafkaError(KafkaError.NOT_ENOUGH_REPLICAS), "unavailable", ServiceUnavailable),
        (KafkaError(KafkaError._FATAL), "fatal", KafkaClientDied),
        (KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, fatal=True), "fatal", KafkaClientDied),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "configuration", KafkaDenied),
        (KafkaError(KafkaError._AUTHENTICATION), "configuration", KafkaDenied),
        (KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, fatal=True), "fatal", KafkaDenied),
        (KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "configuration", ConfigurationError),
        (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "other", KafkaRefused),
        (KafkaError(KafkaError.INVALID_TXN_STATE, retriable=True), "unavailable", ServiceUnavailable),
    ],
)
def test_errors_are_sorted(error: KafkaError, sort: str, kind: type[Exception]) -> None:
    assert failure_of(error).sort == sort
    found = raised(KafkaException(error), "send to a.b.c[0]")
    assert type(found) is kind
    assert "a.b.c[0]" in str(found)
    assert error.name() in str(found)


@pytest.mark.parametrize("option", ["acks", "enable.idempotence", "auto.offset.reset", "bootstrap.servers", "message.timeout.ms"])
def test_what_the_protocol_stands_on_cannot_be_changed(option: str) -> None:
    with pytest.raises(ConfigurationError, match=option):
        producer_options("h:1", {option: "1"}, 0, 0)
    with pytest.raises(ConfigurationError, match=option):
        consumer_options("h:1", {option: "1"}, "jobyard")


def test_other_options_win_over_our_choices_and_nothing_commits() -> None:
    found = consumer_options("h:1", {"fetch.wait.max.ms": "50", "security.protocol": "SSL"}, "shop")
    assert (found["fetch.wait.max.ms"], found["security.protocol"]) == ("50", "SSL")
    assert (found["enable.auto.commit"], found["auto.offset.reset"], found["group.id"]) == (False, "error", "shop.assigned")


def test_a_producer_never_gives_up_unless_told_when() -> None:
    assert producer_options("h:1", {}, 0, 0)["message.timeout.ms"] == 0
    found = producer_options("h:1", {}, 2.5, 0)
    assert (found["message.timeout.ms"], found["acks"], found["enable.idempotence"]) == (2500, "all", True)


def test_options_that_the_library_does_not_know_are_named() -> None:
    for open_ in (open_consumer, open_producer, Admin):
        with pytest.raises(ConfigurationError, match=r"no\.such\.option"):
            open_("127.0.0.1:1", {"no.such.option": "1"})


def test_no_address_is_said_plainly() -> None:
    with pytest.raises(ConfigurationError, match="JOBYARD_KAFKA_BOOTSTRAP_SERVERS"):
        open_consumer(" ", {})


def test_a_topic_as_it_must_be_has_no_problem() -> None:
    for topic in TOPICS.all():
        assert problems_of(topic, Described(topic.name, "x", topic.partitions, topic.settings | {"segment.ms": "1"}), "h:1") == []
    more = Described(TOPICS.buckets.name, "x", 75, TOPICS.buckets.settings)
    assert problems_of(TOPICS.buckets, more, "h:1") == []


def test_an_absent_topic_names_the_command() -> None:
    assert problems_of(TOPICS.intake, None, "h:1") == [
        "topic jobyard.default.intake does not exist: run `jobyard topics create --lane default`"
    ]


@pytest.mark.parametrize("partitions", [0, 2, 50])
def test_intake_has_exactly_one_partition(partitions: int) -> None:
    (problem,) = problems_of(TOPICS.intake, Described(TOPICS.intake.name, "x", partitions, TOPICS.intake.settings), "h:1")
    assert f"has {partitions} partitions, and must have exactly 1" in problem
    assert "--delete --topic jobyard.default.intake" in problem


def test_too_few_buckets_name_the_mend() -> None:
    (problem,) = problems_of(TOPICS.buckets, Described(TOPICS.buckets.name, "x", 49, TOPICS.buckets.settings), "h:1")
    assert "at least 50" in problem
    assert "--alter --topic jobyard.default.buckets --partitions 50" in problem


@pytest.mark.parametrize("setting", ["retention.ms", "cleanup.policy", "max.message.bytes", "retention.bytes"])
def test_a_wrong_setting_names_topic_setting_value_and_mend(setting: str) -> None:
    topic = replace(TOPICS.control)
    wrong = Described(topic.name, "x", 1, topic.settings | {setting: "77"})
    (problem,) = problems_of(topic, wrong, "h:1")
    assert problem.startswith(
        f"topic jobyard.default.control has {setting}=77, and must have {topic.settings[setting]}: run `kafka-configs"
    )
    assert problem.endswith(f"--add-config {setting}={topic.settings[setting]}`")


def heard(*errors: KafkaError) -> KafkaFailure:
    """What a time-out means after these."""
    said = Heard()
    for error in errors:
        said(error)
    return said.instead_of(failure_of(KafkaError(KafkaError._TIMED_OUT)))


def test_a_time_out_is_told_by_what_was_heard_meanwhile() -> None:
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    refused = KafkaError(KafkaError._TRANSPORT, "connection refused")
    password = KafkaError(KafkaError._AUTHENTICATION, "invalid credentials")
    assert heard().code == "_TIMED_OUT"
    assert heard(refused, down).message == "connection refused"
    assert "security.protocol" in heard(down).message
    assert heard(down).sort == "unavailable"
    assert heard(password, down, refused).denied
    assert "sasl.password" in heard(password).message


def test_what_was_heard_is_forgotten_once_something_works() -> None:
    said = Heard()
    said(KafkaError(KafkaError._SSL, "certificate verify failed"))
    said.worked()
    assert said.instead_of(failure_of(KafkaError(KafkaError._TIMED_OUT))).code == "_TIMED_OUT"


def test_only_time_outs_are_told_otherwise() -> None:
    said = Heard()
    said(KafkaError(KafkaError._SSL, "certificate verify failed"))
    assert said.instead_of(failure_of(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))).code == "MSG_SIZE_TOO_LARGE"
