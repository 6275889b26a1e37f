"""Kafka with TLS, passwords and access control: what each process' rights suffice for, what a stolen credential reaches, and how a refusal is told."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from servers.secured_kafka import Certificates, KafkaAdministrator, SecuredKafka, User, library

from jobyard.client import kafka as client_kafka
from jobyard.client.kafka import KafkaIntake
from jobyard.contracts.errors import ConfigurationError
from jobyard.contracts.job import NewJob
from jobyard.contracts.rights import rights_of
from jobyard.contracts.topics import LaneTopics, lane_topics
from jobyard.kafka.admin import Admin
from jobyard.kafka.consumer import BEGINNING, Message, open_consumer
from jobyard.kafka.failures import KafkaDenied, KafkaFailure
from jobyard.kafka.producer import open_producer

TESTS: Final = Path(__file__).parents[1]
NAMESPACE: Final = "sec"
OURS, OTHERS = lane_topics(NAMESPACE, "default"), lane_topics(NAMESPACE, "other")
PATIENCE_S: Final = 60.0
NO_RIGHT: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


class Place:
    """A secured Kafka with the topics of two lanes, and a user for each process of the first."""

    def __init__(self, kafka: SecuredKafka, certificates: Certificates, folder: Path) -> None:
        self.servers = kafka.bootstrap_servers
        self.admin_options = kafka.admin.options(certificates.ca)
        self.certificates = certificates
        self.folder = folder
        self.administrator = KafkaAdministrator(self.servers, self.admin_options)
        self.agent, self.client, self.coordinator, self.nobody = User("agents"), User("shop"), User("leader"), User("nobody")
        self.administrator.add(self.agent, self.client, self.coordinator, self.nobody)
        self.administrator.allow(self.agent, *rights_of("agent", NAMESPACE, "default"))
        self.administrator.allow(self.client, *rights_of("client", NAMESPACE, "default"))
        for lane in ("default", "other"):
            self.administrator.allow(self.coordinator, *rights_of("coordinator", NAMESPACE, lane))

    def options(self, user: User) -> dict[str, str]:
        options: dict[str, str] = user.options(self.certificates.ca)
        return options

    def admin_of(self, user: User) -> Admin:
        return Admin(self.servers, self.options(user))

    def send(self, user: User, topic: str, value: bytes = b"x") -> KafkaFailure | None:
        """What became of a message that this user sent."""
        told: list[KafkaFailure | None] = []
        producer = open_producer(self.servers, self.options(user), timeout_s=20.0)
        producer.produce(topic, value, on_delivery=told.append)
        deadline = time.monotonic() + PATIENCE_S
        while not told and time.monotonic() < deadline:
            producer.poll(0.1)
        producer.close()
        return told[0]

    def read(self, user: User, topic: str) -> Message:
        """The first message. KafkaDenied if this user may not."""
        consumer = open_consumer(self.servers, self.options(user), namespace=NAMESPACE)
        try:
            consumer.add([(topic, 0, BEGINNING)])
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                found = consumer.poll(0.2)
                if isinstance(found, Message):
                    return found
            raise AssertionError(f"nothing was read from {topic}, and nothing refused")
        finally:
            consumer.close()

    def settings(self, options: dict[str, str], **others: str) -> dict[str, str]:
        """The environment of a process, its password in a file."""
        file = self.folder / f"options-{abs(hash(json.dumps(options)))}.json"
        file.write_text(json.dumps(options))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("JOBYARD_")}
        ours = {
            "JOBYARD_KAFKA_BOOTSTRAP_SERVERS": self.servers,
            "JOBYARD_KAFKA_OPTIONS_FILE": str(file),
            "JOBYARD_NAMESPACE": NAMESPACE,
            "PYTHONPATH": str(TESTS),
        }
        return inherited | ours | others


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    folder = tmp_path_factory.mktemp("secured")
    certificates = Certificates(folder)
    with SecuredKafka(folder, certificates) as kafka:
        made = Place(kafka, certificates, folder)
        admin = made.admin_of(made.coordinator)
        for topics in (OURS, OTHERS):
            admin.ensure(topics.all())  # a leader's rights suffice for that
        admin.close()
        yield made


def test_each_process_can_work_with_its_rights_alone(place: Place) -> None:
    leader, agent = place.admin_of(place.coordinator), place.admin_of(place.agent)
    try:
        leader.demand(rights_of("coordinator", NAMESPACE, "default"))
        agent.demand(rights_of("agent", NAMESPACE, "default"))
        assert place.send(place.client, OURS.intake.name, b"job") is None
        assert place.read(place.coordinator, OURS.intake.name).value == b"job"
        for topic in (OURS.control.name, OURS.buckets.name):
            assert place.send(place.coordinator, topic, b"told") is None
            assert place.read(place.agent, topic).value == b"told"
            assert agent.end_offsets(topic, [0]) == {0: 1}
            assert agent.topic_ids([topic]) == leader.topic_ids([topic])
        assert place.send(place.agent, OURS.reports.name, b"did") is None
        assert place.read(place.coordinator, OURS.reports.name).value == b"did"
        leader.add_partitions(OURS.buckets.name, OURS.buckets.partitions + 10)
        for topic in (OURS.intake.name, OURS.reports.name):
            leader.delete_records(topic, 0, 1)
            assert leader.begin_offsets(topic, [0]) == {0: 1}
        assert leader.check(OURS.all()) == []
    finally:
        leader.close()
        agent.close()


# ---- a stolen credential of an agent ----

EVERYTHING: Final = library.AclBindingFilter(
    library.ResourceType.ANY, None, library.ResourcePatternType.ANY, None, None, library.AclOperation.ANY, library.AclPermissionType.ANY
)  # fmt: skip


class Stolen:
    """What a thief can try with an agent's user, by the client library as it is."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.user = place.agent
        self.plain: dict[str, Any] = {"bootstrap.servers": place.servers, "log_level": 0, **place.options(place.agent)}
        self.client: Any = library.AdminClient(self.plain)

    def wait(self, asked: dict[Any, Any]) -> None:
        """Raise what the broker has answered."""
        for future in asked.values():
            found: Any = future.result(30)
            errors = getattr(found, "errors", None)
            if errors:
                raise KafkaException(errors[0])

    def read(self, topic: str) -> None:
        """Who may not describe a topic is not told where its partitions are, and so has nobody to fetch from."""
        error = self.client.list_topics(topic, timeout=30).topics[topic].error
        if error is not None:
            raise KafkaException(error)
        self.place.read(self.user, topic)

    def write(self, topic: str) -> None:
        failure = self.place.send(self.user, topic)
        if failure is not None:
            raise KafkaDenied(failure.message, failure.code)

    def join(self, group: str) -> None:
        consumer = confluent_kafka.Consumer({**self.plain, "group.id": group})
        try:
            consumer.subscribe([OURS.control.name])
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                message = consumer.poll(0.2)
                error = None if message is None else message.error()
                if error is not None:
                    raise KafkaException(error)
        finally:
            consumer.close()

    def commit(self) -> None:
        consumer = confluent_kafka.Consumer({**self.plain, "group.id": f"{NAMESPACE}.assigned"})
        try:
            consumer.commit(offsets=[TopicPartition(OURS.control.name, 0, 1)], asynchronous=False)
        finally:
            consumer.close()

    def alter(self) -> None:
        resource = library.ConfigResource(library.ConfigResource.Type.TOPIC, OURS.reports.name)
        entry = library.ConfigEntry("retention.ms", "1", incremental_operation=library.AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        self.wait(self.client.incremental_alter_configs([resource]))

    def password(self) -> None:
        mechanism = library.ScramCredentialInfo(library.ScramMechanism.SCRAM_SHA_512, 4096)
        self.wait(self.client.alter_user_scram_credentials([library.UserScramCredentialUpsertion("admin", mechanism, b"stolen")]))


def reading(topic: str) -> Callable[[Stolen], object]:
    return lambda stolen: stolen.read(topic)


def writing(topic: str) -> Callable[[Stolen], object]:
    return lambda stolen: stolen.write(topic)


def names(topics: LaneTopics) -> list[str]:
    return [topic.name for topic in topics.all()]


ATTEMPTS: Final[dict[str, Callable[[Stolen], object]]] = {
    **{f"read {name}": reading(name) for name in (OURS.intake.name, OURS.reports.name, *names(OTHERS))},
    **{f"write {name}": writing(name) for name in (OURS.intake.name, OURS.control.name, OURS.buckets.name, *names(OTHERS))},
    "see another lane": lambda stolen: stolen.place.admin_of(stolen.user).topic_ids(names(OTHERS)),
    "create a topic": lambda stolen: stolen.wait(stolen.client.create_topics([library.NewTopic("sec.default.mine", 1, 1)])),
    "delete a topic": lambda stolen: stolen.wait(stolen.client.delete_topics([OURS.control.name])),
    "add partitions": lambda stolen: stolen.wait(stolen.client.create_partitions([library.NewPartitions(OURS.buckets.name, 500)])),
    "delete records": lambda stolen: stolen.wait(stolen.client.delete_records([TopicPartition(OURS.reports.name, 0, 1)])),
    "see settings": lambda stolen: stolen.place.admin_of(stolen.user).describe([OURS.reports.name]),
    "change settings": Stolen.alter,
    "give itself rights": lambda stolen: stolen.place.admin_of(stolen.user).allow(
        f"User:{stolen.user.name}", rights_of("agent", NAMESPACE, "other")
    ),
    "change a password": Stolen.password,
    "join the group that is named": lambda stolen: stolen.join(f"{NAMESPACE}.assigned"),
    "join another group": lambda stolen: stolen.join("mine"),
    "commit an offset": Stolen.commit,
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_stolen_agents_credential_is_refused_by_the_broker(place: Place, attempt: str) -> None:
    with pytest.raises((KafkaDenied, KafkaException)) as caught:
        ATTEMPTS[attempt](Stolen(place))
    error = caught.value
    if isinstance(error, KafkaDenied):
        assert error.code.endswith("AUTHORIZATION_FAILED"), error
    else:
        assert error.args[0].code() in NO_RIGHT, error


def test_the_controllers_own_address_lets_no_user_in(place: Place) -> None:
    properties = (place.folder / "kafka.properties").read_text()
    (controller,) = [line.partition("=")[2] for line in properties.splitlines() if line.startswith("controller.quorum.bootstrap.servers")]
    client = confluent_kafka.Producer({"bootstrap.servers": controller, "log_level": 0, **place.options(place.agent)})
    with pytest.raises(KafkaException) as caught:
        client.list_topics(timeout=2.0)
    assert caught.value.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)


def test_a_stolen_credential_sees_nobodys_rights(place: Place) -> None:
    """The client library makes an empty list of the broker's refusal: what counts is that nothing is in it."""
    assert Stolen(place).client.describe_acls(EVERYTHING).result(30) == []
    administrator = library.AdminClient({"bootstrap.servers": place.servers, **place.admin_options})
    assert len(administrator.describe_acls(EVERYTHING).result(30)) > 10


# ---- how a refusal is told ----

AGENT: Final = ("agent", "run", "promises.mixed_jobs:app")
SUBMIT: Final = ("job", "submit", "tiny", '{"n": 1}', "--via", "kafka")
CHECK: Final = ("topics", "check")
LEAD: Final = ("coordinator", "run")
DATABASE: Final = {"JOBYARD_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}


def ended(place: Place, commands: Sequence[tuple[tuple[str, ...], dict[str, str]]]) -> list[tuple[int, str]]:
    """Runs these at once; the exit status of each, and what it said. Each must end by itself."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "jobyard.cli.app", *words], env=environment, cwd=place.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for words, environment in commands
    ]  # fmt: skip
    try:
        return [(process.wait(), said) for process in started for said in [process.communicate(timeout=PATIENCE_S)[0]]]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_who_is_not_let_in_or_does_not_trust_ends_and_says_why(place: Place) -> None:
    right = place.options(place.agent)
    canary = "Kanarienvogel"
    password = right | {"sasl.password": canary}
    strange = right | {"ssl.ca.location": str(place.certificates.strange_ca)}
    host = {"JOBYARD_KAFKA_BOOTSTRAP_SERVERS": place.servers.replace("127.0.0.1", "localhost")}
    cases: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
        *((words, place.settings(password, **DATABASE), 2, "sasl.password") for words in (AGENT, SUBMIT, CHECK, LEAD)),
        *((words, place.settings(strange, **DATABASE), 2, "ssl.ca.location") for words in (AGENT, SUBMIT, LEAD)),
        (SUBMIT, place.settings(right, **host), 2, "host names"),
        (SUBMIT, place.settings({}), 4, "security.protocol"),
        (CHECK, place.settings({}), 4, "security.protocol"),
        (AGENT, place.settings(right | {"ssl.ca.location": "/nonexistent"}), 2, "ssl.ca.location"),
    ]
    for (words, _, code, said), (status, told) in zip(cases, ended(place, [case[:2] for case in cases]), strict=True):
        assert status == code, (words, told)
        assert said in told, words
        assert "Traceback" not in told
        for secret in (canary, place.agent.password):
            assert secret not in told


def test_who_lacks_a_right_is_told_which_and_where(place: Place) -> None:
    half = User("half")  # all that an agent needs, but for the group
    place.administrator.add(half)
    place.administrator.allow(half, *(right for right in rights_of("agent", NAMESPACE, "default") if right.resource == "topic"))
    nobody, agent = place.settings(place.options(place.nobody)), place.settings(place.options(place.agent))
    acls = ("topics", "acls", "--agent", "thief", "--apply")
    results = ended(
        place,
        [(AGENT, nobody), (SUBMIT, nobody), (SUBMIT, agent), (CHECK, agent), (acls, agent), (AGENT, place.settings(place.options(half)))],
    )
    assert [status for status, _ in results] == [2] * 6, results
    told = [said for _, said in results]
    for topic in (OURS.reports, OURS.control, OURS.buckets):
        assert f"on topic {topic.name}" in told[0]
    assert "Kafka grants no Describe, Write on topic sec.default.reports" in told[0]
    for said in told[1:3]:
        assert "Kafka grants no Describe, Write on topic sec.default.intake" in said
    assert "TOPIC_AUTHORIZATION_FAILED" in told[3]
    assert "CLUSTER_AUTHORIZATION_FAILED" in told[4]
    assert "GROUP_AUTHORIZATION_FAILED" in told[5]
    for said in told:
        assert "jobyard topics acls" in said
        assert "Traceback" not in said


@pytest.mark.parametrize("user", ["nobody", "wrong"])
def test_a_program_that_may_not_submit_is_told_so(place: Place, monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    monkeypatch.setattr(client_kafka, "ANSWER_S", 3.0)
    options = place.options(place.nobody) | ({"sasl.password": "Kanarienvogel"} if user == "wrong" else {})
    intake = KafkaIntake(place.servers, options, NAMESPACE)
    try:
        with pytest.raises(ConfigurationError, match=r"sec\.default\.intake") as caught:
            intake.submit("default", NewJob(kind="tiny"))
    finally:
        intake.close()
    assert ("sasl.password" if user == "wrong" else "jobyard topics acls") in str(caught.value)
    assert "Kanarienvogel" not in str(caught.value)


def test_the_command_makes_the_rights_that_it_prints(place: Place) -> None:
    admin = place.settings(place.admin_options)
    words = ("topics", "acls", "--lane", "made", "--agent", "maker-a", "--client", "User:maker-b", "--coordinator", "maker-c", "--json")
    (printed, made) = ended(place, [(words, admin), ((*words, "--apply"), admin)])
    assert (printed[0], made[0]) == (0, 0), (printed, made)
    assert printed[1] == made[1]
    wanted = {
        (row["principal"], row["resource"], row["name"], operation)
        for row in map(json.loads, printed[1].splitlines())
        for operation in row["operations"]
    }
    client = library.AdminClient({"bootstrap.servers": place.servers, **place.admin_options})
    found = {
        (acl.principal, acl.restype.name.lower(), acl.name, "".join(part.capitalize() for part in acl.operation.name.split("_")))
        for acl in client.describe_acls(EVERYTHING).result(30)
        if "maker" in acl.principal
    }
    assert found == wanted
