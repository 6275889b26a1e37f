"""Asking and changing topics. Safe in several threads; each call waits for at most the client's time-out."""

import concurrent.futures
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import admin as untyped

from jobyard.contracts.errors import ConfigurationError, JobyardError, ServiceUnavailable
from jobyard.contracts.rights import Operation, Right, rights_of
from jobyard.contracts.topics import Topic, lane_topics
from jobyard.kafka.described import Described, problems_of
from jobyard.kafka.failures import ABSENT, KafkaDenied, as_exception, error_in, failure_of, raised
from jobyard.kafka.heard import Heard
from jobyard.kafka.options import admin_options

_T = TypeVar("_T")
# The library's admin module has bare futures and dicts for types, and exports nothing: types are stated at each use below.
_library: Final[Any] = untyped
_LOOK_S: Final = 0.02
_REPLICAS: Final = 3
_NO_RIGHT: Final = "TOPIC_AUTHORIZATION_FAILED"
_OPERATIONS: Final[Mapping[Operation, str]] = {
    "Alter": "ALTER",
    "Create": "CREATE",
    "Delete": "DELETE",
    "Describe": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
    "Read": "READ",
    "Write": "WRITE",
}


class Admin:
    """The admin client. Kafka that does not answer: ServiceUnavailable; no right, or a wrong setting: ConfigurationError."""

    def __init__(self, bootstrap: str, options: Mapping[str, str], *, timeout_s: float = 10.0) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._heard = Heard()
        try:
            self._client: Any = _library.AdminClient({**admin_options(bootstrap, options), "error_cb": self._heard})
        except KafkaException as error:
            raise ConfigurationError(f"JOBYARD_KAFKA_OPTIONS: {raised(error, 'open an admin client')}") from None

    def reach(self) -> None:
        """Ask something that everybody may. KafkaDenied: the brokers let us not in, or we don't trust them; ServiceUnavailable: nobody answers."""
        self._brokers()

    def end_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The offset after the last message, of each partition, as it is now.

        Waits for partitions without a leader; ServiceUnavailable after the time-out, ConfigurationError if topic or partition is absent.
        """
        return self._offsets(topic, partitions, _library.OffsetSpec.latest())

    def begin_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The offset of the first message that there is, of each partition."""
        return self._offsets(topic, partitions, _library.OffsetSpec.earliest())

    def topic_ids(self, names: Sequence[str]) -> dict[str, str | None]:
        """The id of each topic; None: there is no such topic. A topic that is deleted and made again has a new id."""
        return {name: None if found is None else str(found.topic_id) for name, found in self._topics(names).items()}

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0: there is no such topic."""
        found = self._topics([topic])[topic]
        return 0 if found is None else len(found.partitions)

    def describe(self, names: Sequence[str]) -> dict[str, Described | None]:
        """Topics as they are, with all their settings; None: there is no such topic."""
        topics = self._topics(names)
        resources = {
            name: _library.ConfigResource(_library.ConfigResource.Type.TOPIC, name) for name, found in topics.items() if found is not None
        }
        configs: dict[Any, concurrent.futures.Future[Any]] = (
            self._asked("describe topics", lambda: self._client.describe_configs(list(resources.values()), request_timeout=self._timeout_s))
            if resources
            else {}
        )
        described: dict[str, Described | None] = {}
        for name, found in topics.items():
            if found is None:
                described[name] = None
                continue
            entries: dict[str, Any] | None = self._unless_absent(configs[resources[name]], f"describe topic {name}")
            if entries is None:  # deleted since it was found
                described[name] = None
                continue
            settings = {setting: str(entry.value) for setting, entry in entries.items()}
            described[name] = Described(name, str(found.topic_id), len(found.partitions), settings)
        return described

    def check(self, topics: Iterable[Topic]) -> list[str]:
        """What is wrong with these topics: a sentence each, that names topic, setting, value, what it must be, and the mend."""
        wanted = list(topics)
        described = self.describe([topic.name for topic in wanted])
        return [problem for topic in wanted for problem in problems_of(topic, described[topic.name], self._bootstrap)]

    def ensure(self, topics: Iterable[Topic], replication_factor: int | None = None) -> list[str]:
        """Make the topics that are missing, and check all. Returns the names of those made.

        Replicas: three, or one a broker if there are fewer. Raises ConfigurationError with all problems, one a line, if a topic is
        otherwise than it must be; existing topics are never changed.
        """
        wanted = list(topics)
        found = self._topics([topic.name for topic in wanted])
        missing = [topic for topic in wanted if found[topic.name] is None]
        made: list[str] = []
        if missing:
            replicas = replication_factor or min(_REPLICAS, self._brokers())
            made = self._create(missing, replicas)
            self._await_leaders(missing)
        problems = self.check(wanted)
        if problems:
            raise ConfigurationError("\n".join(problems))
        return made

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have `total` partitions; nothing happens if it has as many already. They answer a moment later: see `answering`."""
        if self.partitions(topic) >= total:
            return
        what = f"add partitions to {topic}"
        asked: dict[str, concurrent.futures.Future[Any]] = self._asked(
            what,
            lambda: self._client.create_partitions(
                [_library.NewPartitions(topic, total)], operation_timeout=self._timeout_s, request_timeout=self._timeout_s
            ),
        )
        try:
            self._result(asked[topic], what)
        except Exception:
            if self.partitions(topic) < total:  # else somebody else was faster
                raise
        # The controller has said yes; the brokers learn of it a moment later.
        deadline = time.monotonic() + self._timeout_s
        while self.partitions(topic) < total:
            if time.monotonic() > deadline:
                raise ServiceUnavailable(f"{topic} has no {total} partitions {self._timeout_s:g} s after they were made")
            time.sleep(_LOOK_S)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Delete all messages before an offset. Those deleted already are no error."""
        what = f"delete records of {topic}[{partition}] before {before_offset}"
        place = TopicPartition(topic, partition, before_offset)
        asked: dict[TopicPartition, concurrent.futures.Future[Any]] = self._asked(
            what,
            lambda: self._client.delete_records([place], operation_timeout=self._timeout_s, request_timeout=self._timeout_s),
        )
        self._result(asked[place], what)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all that is in them. Those that are absent are no error."""
        wanted = list(names)
        if not wanted:
            return
        asked: dict[str, concurrent.futures.Future[Any]] = self._asked(
            "delete topics",
            lambda: self._client.delete_topics(wanted, operation_timeout=self._timeout_s, request_timeout=self._timeout_s),
        )
        for name, future in asked.items():
            self._unless_absent(future, f"delete topic {name}")

    def demand(self, rights: Iterable[Right]) -> None:
        """Raises KafkaDenied with all that whoever asks may not of this, a line each. Of groups, and of topics that are not there, it says nothing."""
        wanted = {right.name: right for right in rights if right.resource == "topic"}
        lacking: list[str] = []
        for name, right in wanted.items():
            try:
                found = self._topics([name], operations=True)[name]
            except KafkaDenied as error:
                if error.code != _NO_RIGHT:
                    raise
                may: set[str] = set()
            else:
                if found is None:
                    continue
                may = {operation.name for operation in found.authorized_operations or ()}
            missing = [operation for operation in right.operations if operation != "Create" and _OPERATIONS[operation] not in may]
            if missing:
                lacking.append(
                    f"Kafka grants no {', '.join(missing)} on topic {name}: `jobyard topics acls` prints the rights that each process needs"
                )
        if lacking:
            raise KafkaDenied("\n".join(lacking), _NO_RIGHT)

    def allow(self, principal: str, rights: Iterable[Right], host: str = "*") -> None:
        """Let a principal ("User:shop") do this, from that host. What it may already stays; repeating is no error.

        ConfigurationError if whoever asks may not alter the cluster's ACLs, or the brokers have no authorizer.
        """
        wanted = [
            _library.AclBinding(
                _library.ResourceType[right.resource.upper()],
                right.name,
                _library.ResourcePatternType.LITERAL,
                principal,
                host,
                _library.AclOperation[_OPERATIONS[operation]],
                _library.AclPermissionType.ALLOW,
            )
            for right in rights
            for operation in right.operations
        ]
        what = f"let {principal} do what its process needs"
        asked: dict[Any, concurrent.futures.Future[Any]] = self._asked(
            what, lambda: self._client.create_acls(wanted, request_timeout=self._timeout_s)
        )
        for future in asked.values():
            self._result(future, what)

    def close(self) -> None:
        """End the client. Twice is safe; other calls after it fail."""
        self._client = None

    def _offsets(self, topic: str, partitions: Iterable[int], spec: Any) -> dict[int, int]:
        """Asks again, until the time-out, those that have no leader at the moment: just made, or on a broker that went away."""
        deadline = time.monotonic() + self._timeout_s
        wanted = set(partitions)
        found: dict[int, int] = {}
        while wanted:
            refused: JobyardError | None = None
            for partition, offset in self._offsets_now(topic, wanted, spec).items():
                if isinstance(offset, int):
                    found[partition] = offset
                    wanted.discard(partition)
                elif not isinstance(offset, ServiceUnavailable):
                    raise offset
                else:
                    refused = offset
            if refused is not None and time.monotonic() > deadline:
                raise refused
            if wanted:
                time.sleep(_LOOK_S)
        return found

    def _offsets_now(self, topic: str, partitions: Iterable[int], spec: Any) -> dict[int, int | JobyardError]:
        what = f"ask offsets of {topic}"
        places = {TopicPartition(topic, partition): spec for partition in partitions}
        if not places:
            return {}
        asked: dict[TopicPartition, concurrent.futures.Future[Any]] = self._asked(
            what, lambda: self._client.list_offsets(places, request_timeout=self._timeout_s)
        )
        answers: dict[int, int | JobyardError] = {}
        for place, future in asked.items():
            try:
                answers[place.partition] = int(self._result(future, f"{what}[{place.partition}]").offset)
            except JobyardError as error:
                answers[place.partition] = error
        return answers

    def _topics(self, names: Sequence[str], *, operations: bool = False) -> dict[str, Any]:
        """The library's descriptions; None: absent. `operations`: with what whoever asks may do with each."""
        if not names:
            return {}
        asked: dict[str, concurrent.futures.Future[Any]] = self._asked(
            "describe topics",
            lambda: self._client.describe_topics(
                TopicCollection(list(names)), include_authorized_operations=operations, request_timeout=self._timeout_s
            ),
        )
        return {name: self._unless_absent(asked[name], f"describe topic {name}") for name in names}

    def _brokers(self) -> int:
        metadata = self._asked("count the brokers", lambda: self._client.list_topics(timeout=self._timeout_s))
        return max(1, len(metadata.brokers))

    def _create(self, topics: list[Topic], replicas: int) -> list[str]:
        safe = {"min.insync.replicas": "2"} if replicas >= _REPLICAS else {}
        new = [
            _library.NewTopic(topic.name, num_partitions=topic.partitions, replication_factor=replicas, config=topic.settings | safe)
            for topic in topics
        ]
        asked: dict[str, concurrent.futures.Future[Any]] = self._asked(
            "create topics",
            lambda: self._client.create_topics(new, operation_timeout=self._timeout_s, request_timeout=self._timeout_s),
        )
        made: list[str] = []
        for name, future in asked.items():
            try:
                self._future(future, f"create topic {name}")
                made.append(name)
            except KafkaException as exception:
                error = error_in(exception)
                if error is None or error.code() != KafkaError.TOPIC_ALREADY_EXISTS:  # else somebody else was faster
                    raise self._raised(exception, f"create topic {name}") from None
        return made

    def _await_leaders(self, topics: list[Topic]) -> None:
        """Wait until each partition answers: a topic just made is not at once known to every broker."""
        deadline = time.monotonic() + self._timeout_s
        names = [topic.name for topic in topics]
        while True:
            found = self._topics(names)
            waiting = [
                topic.name
                for topic in topics
                if found[topic.name] is None or any(partition.leader is None for partition in found[topic.name].partitions)
            ]
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise ServiceUnavailable(f"topics that were made have no leader after {self._timeout_s:g} s: {', '.join(waiting)}")
            time.sleep(_LOOK_S)

    def _asked(self, what: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except KafkaException as exception:
            raise self._raised(exception, what) from None

    def _future(self, future: "concurrent.futures.Future[Any]", what: str) -> Any:
        try:
            # The library's own time-out comes first; this one is for the case that it doesn't.
            answer = future.result(self._timeout_s + 5.0)
        except concurrent.futures.TimeoutError:
            raise ServiceUnavailable(f"Kafka did not answer. {what}: nothing within {self._timeout_s:g} s") from None
        self._heard.worked()
        return answer

    def _raised(self, exception: KafkaException, what: str) -> JobyardError:
        """The exception to raise instead; for a time-out with what the library has said about the brokers meanwhile."""
        error = error_in(exception)
        if error is None or self._client is None:
            return raised(exception, what)
        self._client.poll(0)
        return as_exception(self._heard.instead_of(failure_of(error)), what)

    def _result(self, future: "concurrent.futures.Future[Any]", what: str) -> Any:
        try:
            return self._future(future, what)
        except KafkaException as exception:
            raise self._raised(exception, what) from None

    def _unless_absent(self, future: "concurrent.futures.Future[Any]", what: str) -> Any:
        """The result; None if the topic does not exist."""
        try:
            return self._future(future, what)
        except KafkaException as exception:
            error = error_in(exception)
            if error is not None and error.code() in ABSENT:
                return None
            raise self._raised(exception, what) from None


def ensure_topics(bootstrap: str, options: Mapping[str, str], namespace: str, lane: str) -> list[str]:
    """Make what is missing of a lane's four topics, and check them, and that a leader may do all that it must.

    Returns the names of those made; errors as of `Admin.ensure` and `Admin.demand`.
    """
    admin = Admin(bootstrap, options)
    try:
        made = admin.ensure(lane_topics(namespace, lane).all())
        admin.demand(rights_of("coordinator", namespace, lane))
        return made
    finally:
        admin.close()
