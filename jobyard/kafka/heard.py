"""What the client library has said about the brokers, outside of any call: why none answers. From any thread."""

import threading
from typing import Final

from confluent_kafka import KafkaError

from jobyard.kafka.failures import DENIED, KafkaFailure, failure_of

_CLOSED: Final = (
    "the connection is made, and closed at once: does this port want another security.protocol (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)? "
    "JOBYARD_KAFKA_OPTIONS says it"
)
_DOWN: Final = "no broker answers any more"


class Heard:
    """One client's error callback. What is denied (a password, a certificate) is kept until something works again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._denied: KafkaFailure | None = None
        self._unreached: KafkaFailure | None = None
        self._down = False
        self._worked = False

    def __call__(self, error: KafkaError) -> None:
        """An error that concerns no message and no partition."""
        code = error.code()
        with self._lock:
            if code in DENIED:
                self._denied = failure_of(error)
            elif code == KafkaError._ALL_BROKERS_DOWN:
                self._down = True
            elif code in (KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT):
                self._unreached = failure_of(error)

    def worked(self) -> None:
        """Something was answered: what was said before is over."""
        self._worked = True
        if self._down or self._denied is not None or self._unreached is not None:
            with self._lock:
                self._denied, self._unreached, self._down = None, None, False

    def instead_of(self, failure: KafkaFailure) -> KafkaFailure:
        """A time-out tells nothing: the failure behind it, if one was heard."""
        if failure.sort != "unavailable":
            return failure
        with self._lock:
            if self._denied is not None:
                return self._denied
            if self._unreached is not None:
                return KafkaFailure("unavailable", failure.code, self._unreached.message)
            if self._down:
                # what has worked before needs no other security.protocol
                return KafkaFailure("unavailable", failure.code, _DOWN if self._worked else _CLOSED)
        return failure
