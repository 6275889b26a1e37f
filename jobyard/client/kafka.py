"""Jobs to the intake topics. Accepted means: all replicas in sync have acknowledged them."""

import ctypes
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from jobyard.contracts.codec import encode, encode_intake
from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.contracts.job import NewJob
from jobyard.contracts.rules import RULES
from jobyard.contracts.topics import lane_topics
from jobyard.kafka.failures import KafkaFailure
from jobyard.kafka.producer import Producer, open_producer

ANSWER_S: Final = 15.0
"""How long a submission waits for the brokers' acknowledgement, seconds."""
_MESSAGE_BYTES: Final = RULES.batch_bytes - 100
_PATIENCE: Final = {"topic.metadata.propagation.max.ms": "3000"}
"""How long a topic that the brokers don't know may still be on its way to them: a mistyped lane is told soon."""
_TURN_S: Final = 0.05
_MOST_ON_THE_WAY: Final = 32
"""Messages of one bulk submission that may wait for their acknowledgement."""


@dataclass
class Delivery:
    """One message on its way. The event is set, once, by whichever thread polls."""

    topic: str
    deadline: float
    done: threading.Event = field(default_factory=threading.Event)
    failure: KafkaFailure | None = None

    def heard(self, failure: KafkaFailure | None) -> None:
        self.failure = failure
        self.done.set()


class KafkaIntake:
    """Sends jobs by one producer, opened when needed; any thread may use it. After a fork the child opens its own."""

    def __init__(self, bootstrap: str, options: Mapping[str, str], namespace: str) -> None:
        self._bootstrap = bootstrap
        self._options = {**_PATIENCE, **options}
        self._namespace = namespace
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._polling = threading.Lock()
        self._producer: Producer | None = None

    def forget(self) -> None:
        """In the child of a fork: the producer's threads stayed with the parent, and its destructor would wait for them. So it is never run."""
        if self._producer is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._producer))
        self._begin()

    def _open(self) -> Producer:
        with self._lock:
            if self._producer is not None and self._producer.fatal() is not None:
                self._producer.close()
                self._producer = None
            if self._producer is None:
                self._producer = open_producer(self._bootstrap, self._options, timeout_s=ANSWER_S)
            return self._producer

    def submit(self, lane: str, job: NewJob) -> None:
        """Send one job; returns when it is acknowledged. ServiceUnavailable: whether it got there is unknown."""
        producer = self._open()
        self.wait(producer, self.send(producer, lane, [job]))

    def bulk(self) -> "Bulk":
        """Many jobs, pipelined."""
        return Bulk(self, self._open())

    def send(self, producer: Producer, lane: str, jobs: list[NewJob]) -> Delivery:
        topic = lane_topics(self._namespace, lane).intake.name
        delivery = Delivery(topic, time.monotonic() + ANSWER_S)
        producer.produce(topic, encode_intake(jobs), on_delivery=delivery.heard)
        return delivery

    def wait(self, producer: Producer, delivery: Delivery) -> None:
        """Wait for an acknowledgement. One thread polls for all; the others wait for it, and one of them goes on when it leaves."""
        while not delivery.done.is_set():
            left = delivery.deadline - time.monotonic()
            if left <= -1.0:  # the producer gives a message up by itself: this is for one that doesn't
                raise _unknown(delivery.topic, f"no acknowledgement within {ANSWER_S:g} s")
            if self._polling.acquire(blocking=False):
                try:
                    if not delivery.done.is_set():
                        producer.poll(_TURN_S)
                finally:
                    self._polling.release()
            else:
                delivery.done.wait(_TURN_S)
        failure = delivery.failure
        if failure is not None and failure.denied:
            raise ConfigurationError(f"Kafka, topic {delivery.topic}: {failure.message}")
        if failure is not None and failure.sort == "configuration":
            raise ConfigurationError(
                f"Kafka, topic {delivery.topic}: {failure.message}. Does the lane exist? `jobyard lane add` makes its topics"
            )
        if failure is not None:
            raise _unknown(delivery.topic, failure.message)

    def close(self) -> None:
        """Give what is on its way a moment, and end. The next use opens anew."""
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(ANSWER_S)


class Bulk:
    """Jobs gathered into messages of at most 1 MiB, several on their way at once. Used by one thread at a time."""

    def __init__(self, intake: KafkaIntake, producer: Producer) -> None:
        self._intake = intake
        self._producer = producer
        self._on_the_way: deque[Delivery] = deque()
        self._gathered: dict[str, list[NewJob]] = {}
        self._bytes: dict[str, int] = {}

    def add(self, lane: str, job: NewJob) -> None:
        """One more job. May send, and wait for earlier ones; ServiceUnavailable: some may have got there."""
        size = len(encode(job)) + 1
        if self._bytes.get(lane, 0) + size > _MESSAGE_BYTES:
            self._send(lane)
        self._gathered.setdefault(lane, []).append(job)
        self._bytes[lane] = self._bytes.get(lane, 0) + size

    def finish(self) -> None:
        """Send the rest, and wait until all are acknowledged. ServiceUnavailable: some may have got there."""
        for lane in list(self._gathered):
            self._send(lane)
        while self._on_the_way:
            self._intake.wait(self._producer, self._on_the_way.popleft())

    def _send(self, lane: str) -> None:
        jobs = self._gathered.pop(lane, None)
        self._bytes.pop(lane, None)
        if not jobs:
            return
        if len(self._on_the_way) >= _MOST_ON_THE_WAY:
            self._intake.wait(self._producer, self._on_the_way.popleft())
        self._on_the_way.append(self._intake.send(self._producer, lane, jobs))


def _unknown(topic: str, why: str) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"Kafka, topic {topic}: {why}. Whether the job got there is unknown: submitting the same request again is one job"
    )
