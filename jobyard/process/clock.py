"""Clocks: the wall's, a monotonic one that counts sleep, and the database's, carried on by the monotonic one."""

import sys
import time
from typing import Final

from jobyard.contracts.moments import Instant

_BACK_S: Final = 1.0
_SET_S: Final = 0.25
"""A clock that is off by less was only adjusted. A fraction of the margin of an agent's lease, which silence is measured against (L10)."""
_DRIFT: Final = 100e-6
"""Two quartz clocks part by less than this (seconds a second)."""

# Linux's CLOCK_MONOTONIC stands still while a machine sleeps, CLOCK_BOOTTIME does not; macOS' CLOCK_MONOTONIC counts sleep.
_COUNTS_SLEEP: Final = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def wall() -> Instant:
    """This machine's idea of the time; people may set it."""
    return time.time()


def monotonic() -> float:
    """Seconds since some moment; never goes back, and counts the time that the machine slept."""
    return time.clock_gettime(_COUNTS_SLEEP)


class DatabaseClock:
    """The database's `clock_timestamp()`, carried on by the monotonic clock. May be read in several threads.

    `now` does not go back by less than a second (a new reading is never exact); it follows the database's clock if that was set back by more.
    """

    def __init__(self) -> None:
        self._offset: float | None = None
        self._unsure_s = 0.0
        self._read_at = 0.0
        self._last: Instant = 0.0

    def heard(self, database_now: Instant, asked_at: float, answered_at: float) -> float:
        """Take a reading: what `clock_timestamp()` said, and the monotonic time before it was asked for and after the answer.

        It lies in between, so it is exact to half the round trip. A reading is kept until one that is surer, with the drift since then.
        Returns how far somebody has set the clock since the reading before, in seconds; 0: nobody has.
        """
        moved_s = 0.0
        unsure = (answered_at - asked_at) / 2
        offset = database_now - (asked_at + unsure)
        if self._offset is not None:
            grown = self._unsure_s + (answered_at - self._read_at) * _DRIFT
            if unsure > grown and abs(offset - self._offset) <= unsure + grown:
                return 0.0
            if abs(offset - self._offset) > unsure + grown + _SET_S:
                moved_s = offset - self._offset
        self._offset, self._unsure_s, self._read_at = offset, unsure, answered_at
        return moved_s

    def now(self) -> Instant:
        """The database's time. RuntimeError before the first reading."""
        if self._offset is None:
            raise RuntimeError("the database's clock was not read yet")
        now = monotonic() + self._offset
        last = self._last
        if last - _BACK_S < now < last:
            return last
        self._last = now
        return now

    def monotonic(self) -> float:
        return monotonic()
