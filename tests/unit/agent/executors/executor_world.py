"""Real executors with handlers of a real app; the facts that they tell are collected here."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

from jobyard import App
from jobyard.agent.core.held import Held
from jobyard.agent.core.incarnation import Life
from jobyard.agent.executors.attempt import Surroundings
from jobyard.agent.executors.dispatch import Dispatch
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End
from jobyard.process.clock import wall
from jobyard.process.lease_clock import LeaseClock

PATIENCE_S = 10.0


class Collected:
    """Facts; any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.ends: dict[str, End] = {}
        self.declines: list[str] = []
        self.begins: list[str] = []
        self.deadlines: list[float | None] = []
        self.said: list[tuple[float, float | None, str]] = []
        self.calls = 0

    def begun(self, held: Held, now: float, at: float, deadline: float | None) -> None:
        with self._changed:
            self.begins.append(held.job.id)
            self.deadlines.append(deadline)
            self._changed.notify_all()

    def ended(self, ended: list[tuple[Held, End]]) -> None:
        with self._changed:
            self.calls += 1
            for held, end in ended:
                assert held.job.id not in self.ends, "told twice"
                self.ends[held.job.id] = end
            self._changed.notify_all()

    def declined(self, held: Held) -> None:
        with self._changed:
            self.declines.append(held.job.id)
            self._changed.notify_all()

    def progressed(self, held: Held, done: float, total: float | None, message: str) -> None:
        with self._changed:
            self.said.append((done, total, message))
            self._changed.notify_all()

    def until(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, PATIENCE_S), "did not happen in time"

    def end(self, job: str) -> End:
        self.until(lambda: job in self.ends)
        return self.ends[job]


class Machine:
    """An app's executors with a lease that holds."""

    def __init__(self, app: App, slots: int = 4, max_result_bytes: int = 1_000) -> None:
        self.facts = Collected()
        self.ahead_s = 0.0
        """The wall clock is set forward by so much."""
        self.clock = LeaseClock(wall=lambda: wall() + self.ahead_s)
        self.life = Life("incarnation-1")
        self.life.lease.grant(self.clock.now(), 1000.0, 1.0)
        around = Surroundings(
            lane="default", clock=self.clock, facts=self.facts, middlewares=app.middlewares, max_result_bytes=max_result_bytes
        )
        self.executor = Dispatch(app.handlers, around, slots)

    def held(self, name: str, kind: str, args: bytes = b"{}", timeout_s: float | None = None, used: int = 0) -> Held:
        job = Job(id=name, kind=kind, args=msgspec.Raw(args), timeout_s=timeout_s, submitter="me", tags={"a": "b"})
        return Held(7, 2, job, used + 1, used, False, self.life, 2, 0.0, 0.0)

    def run(self, kind: str, args: bytes = b"{}", timeout_s: float | None = None, name: str = "job-1") -> End:
        self.executor.start([self.held(name, kind, args, timeout_s)])
        return self.facts.end(name)


@contextmanager
def machine(app: App, slots: int = 4) -> Generator[Machine]:
    made = Machine(app, slots)
    try:
        yield made
    finally:
        made.executor.close()


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.002)
