"""From our few settings, and the user's librdkafka options, to what the client library is given."""

import logging
import time
from collections.abc import Mapping
from typing import Final

from jobyard.contracts.errors import ConfigurationError
from jobyard.contracts.topics import MAX_MESSAGE_BYTES, assigned_group

_SAID_AGAIN_S: Final = 30.0


class _Now(logging.Filter):
    """While a broker is away the library says the same several times a second: each kind ("FAIL", "REQTMOUT") passes once in 30 s."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.args[0]) if isinstance(record.args, tuple) and record.args else record.getMessage()
        now = time.monotonic()
        if now - self._said.get(kind, -_SAID_AGAIN_S) < _SAID_AGAIN_S:
            return False
        self._said[kind] = now
        return True


class _Passing(logging.Filter):
    """A broker that has just started is not ready for a moment. The library tries again by itself, and so nobody needs to be told."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        if kind == "GETPID" and record.levelno > logging.DEBUG and record.getMessage().rstrip().endswith(": retrying"):
            record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
            return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)
        return True


LIBRARY_LOG: Final = logging.getLogger("jobyard.kafka.library")
"""What librdkafka itself has to say; heard inside poll, flush and produce, in their thread."""
LIBRARY_LOG.addFilter(_Passing())
LIBRARY_LOG.addFilter(_Now())

_OURS: Final = frozenset(
    {
        "acks",
        "allow.auto.create.topics",
        "auto.commit.enable",
        "auto.offset.reset",
        "bootstrap.servers",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "linger.ms",
        "message.max.bytes",
        "message.timeout.ms",
        "metadata.broker.list",
        "queue.buffering.max.ms",
        "request.required.acks",
        "transactional.id",
    }
)
"""The protocol stands on these; nobody may change them."""

_COMMON: Final[Mapping[str, str | int | bool]] = {
    "client.id": "jobyard",
    # A broker that comes back is used again within a second (the library's default lets it wait for up to ten).
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    # A connection that was cut without a word is given up after this, well before an agent is declared lost (15 s).
    "socket.timeout.ms": 6_000,
    "socket.keepalive.enable": True,
    # Messages are small and wanted at once.
    "socket.nagle.disable": True,
    # New partitions and topics made anew are noticed without being told. One small request.
    "topic.metadata.refresh.interval.ms": 5_000,
    "allow.auto.create.topics": False,
    # Idle connections being closed is no news.
    "log.connection.close": False,
}

_CONSUMER: Final[Mapping[str, str | int | bool]] = {
    # The leader keeps the offsets, in the Master DB: nothing is ever committed to Kafka.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Out of range is told as a value; the library must not jump by itself.
    "auto.offset.reset": "error",
    "isolation.level": "read_uncommitted",
    # One byte ends the broker's wait, so a long wait costs no latency, but once: what is added joins with the next request, and welcome has just
    # started one. So an agent's first job starts 0.22 s after its hello; with 500 here it is 0.55 s. Shorter costs an idle consumer little (500:
    # 1.7 ms of CPU a second, 100: 2.2), but the broker a request each time: with a thousand idle agents 5,000 a second at 200, 10,000 at 100.
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 200,
    # Read ahead while a tick commits, yet bounded: 16 MiB hold several ticks of batches.
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 16_384,
    # With a full read-ahead the library looks again after this; its default of a second would let a drained reader starve.
    "fetch.queue.backoff.ms": 10,
    "fetch.error.backoff.ms": 200,
}

_PRODUCER: Final[Mapping[str, str | int | bool]] = {
    "acks": "all",
    # Repeated sends neither double nor reorder.
    "enable.idempotence": True,
    "message.max.bytes": MAX_MESSAGE_BYTES,
    "request.timeout.ms": 5_000,
    # A topic that is not there is told after this; by default the library hopes for half a minute, longer than clients wait.
    "topic.metadata.propagation.max.ms": 5_000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 1_000,
    # What is not acknowledged lies in memory: bounded, then produce waits.
    "queue.buffering.max.kbytes": 131_072,
    "queue.buffering.max.messages": 100_000,
}


def _merged(bootstrap: str, options: Mapping[str, str], ours: Mapping[str, str | int | bool]) -> dict[str, str | int | bool]:
    if not bootstrap.strip():
        raise ConfigurationError("no Kafka address: set JOBYARD_KAFKA_BOOTSTRAP_SERVERS (host:port, several with commas)")
    for name in options:
        if name in _OURS:
            raise ConfigurationError(f"JOBYARD_KAFKA_OPTIONS: {name} is set by Jobyard and can't be changed; leave it out")
    return {**_COMMON, **ours, **options, "bootstrap.servers": bootstrap}


def consumer_options(bootstrap: str, options: Mapping[str, str], namespace: str) -> dict[str, str | int | bool]:
    """For a consumer. The group is a name that the library insists on; nobody ever joins it."""
    return _merged(bootstrap, options, {"group.id": assigned_group(namespace), **_CONSUMER})


def producer_options(bootstrap: str, options: Mapping[str, str], timeout_s: float, linger_ms: float) -> dict[str, str | int | bool]:
    """For a producer. `timeout_s` 0: a message is tried for ever."""
    merged = _merged(bootstrap, options, _PRODUCER)
    merged["message.timeout.ms"] = max(1, round(timeout_s * 1000)) if timeout_s > 0 else 0
    merged["linger.ms"] = str(linger_ms)
    return merged


def admin_options(bootstrap: str, options: Mapping[str, str]) -> dict[str, str | int | bool]:
    """For an admin client. It says nothing by itself (nobody would read it): what fails is raised."""
    return _merged(bootstrap, options, {"log_level": 0})
