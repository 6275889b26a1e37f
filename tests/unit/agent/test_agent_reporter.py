"""Reports are batched, kept, and sent again in order: A13, and the acknowledgements that A7 and A11 wait for."""

import threading
from collections.abc import Callable

import msgspec

from jobyard.agent.core.actions import Say
from jobyard.agent.inbox import Delivery
from jobyard.agent.reporter import AGAIN_S, FULL_BYTES, Reporter
from jobyard.contracts import codec
from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.reports import End, Finished, Heartbeat, Released, Started
from jobyard.contracts.states import Outcome
from jobyard.kafka.failures import KafkaFailure

LIFE = "00000000-0000-4000-8000-000000000001"
OLD = "00000000-0000-4000-8000-000000000002"


class Broker:
    """A producer whose broker acknowledges when told to. `refuses`: produce raises."""

    def __init__(self) -> None:
        self.taken: list[tuple[bytes, Callable[[KafkaFailure | None], None]]] = []
        self.died: str | None = None
        self.refuses = False
        self.closed = threading.Event()
        self._polled = threading.Event()

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = 0,
        on_delivery: Callable[[KafkaFailure | None], None] | None = None,
    ) -> None:
        assert (topic, partition) == ("ns.default.reports", 0)
        if self.refuses:
            raise ServiceUnavailable("full")
        assert on_delivery is not None
        self.taken.append((value, on_delivery))

    def poll(self, timeout_s: float = 0.0) -> int:
        self._polled.wait(0.01)
        return 0

    def fatal(self) -> str | None:
        return self.died

    def close(self, timeout_s: float = 0.0) -> int:
        self.closed.set()
        return 0

    def acknowledge(self, which: int, failure: KafkaFailure | None = None) -> None:
        self.taken[which][1](failure)


