"""Clocks of the simulated machines: wall clocks may be set, monotonic ones may only stand still while a machine is frozen."""

from typing import Final

from jobyard.contracts.moments import Instant
from jobyard.coordinator.seams import Term
from jobyard.coordinator.simulation.schedule import Schedule

START: Final = 1_800_000_000.0
"""The wall's time when a simulation begins."""
_SET_S: Final = 0.25


class Machine:
    """One machine's clocks. `skew`: how far its wall clock is ahead. `stood`: how long its monotonic clock stood still."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.skew = 0.0
        self.stood = 0.0

    def monotonic(self) -> float:
        """Never goes back, never jumps."""
        return self._schedule.now - self.stood

    def wall(self) -> Instant:
        """May be set."""
        return START + self._schedule.now + self.skew


class LeaderClock:
    """The database's clock as one leadership knows it (Clock): its reading at the beginning, carried on by the machine's monotonic clock."""

    def __init__(self, machine: Machine, term: Term) -> None:
        self._machine = machine
        self._offset = 0.0
        self._last = 0.0
        self.heard(term.now, term.asked_at, term.answered_at)

    def heard(self, database_now: Instant, asked_at: float, answered_at: float) -> float:
        """Taken when it was read, after the way there: as exact as the real one at best."""
        offset = database_now - (asked_at + answered_at) / 2
        unsure = (answered_at - asked_at) / 2
        moved = offset - self._offset
        if self._offset and abs(moved) <= unsure + _SET_S:
            return 0.0
        first = not self._offset
        self._offset = offset
        return 0.0 if first else moved

    def now(self) -> Instant:
        now = self._machine.monotonic() + self._offset
        self._last = max(self._last, now) if now > self._last - 1.0 else now
        return self._last

    def monotonic(self) -> float:
        return self._machine.monotonic()
