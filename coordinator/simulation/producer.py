"""A coordinator's producer (Bus): in order, each message acknowledged or failed, told inside `poll`."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from jobyard.coordinator.simulation.broker import Broker
from jobyard.coordinator.simulation.link import Link
from jobyard.coordinator.simulation.schedule import Schedule
from jobyard.kafka.failures import KafkaFailure

Told = Callable[[KafkaFailure | None], None]
GIVE_UP_S: Final = 5.0
FAILED: Final = KafkaFailure(sort="unavailable", code="_MSG_TIMED_OUT", message="timed out, simulated")


class Producer:
    """`failing`: so many of the next messages are reported as failed; `though_sent`: they arrive all the same."""

    def __init__(self, schedule: Schedule, chance: Random, broker: Broker, link: Link) -> None:
        self._schedule = schedule
        self._chance = chance
        self._broker = broker
        self._link = link
        self._last = 0.0
        self._open = 0
        self._dead = False
        self._answers: deque[tuple[float, Told | None, KafkaFailure | None]] = deque()
        self.failing = 0
        self.though_sent = False
        self.woken: Callable[[], None] = lambda: None

    def produce(self, topic: str, value: bytes, key: bytes | None = None, partition: int = 0, on_delivery: Told | None = None) -> None:
        self._open += 1
        fails = self.failing > 0
        if fails:
            self.failing -= 1
        self._last = max(self._last, self._link.arrival())
        given_up = self._schedule.now + GIVE_UP_S
        arrives = not fails or self.though_sent

        def comes() -> None:
            if self._dead:
                return
            blocked = not (self._link.open and self._broker.up)
            if blocked and self._schedule.now < given_up:
                self._last = max(self._last, self._link.arrival(), self._broker.down_until)
                self._schedule.at(min(self._last, given_up), comes, "message waits")
                return
            lost = blocked or not arrives
            if not lost:
                lost = self._broker.append(topic, partition, value) is None
            if fails or lost:
                self._schedule.after(0.001, self._failed, "delivery fails")
            self._answers.append((self._schedule.now + 0.001, on_delivery, FAILED if fails or lost else None))

        self._schedule.at(self._last, comes, "message comes")

    def poll(self, timeout_s: float = 0.0) -> int:
        count = 0
        while self._answers and self._answers[0][0] <= self._schedule.now:
            _, on_delivery, failure = self._answers.popleft()
            self._open -= 1
            count += 1
            if on_delivery is not None:
                on_delivery(failure)
        return count

    def flush(self, timeout_s: float) -> int:
        until = self._schedule.now + timeout_s
        while self._open and self._schedule.now < until:
            self._schedule.run_until(min(until, self._schedule.now + 0.01))
            self.poll()
        return self._open

    def fatal(self) -> str | None:
        return None

    def close(self, timeout_s: float = 0.0) -> int:
        """What is under way may still arrive, or not."""
        if self._chance.random() < 0.5:
            self._dead = True
        else:
            self._schedule.after(0.005, self._die, "producer ends")
        self.woken = lambda: None
        return self._open

    def _die(self) -> None:
        self._dead = True

    def _failed(self) -> None:
        self.woken()
