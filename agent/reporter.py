"""Reports on their way out: batched, kept until the broker has acknowledged them, and sent again in order by a new producer (A13)."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec

from jobyard.agent.core.actions import Say
from jobyard.agent.inbox import Delivery
from jobyard.contracts import codec
from jobyard.contracts.errors import JobyardError
from jobyard.contracts.reports import Finished, Heartbeat, Hello, Progress, Report, Reports, Started
from jobyard.kafka.failures import KafkaFailure
from jobyard.process.seldom import safely

_log: Final = logging.getLogger(__name__)

ON_THEIR_WAY_BYTES: Final = 32 * 1_048_576
"""More than this is not handed to the producer at once: it could not take it."""
FULL_BYTES: Final = 64 * 1_048_576
"""With more than this unacknowledged, no further jobs are taken in."""
AGAIN_S: Final = 1.0
_POLL_S: Final = 1.0


class Sending(Protocol):
    """The producer, as far as it is needed here."""

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = 0,
        on_delivery: Callable[[KafkaFailure | None], None] | None = None,
    ) -> None: ...
    def poll(self, timeout_s: float = 0.0) -> int: ...
    def fatal(self) -> str | None: ...
    def close(self, timeout_s: float = 0.0) -> int: ...


class _Batch(msgspec.Struct, eq=False):
    """`says`: those whose acknowledgement means something to the core."""

    number: int
    data: bytes
    says: list[Say]
    sent: bool = False


class Reporter:
    """Belongs to the turn thread; a thread of its own waits for acknowledgements and puts them into the inbox.

    `open_producer` must give one that never gives a message up (time-out 0) and never waits for room (block 0).
    """

    def __init__(
        self, open_producer: Callable[[], Sending], topic: str, agent: str, batch_bytes: int, delivered: Callable[[Delivery], None]
    ) -> None:
        self._open = open_producer
        self._topic = topic
        self._agent = agent
        self._batch_bytes = batch_bytes
        self._tell = delivered
        self._producer = open_producer()
        self._retired: list[Sending] = []
        self._generation = 0
        self._number = 0
        self._seqs: dict[str, int] = {}
        self._kept: dict[int, _Batch] = {}
        self._kept_bytes = 0
        self._sent_bytes = 0
        self._again_at: float | None = None
        self._ending = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="jobyard-reports", daemon=True)
        self._poller.start()

    @property
    def settled(self) -> bool:
        """Whether the broker has acknowledged everything."""
        return not self._kept

    @property
    def full(self) -> bool:
        """Whether so much waits for the broker that no further jobs should be taken in."""
        return self._kept_bytes > FULL_BYTES

    @property
    def waiting(self) -> int:
        """How many batches are not acknowledged."""
        return len(self._kept)

    def say(self, says: Sequence[Say], now: float) -> None:
        """All reports of a turn: one message for each incarnation, cut at `batch_bytes`, in order."""
        start = 0
        for i in range(1, len(says) + 1):
            if i == len(says) or says[i].incarnation != says[start].incarnation:
                self._keep(says[start].incarnation, says[start:i])
                start = i
        self.pump(now)

    def pump(self, now: float) -> None:
        """Hand over what the producer has not got yet, if it can take it now."""
        if self._again_at is not None:
            if now < self._again_at:
                return
            self._renew()
        for batch in self._kept.values():
            if batch.sent:
                continue
            if self._sent_bytes and self._sent_bytes + len(batch.data) > ON_THEIR_WAY_BYTES:
                return
            try:
                told = partial(self._delivered, self._generation, batch.number)
                self._producer.produce(self._topic, batch.data, on_delivery=told)
            except JobyardError as error:
                self._failed(str(error), now)
                return
            batch.sent = True
            self._sent_bytes += len(batch.data)

    def delivered(self, deliveries: Sequence[Delivery], now: float) -> list[Say]:
        """Take acknowledgements; returns the reports that they mean something for."""
        says: list[Say] = []
        for generation, number, failure in deliveries:
            if generation != self._generation:
                continue  # of a producer that was given up: what it had is sent again
            if failure is not None:
                self._failed(failure, now)
                continue
            batch = self._kept.pop(number)
            self._kept_bytes -= len(batch.data)
            self._sent_bytes -= len(batch.data)
            says += batch.says
        return says

    def next_due(self) -> float | None:
        """When `pump` must be called though nothing new is said; None: not by time."""
        return self._again_at

    def close(self, timeout_s: float) -> None:
        """End; what is not acknowledged after `timeout_s` is given up."""
        self._ending.set()
        self._poller.join(timeout_s + 2 * _POLL_S)
        self._producer.close(timeout_s)

    def _keep(self, incarnation: str, says: Sequence[Say]) -> None:
        matter = [say for say in says if isinstance(say.report, (Hello, Heartbeat, Started, Progress))]
        for data in self._encoded(incarnation, [say.report for say in says]):
            self._number += 1
            # What the batch after it holds is acknowledged with it or later: so the last part tells for all.
            self._kept[self._number] = _Batch(self._number, data, [])
            self._kept_bytes += len(data)
        self._kept[self._number].says = matter

    def _encoded(self, incarnation: str, reports: list[Report]) -> Iterator[bytes]:
        seq = self._seqs.get(incarnation, 0) + 1
        data = codec.encode(Reports(v=codec.VERSION, agent=self._agent, incarnation=incarnation, seq=seq, reports=reports))
        if len(data) > self._batch_bytes:
            halves = _halved(reports)
            if halves is not None:
                for half in halves:
                    yield from self._encoded(incarnation, half)
                return
        self._seqs[incarnation] = seq
        yield data

    def _delivered(self, generation: int, number: int, failure: KafkaFailure | None) -> None:
        self._tell((generation, number, None if failure is None else f"{failure.message} ({failure.code})"))

    def _failed(self, why: str, now: float) -> None:
        """Whatever it was: this producer's order is gone. A new one sends everything again, after a moment."""
        if self._again_at is None:
            text = f"reports could not be sent: {why}; a new producer sends {len(self._kept)} batches again"
            safely(_log, logging.WARNING, text, {})
            self._again_at = now + AGAIN_S

    def _renew(self) -> None:
        self._again_at = None
        self._generation += 1
        self._retired.append(self._producer)
        self._producer = self._open()
        self._sent_bytes = 0
        for batch in self._kept.values():
            batch.sent = False

    def _poll(self) -> None:
        while not self._ending.is_set():
            while self._retired:
                self._retired.pop().close()
            producer, generation = self._producer, self._generation
            producer.poll(_POLL_S)
            fatal = producer.fatal()
            if fatal is not None and producer is self._producer:
                self._tell((generation, 0, fatal))
                self._ending.wait(AGAIN_S)


def _halved(reports: list[Report]) -> tuple[list[Report], list[Report]] | None:
    """Two parts of a batch that is too large; None: it is one end, which can't be cut."""
    if len(reports) > 1:
        middle = len(reports) // 2
        return reports[:middle], reports[middle:]
    only = reports[0]
    if isinstance(only, Finished) and len(only.ends) > 1:
        middle = len(only.ends) // 2
        share = only.busy_s / 2
        return (
            [Finished(fence=only.fence, ends=only.ends[:middle], busy_s=share)],
            [Finished(fence=only.fence, ends=only.ends[middle:], busy_s=share)],
        )
    return None
