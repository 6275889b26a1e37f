"""An agent's executors (Executor): each handler is called after a last look at the lease, lasts as long as its script says, and is told to stop."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from jobyard.agent.core.actions import Why
from jobyard.agent.core.held import Held
from jobyard.agent.executors.executor import Clock, Facts
from jobyard.contracts.reports import End, Error
from jobyard.contracts.states import Outcome
from jobyard.coordinator.simulation.jobs import Script, Start
from jobyard.coordinator.simulation.ledger import Ledger, Run
from jobyard.coordinator.simulation.schedule import Entry, Schedule

_STOPPED: Final[dict[Why, Outcome]] = {
    "cancelled": Outcome.CANCELLED,
    "timed_out": Outcome.TIMED_OUT,
    "interrupted": Outcome.INTERRUPTED,
    "closed": Outcome.CANCELLED,
}
_BEGUN_S: Final = 0.5
"""What ends sooner is not told as begun, as the real executors do."""


class _Attempt:
    __slots__ = ("asked", "entry", "held", "late", "run", "start")

    def __init__(self, held: Held) -> None:
        self.held = held
        self.asked: Why | None = None
        self.run: Run | None = None
        self.start: Start | None = None
        self.entry: Entry | None = None
        self.late = False


class Handlers:
    """`slow_s`: how long a handed job waits for its call (a blocked event loop). `frozen_until`: the process stands still until then, since `frozen_at`."""

    def __init__(
        self, schedule: Schedule, clock: Clock, facts: Facts, ledger: Ledger, scripts: Callable[[str], Script], process: int
    ) -> None:
        self._schedule = schedule
        self._clock = clock
        self._facts = facts
        self._ledger = ledger
        self._scripts = scripts
        self._process = process
        self._attempts: dict[Held, _Attempt] = {}
        self._dead = False
        self.slow_s = 0.0
        self.frozen_at = 0.0
        self.frozen_until = 0.0
        self.between: Callable[[], None] | None = None
        """Has the process stand still, once, between its next look at the lease and the call."""

    def start(self, held: Sequence[Held]) -> None:
        for one in held:
            attempt = self._attempts[one] = _Attempt(one)
            if self.slow_s:
                attempt.entry = self._schedule.after(self.slow_s, partial(self._call, attempt), "call")
            else:
                self._call(attempt)

    def stop(self, held: Held, why: Why) -> None:
        attempt = self._attempts.get(held)
        if attempt is None or attempt.asked is not None:
            return
        attempt.asked = why
        if attempt.start is not None and attempt.start.heeds and attempt.entry is not None:
            attempt.entry.dropped = True
            attempt.entry = self._schedule.after(0.003, lambda: self._end(attempt), "stops")

    def close(self) -> None:
        self._dead = True
        for attempt in self._attempts.values():
            if attempt.entry is not None:
                attempt.entry.dropped = True
        self._ledger.died(self._process)

    def _call(self, attempt: _Attempt) -> None:
        held = attempt.held
        if self._postponed(attempt, lambda: self._call(attempt)):
            return
        if not attempt.late:
            if attempt.asked is not None or not held.life.lease.holds(self._clock.now()):
                del self._attempts[held]
                self._facts.declined(held)
                return
            if self.between is not None:
                self.between()
                self.between, attempt.late = None, True
                attempt.entry = self._schedule.at(self.frozen_until, lambda: self._call(attempt), "late call")
                return
        number = len(self._ledger.runs.get(held.job.id, ()))
        attempt.start = start = self._scripts(held.job.id).start(number)
        attempt.run = self._ledger.started(held, self._process, late=attempt.late)
        timeout = held.job.timeout_s
        if start.lasts_s > _BEGUN_S or timeout is not None:
            deadline = None if timeout is None else self._clock.ran() + timeout
            self._facts.begun(held, self._clock.now(), self._clock.wall(), deadline)
            if start.lasts_s > _BEGUN_S:
                for done in (0.2, 0.6):
                    self._schedule.after(done * start.lasts_s, partial(self._progress, attempt, done), "progress")
        attempt.entry = self._schedule.after(start.lasts_s, lambda: self._end(attempt), "ends")

    def _progress(self, attempt: _Attempt, done: float) -> None:
        """What the handler says of itself, if it still runs."""
        if not self._dead and attempt.run is not None and attempt.run.until is None and self._schedule.now >= self.frozen_until:
            self._facts.progressed(attempt.held, done, 1.0, "")

    def _end(self, attempt: _Attempt) -> None:
        if self._postponed(attempt, lambda: self._end(attempt)):
            return
        held, run, start = attempt.held, attempt.run, attempt.start
        if run is None or start is None:
            raise RuntimeError(f"job {held.job.id} ends, and was never started")
        attempt.entry = None
        del self._attempts[held]
        outcome = start.ends if attempt.asked is None or not start.heeds else _STOPPED[attempt.asked]
        self._ledger.ended(run, outcome)
        wall = self._clock.wall()
        plain = outcome is Outcome.SUCCEEDED
        end = End(
            job=held.job.id,
            attempt=held.attempt,
            outcome=outcome,
            started_at=wall - (self._schedule.now - run.at),
            ended_at=wall,
            error=None if plain or outcome is Outcome.SNOOZED else Error("Simulated", outcome.value),
            retryable=start.retryable,
            delay_s=0.7 if outcome is Outcome.SNOOZED else None,
        )
        self._facts.ended([(held, end)])

    def _postponed(self, attempt: _Attempt, again: Callable[[], None]) -> bool:
        """A process that stands still calls nothing, and its handlers get no further."""
        if self._dead:
            return True
        now = self._schedule.now
        if now < self.frozen_until:
            attempt.entry = self._schedule.at(self.frozen_until + (now - self.frozen_at), again, "stands still")
            return True
        return False
