"""How long jobs take, by kind and size class (S16): learned from ends, and written every few seconds, so a take-over knows nearly what its predecessor knew."""

import math
from collections.abc import Iterable

from jobyard.contracts.moments import Instant
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.events import Event, Learned, Mean

_MOST = 1_000_000_000
"""More ends are not counted."""


def size_class(size: float) -> int:
    """The power of two that the size does not exceed: 1 → 0, 2 → 1, 3 and 4 → 2, 5 to 8 → 3. Sizes below 1 have negative classes."""
    mantissa, exponent = math.frexp(size)
    return exponent - 1 if mantissa == 0.5 else exponent


class Duration:
    """The mean of one kind and size class, in seconds, and how many ends it was made of. `written`: how many when it was last written."""

    __slots__ = ("mean", "seen", "written")

    def __init__(self, seen: int = 0, mean: float = 0.0) -> None:
        self.seen = seen
        self.mean = mean
        self.written = seen


class Durations:
    """All means of a lane. `known`: as they were last written."""

    def __init__(self, rules: Rules, known: Iterable[Mean] = ()) -> None:
        self._every = rules.learned_every_s
        self._written_at: Instant = 0.0
        self._learn = rules.learn
        self._trust = rules.trust_ends
        self._short = rules.window_s
        self._known: dict[tuple[str, int], Duration] = {(one.kind, one.size_class): Duration(one.ends, one.mean_s) for one in known}

    def of(self, kind: str, size_class: int) -> Duration:
        """The mean of a kind and class; always the same object, so that a strand may keep it."""
        found = self._known.get((kind, size_class))
        if found is None:
            found = self._known[kind, size_class] = Duration()
        return found

    def known(self, kind: str, size_class: int) -> Duration | None:
        """The same for who only looks; None: nothing of it has been met."""
        return self._known.get((kind, size_class))

    def learned(self, duration: Duration, ends: int, total: float) -> None:
        """`ends` jobs took `total` seconds together: a plain mean of the first `learn` ends, then each counts 1 ÷ `learn`."""
        before, duration.seen = duration.seen, min(duration.seen + ends, _MOST)
        mean = total / ends
        if duration.seen <= self._learn:
            share = ends / duration.seen
        elif before < self._learn:
            share = ends / self._learn if ends < self._learn else 1.0
        else:
            share = 1.0 - (1.0 - 1.0 / self._learn) ** ends
        duration.mean += (mean - duration.mean) * share

    def settle(self, events: list[Event], now: Instant) -> None:
        """The end of a tick: now and then what has changed is written."""
        if now - self._written_at < self._every:
            return
        self._written_at = now
        means: list[Mean] = []
        for (kind, size), duration in self._known.items():
            if duration.seen != duration.written:
                duration.written = duration.seen
                means.append(Mean(kind, size, duration.seen, duration.mean))
        if means:
            events.append(Learned(means))

    def short(self, duration: Duration) -> bool:
        """Whether these are known to be short: only they go beyond free slots, and in bundles (S8, S11)."""
        return duration.seen >= self._trust and duration.mean <= self._short
