"""What is to happen later, in one thread."""

import heapq
import itertools
import sys
import time
from collections.abc import Callable


class Timetable:
    """Times are in seconds since the run began."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def say(self, line: str) -> None:
        sys.stdout.write(f"{self.now:7.1f} s  {line}\n")
        sys.stdout.flush()

    def later(self, in_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._entries, (self.now + in_s, next(self._numbers), action))

    def run_due(self) -> None:
        while self._entries and self._entries[0][0] <= self.now:
            heapq.heappop(self._entries)[2]()

    def clear(self) -> None:
        """Nothing of it happens any more."""
        self._entries.clear()
