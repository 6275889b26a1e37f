"""What Kafka's client library says went wrong, sorted in one place: unavailable, fatal, configuration or other."""

from typing import Final, Literal, TypeAlias

import msgspec
from confluent_kafka import KafkaError, KafkaException

from jobyard.contracts.errors import ConfigurationError, JobyardError, ServiceUnavailable

Sort: TypeAlias = Literal["unavailable", "fatal", "configuration", "other"]

_UNAVAILABLE: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY,
        KafkaError._ISR_INSUFF,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._PURGE_QUEUE,
        KafkaError._QUEUE_FULL,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REBOOTSTRAP_REQUIRED,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_CONFIGURATION: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._INVALID_ARG,
        KafkaError._SSL,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.SECURITY_DISABLED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_DELETION_DISABLED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.UNSUPPORTED_VERSION,
    }
)
ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""The topic or partition does not exist, or is not known yet to whom was asked."""


DENIED: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
"""The brokers do not let this user in, or we do not trust them."""
_NO_RIGHT: Final = frozenset(
    {KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}
)
_MENDS: Final[dict[int, str]] = {
    **dict.fromkeys(_NO_RIGHT, "this user has no such right: `jobyard topics acls` prints which ones each process needs"),
    **dict.fromkeys(
        (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED),
        "sasl.username, sasl.password or sasl.mechanism in JOBYARD_KAFKA_OPTIONS is wrong",
    ),
    KafkaError._SSL: (
        "ssl.ca.location in JOBYARD_KAFKA_OPTIONS must be the authority of the brokers' certificates, "
        "and these be made for the host names by which JOBYARD_KAFKA_BOOTSTRAP_SERVERS and the brokers call them"
    ),
}


class KafkaFailure(msgspec.Struct, frozen=True):
    """What failed. `message` says what to do about it, too, where that is known.

    `sort`: unavailable = try again later; fatal = this client can do nothing more, open a new one; configuration = somebody must mend
    settings or rights; other = this one message or request was refused. `denied`: for want of a right, or of a password or certificate that fits.
    """

    sort: Sort
    code: str
    message: str
    denied: bool = False


class KafkaRefused(JobyardError):
    """Kafka refused this one message or request; repeating it will not help."""

    def __init__(self, failure: KafkaFailure) -> None:
        super().__init__(f"Kafka refused: {failure.message} ({failure.code})")
        self.failure = failure


class KafkaDenied(ConfigurationError):
    """Kafka does not let this user in, or not do this; or we don't trust it. `code`: Kafka's name for that."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class KafkaClientDied(ServiceUnavailable):
    """The client can do nothing more; what it had not delivered must be sent again by a new one."""


def error_in(exception: KafkaException) -> KafkaError | None:
    """The library's error inside its exception; None if there is none."""
    inside: object = exception.args[0] if exception.args else None
    return inside if isinstance(inside, KafkaError) else None


def failure_of(error: KafkaError) -> KafkaFailure:
    """The library's error, sorted."""
    code = error.code()
    sort: Sort
    if error.fatal() or code == KafkaError._FATAL:
        sort = "fatal"
    elif code in _UNAVAILABLE:
        sort = "unavailable"
    elif code in _CONFIGURATION:
        sort = "configuration"
    else:
        sort = "unavailable" if error.retriable() else "other"
    mend = _MENDS.get(code)
    said = error.str().strip().rstrip(".")
    return KafkaFailure(sort, error.name(), f"{said}; {mend}" if mend else error.str(), code in _NO_RIGHT or code in DENIED)


def raised(exception: KafkaException, what: str) -> JobyardError:
    """The exception to raise instead, for `what` was being done ("create topic a.b.intake")."""
    error = error_in(exception)
    if error is None:
        return KafkaRefused(KafkaFailure("other", "UNKNOWN", f"{what}: {exception}"))
    return as_exception(failure_of(error), what)


def as_exception(failure: KafkaFailure, what: str) -> JobyardError:
    """The exception for a failure."""
    message = f"{what}: {failure.message} ({failure.code})"
    if failure.denied:
        return KafkaDenied(f"Kafka refused. {message}", failure.code)
    match failure.sort:
        case "unavailable":
            return ServiceUnavailable(f"Kafka did not answer. {message}")
        case "fatal":
            return KafkaClientDied(f"Kafka's client can't go on. {message}")
        case "configuration":
            return ConfigurationError(f"Kafka refused. {message}")
        case "other":
            return KafkaRefused(KafkaFailure("other", failure.code, f"{what}: {failure.message}"))
