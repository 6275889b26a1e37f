"""The queue of events, and the time: nothing happens but here, one after the other."""

import heapq
from collections.abc import Callable
from struct import Struct
from typing import Final
from zlib import crc32

from jobyard.coordinator.simulation.violation import Violation

DEEPEST: Final = 60
"""Waits inside waits; deeper ones take no time."""
_STANDSTILL: Final = 200_000
"""So many steps without time going on are a loop."""
_PACKED: Final = Struct("<d").pack


class Entry:
    """Something that will happen, unless `dropped`."""

    __slots__ = ("dropped", "label", "what", "when")

    def __init__(self, when: float, what: Callable[[], None], label: str) -> None:
        self.when = when
        self.what = what
        self.label = label
        self.dropped = False


class Schedule:
    """`now`: seconds since the beginning. `steps`: how many events have happened. `trace`: a sum over all of them, equal for equal runs.

    `each`: called after every `every` steps. A part that waits lets others go on (`run_until` inside an event): so ticks overlap with all else.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self.trace = 0
        self.every = 1
        self.each: Callable[[], None] = lambda: None
        self._heap: list[tuple[float, int, Entry]] = []
        self._count = 0
        self._depth = 0
        self._since = 0

    def at(self, when: float, what: Callable[[], None], label: str) -> Entry:
        """Have something happen at a time; in the past: now. `label`: for the trace."""
        self._count += 1
        if when < self.now:
            when = self.now
        entry = Entry(when, what, label)
        heapq.heappush(self._heap, (when, self._count, entry))
        return entry

    def after(self, seconds: float, what: Callable[[], None], label: str) -> Entry:
        """Have something happen so much later."""
        return self.at(self.now + seconds, what, label)

    def run_until(self, when: float, enough: Callable[[], bool] | None = None) -> None:
        """Let everything happen up to a time, or until it is enough. Called inside an event: that one waits, and time goes on at most so far."""
        if self._depth >= DEEPEST:
            return
        self._depth += 1
        try:
            heap, pop = self._heap, heapq.heappop
            while heap and heap[0][0] <= when:
                at, _, entry = pop(heap)
                if entry.dropped:
                    continue
                if at > self.now:
                    self.now = at
                    self._since = self.steps
                elif self.steps - self._since > _STANDSTILL:
                    raise Violation("progress", f"{_STANDSTILL} steps at {self.now} s, the last: {entry.label}")
                self.steps += 1
                self.trace = crc32(_PACKED(at), crc32(entry.label.encode(), self.trace))
                entry.what()
                if self.steps % self.every == 0:
                    self.each()
                if enough is not None and enough():
                    return
            self.now = max(self.now, when)
        finally:
            self._depth -= 1

    def saw(self, what: str) -> None:
        """Something that the trace is to tell, too."""
        self.trace = crc32(what.encode(), self.trace)
