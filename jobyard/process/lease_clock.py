"""The clock that an agent's lease goes by: monotonic, counts sleep, and takes a jump of the wall clock for time that went by."""

import threading
from collections.abc import Callable
from typing import Final

from jobyard.contracts.moments import Instant
from jobyard.process import clock

JUMP_S: Final = 0.5
"""A wall clock that is ahead by less was only adjusted."""


class LeaseClock:
    """Seconds that never go back. May be read in any thread.

    Where a machine is frozen in such a way that even the clock that counts sleep stands still (a virtual machine's snapshot), the wall clock
    jumps when it goes on: the jump is added here, so a lease that ran out meanwhile has ended (A6).
    """

    def __init__(self, monotonic: Callable[[], float] = clock.monotonic, wall: Callable[[], Instant] = clock.wall) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._lock = threading.Lock()
        self._ahead = wall() - monotonic()
        self._jumped = 0.0

    def now(self) -> float:
        """The time, all forward jumps of the wall clock included."""
        now = self._monotonic()
        ahead = self._wall() - now - self._ahead
        if ahead > JUMP_S or ahead < -JUMP_S:
            self._shifted()
        return now + self._jumped

    def ran(self) -> float:
        """The same without the jumps: nothing has run in that time, so time-outs go by this."""
        return self._monotonic()

    def wall(self) -> Instant:
        """The wall clock, an instant."""
        return self._wall()

    def _shifted(self) -> None:
        with self._lock:
            # Measured again under the lock: another thread may have counted this jump already.
            shift = self._wall() - self._monotonic() - self._ahead
            if abs(shift) > JUMP_S:
                self._ahead += shift
                self._jumped += max(0.0, shift)