class Desk:
    """A reporter and its brokers, one after the other."""

    def __init__(self, batch_bytes: int = 1_000_000) -> None:
        self.brokers: list[Broker] = []
        self.deliveries: list[Delivery] = []
        self.told = threading.Event()
        self.reporter = Reporter(self._open, "ns.default.reports", "agent-1", batch_bytes, self._delivered)

    def _open(self) -> Broker:
        self.brokers.append(Broker())
        return self.brokers[-1]

    def _delivered(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.told.set()

    def hear(self, now: float = 0.0) -> list[Say]:
        deliveries, self.deliveries = self.deliveries, []
        return self.reporter.delivered(deliveries, now)

    def sent(self, broker: int = -1) -> list[tuple[str, int, list[str]]]:
        """(incarnation, seq, types) of what a broker has taken."""
        messages = [codec.decode_reports(data) for data, _ in self.brokers[broker].taken]
        return [(m.incarnation, m.seq, [type(report).__name__ for report in m.reports]) for m in messages]


def started(number: int, life: str = LIFE) -> Say:
    return Say(life, Started(fence=number, job=f"job-{number}", attempt=1, at=1.0))


def finished(sizes: list[int], fence: int = 1, life: str = LIFE) -> Say:
    ends = [End(f"job-{n}", 1, Outcome.SUCCEEDED, 1.0, 2.0, msgspec.Raw(b'"%s"' % (b"x" * size))) for n, size in enumerate(sizes)]
    return Say(life, Finished(fence=fence, ends=ends, busy_s=4.0))


def test_reports_of_one_turn_go_in_one_message_for_each_incarnation() -> None:
    desk = Desk()
    desk.reporter.say([started(1), started(2), finished([1], life=OLD), started(3)], 0.0)
    desk.reporter.say([started(4)], 0.0)
    assert desk.sent() == [
        (LIFE, 1, ["Started", "Started"]),
        (OLD, 1, ["Finished"]),
        (LIFE, 2, ["Started"]),
        (LIFE, 3, ["Started"]),
    ]
    desk.reporter.close(0.0)


def test_A7_an_acknowledgement_gives_back_what_means_something() -> None:
    desk = Desk()
    beat = Say(LIFE, Heartbeat(stamp=1.0, capacity=1.0, slots=1))
    desk.reporter.say([started(1), finished([1]), beat, Say(LIFE, Released(fence=1, jobs=[("job-1", 1)]))], 0.0)
    assert not desk.reporter.settled
    desk.brokers[0].acknowledge(0)
    assert desk.hear() == [started(1), beat]
    assert desk.reporter.settled
    desk.reporter.close(0.0)


def test_a_batch_is_cut_at_its_size_and_loses_nothing() -> None:
    desk = Desk(batch_bytes=1_000)
    desk.reporter.say([started(1), finished([300] * 9), started(2)], 0.0)
    messages = [codec.decode_reports(data) for data, _ in desk.brokers[0].taken]
    assert len(messages) > 3
    assert [m.seq for m in messages] == list(range(1, len(messages) + 1))
    reports = [report for m in messages for report in m.reports]
    finishes = [report for report in reports if isinstance(report, Finished)]
    assert [end.job for report in finishes for end in report.ends] == [f"job-{n}" for n in range(9)]
    assert abs(sum(report.busy_s for report in finishes) - 4.0) < 1e-9
    for n in range(len(messages)):
        desk.brokers[0].acknowledge(n)
    assert desk.hear() == [started(1), started(2)]
    desk.reporter.close(0.0)


def test_one_end_that_is_larger_than_a_batch_goes_alone() -> None:
    desk = Desk(batch_bytes=100)
    desk.reporter.say([finished([5_000])], 0.0)
    assert desk.sent() == [(LIFE, 1, ["Finished"])]
    desk.reporter.close(0.0)


def test_A13_after_a_fatal_error_a_new_producer_gets_everything_unacknowledged_in_order() -> None:
    desk = Desk()
    for n in range(4):
        desk.reporter.say([started(n)], 0.0)
    desk.brokers[0].acknowledge(0)
    desk.hear()
    desk.brokers[0].died = "fenced"
    assert desk.told.wait(5.0)
    while not any(failure for _, _, failure in desk.deliveries):
        assert desk.told.wait(5.0)
    desk.hear(10.0)
    assert desk.reporter.next_due() == 10.0 + AGAIN_S
    desk.reporter.say([started(9)], 10.5)
    assert len(desk.brokers) == 1
    desk.reporter.pump(10.0 + AGAIN_S)
    old, _ = desk.brokers
    assert [data for data, _ in desk.brokers[1].taken][:3] == [data for data, _ in old.taken][1:4]
    assert desk.sent()[-1] == (LIFE, 5, ["Started"])
    assert old.closed.wait(5.0)
    old.acknowledge(1)  # of the old one: means nothing any more
    assert desk.hear(12.0) == []
    for n in range(4):
        desk.brokers[1].acknowledge(n)
    assert desk.hear(12.0) == [started(1), started(2), started(3), started(9)]
    assert desk.reporter.settled
    desk.reporter.close(0.0)


def test_A13_a_message_that_the_broker_refused_is_not_dropped() -> None:
    desk = Desk()
    desk.reporter.say([started(1)], 0.0)
    desk.reporter.say([started(2)], 0.0)
    desk.brokers[0].acknowledge(0, KafkaFailure("other", "X", "no"))
    desk.hear(1.0)
    desk.reporter.pump(1.0 + AGAIN_S)
    assert len(desk.sent(1)) == 2
    desk.reporter.close(0.0)


def test_a_producer_that_takes_nothing_drops_nothing_and_slows_the_intake() -> None:
    desk = Desk()
    desk.brokers[0].refuses = True
    now = 0.0
    while not desk.reporter.full:
        desk.reporter.say([finished([1_000_000])], now)
        assert desk.reporter.waiting < 2 * FULL_BYTES / 1_000_000
    desk.reporter.pump(AGAIN_S)
    waiting = desk.reporter.waiting
    sent = 0
    while not desk.reporter.settled:
        taken = desk.brokers[-1].taken
        for n in range(sent, len(taken)):
            desk.brokers[-1].acknowledge(n)
        sent = len(taken)
        desk.hear(now)
        desk.reporter.pump(now)
    assert sent == waiting
    assert not desk.reporter.full
    desk.reporter.close(0.0)
