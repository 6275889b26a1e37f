"""Sending. Any thread may call; delivery callbacks run inside `produce`, `poll` and `flush`, in the thread that called, and may so run at once in two.

Order is that of the calls to `produce`: who needs it calls from one thread. Nothing else may be called after `close`.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.kafka.failures import ABSENT, KafkaFailure, error_in, failure_of, raised
from jobyard.kafka.heard import Heard
from jobyard.kafka.options import LIBRARY_LOG, producer_options

_log: Final = logging.getLogger(__name__)

_POLL_S: Final = 0.05
_LOOK_S: Final = 2.0


class Producer:
    """Sends messages in order, each once, until they are acknowledged by all replicas in sync, or have failed."""

    def __init__(self, settings: Mapping[str, str | int | bool], block_s: float) -> None:
        self._fatal: str | None = None
        self._background = Heard()
        self._block_s = block_s
        self._client = confluent_kafka.Producer(dict(settings), logger=LIBRARY_LOG, error_cb=self._heard)

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = 0,
        on_delivery: Callable[[KafkaFailure | None], None] | None = None,
    ) -> None:
        """Hand a message over; `on_delivery` is told later, exactly once, what became of it (None: acknowledged).

        With a full buffer it waits (and runs callbacks) for at most the producer's `block_s`, then raises ServiceUnavailable. Raises
        ConfigurationError for a topic or partition that does not exist, KafkaRefused for a message that is too large, KafkaClientDied
        after a fatal error. What raised was not taken, and its `on_delivery` is never called. (An absent topic or partition is told to
        `on_delivery` instead, if nothing was sent to the topic before.)
        """
        deadline = time.monotonic() + self._block_s
        told = None if on_delivery is None else self._teller(on_delivery)
        while True:
            try:
                if told is None:
                    self._client.produce(topic, value, key, partition)
                else:
                    self._client.produce(topic, value, key, partition, on_delivery=told)
                return
            except BufferError:
                if time.monotonic() >= deadline:
                    raise ServiceUnavailable(
                        f"Kafka takes nothing: {len(self._client)} messages wait, and none was acknowledged within {self._block_s:g} s"
                    ) from None
                self._client.poll(_POLL_S)
            except KafkaException as exception:
                error = error_in(exception)
                if error is None or error.code() not in ABSENT or time.monotonic() >= deadline:
                    raise raised(exception, f"send to {topic}[{partition}]") from None
                # Partitions that were just added are unknown here until the metadata are asked for.
                self._look(topic, deadline)

    def poll(self, timeout_s: float = 0.0) -> int:
        """Run the callbacks that are due; waits for the first for at most `timeout_s`. Returns how many ran."""
        return self._client.poll(timeout_s)

    def flush(self, timeout_s: float) -> int:
        """Wait until all is acknowledged or has failed, for at most `timeout_s`. Returns how many messages are left."""
        return self._client.flush(timeout_s)

    def waiting(self) -> int:
        """Messages neither acknowledged nor failed, and callbacks not yet run."""
        return len(self._client)

    def fatal(self) -> str | None:
        """Why this producer can do nothing more (known after a poll); None: it can. After that: close it, open another."""
        return self._fatal

    def close(self, timeout_s: float = 0.0) -> int:
        """Flush for at most `timeout_s`, give up the rest (its callbacks are told), and end. Returns how many were given up."""
        left = self._client.flush(timeout_s) if timeout_s > 0 else len(self._client)
        if left:
            self._client.purge()
            self._client.flush(1.0)
        return left

    def _look(self, topic: str, deadline: float) -> None:
        try:
            self._client.list_topics(topic, timeout=max(0.1, min(_LOOK_S, deadline - time.monotonic())))
        except KafkaException as exception:
            raise raised(exception, f"look for topic {topic}") from None
        self._client.poll(_POLL_S)

    def _heard(self, error: KafkaError) -> None:
        failure = failure_of(error)
        self._background(error)
        if failure.sort == "fatal":
            self._fatal = f"{failure.message} ({failure.code})"
            _log.error("Kafka's producer can't go on: %s", self._fatal)
        else:
            _log.debug("Kafka: %s (%s)", failure.message, failure.code)

    def _teller(self, on_delivery: Callable[[KafkaFailure | None], None]) -> Callable[[KafkaError | None, confluent_kafka.Message], None]:
        def told(error: KafkaError | None, _: confluent_kafka.Message) -> None:
            if error is None:
                self._background.worked()
                on_delivery(None)
            else:  # of a time-out, why nobody answered
                on_delivery(self._background.instead_of(failure_of(error)))

        return told


def open_producer(
    bootstrap: str, options: Mapping[str, str], *, timeout_s: float = 0.0, linger_ms: float = 0.0, block_s: float = 5.0
) -> Producer:
    """A producer. Connects in the background: that nobody answers is no error here.

    `timeout_s`: after this long an unacknowledged message has failed; 0: never. `linger_ms`: how long a message waits for company.
    `block_s`: how long `produce` waits for room. Raises ConfigurationError for a wrong option.
    """
    settings = producer_options(bootstrap, options, timeout_s, linger_ms)
    try:
        return Producer(settings, block_s)
    except KafkaException as error:
        raise ConfigurationError(f"JOBYARD_KAFKA_OPTIONS: {raised(error, 'open a producer')}") from None
