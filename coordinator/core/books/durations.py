"""How long jobs take, by kind and size class (S16): learned from ends, never written, so a take-over starts without."""

import math

from jobyard.contracts.rules import Rules


def size_class(size: float) -> int:
    """The power of two that the size does not exceed: 1 → 0, 2 → 1, 3 and 4 → 2, 5 to 8 → 3. Sizes below 1 have negative classes."""
    mantissa, exponent = math.frexp(size)
    return exponent - 1 if mantissa == 0.5 else exponent


class Duration:
    """The mean of one kind and size class, in seconds, and how many ends it was made of."""

    __slots__ = ("mean", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self.mean = 0.0


class Durations:
    """All means of a lane."""

    def __init__(self, rules: Rules) -> None:
        self._learn = rules.learn
        self._trust = rules.trust_ends
        self._short = rules.window_s
        self._known: dict[tuple[str, int], Duration] = {}

    def of(self, kind: str, size_class: int) -> Duration:
        """The mean of a kind and class; always the same object, so that a strand may keep it."""
        found = self._known.get((kind, size_class))
        if found is None:
            found = self._known[kind, size_class] = Duration()
        return found

    def learned(self, duration: Duration, ends: int, total: float) -> None:
        """`ends` jobs took `total` seconds together: a plain mean of the first `learn` ends, then each counts 1 ÷ `learn`."""
        before, duration.seen = duration.seen, duration.seen + ends
        mean = total / ends
        if duration.seen <= self._learn:
            share = ends / duration.seen
        elif before < self._learn:
            share = ends / self._learn if ends < self._learn else 1.0
        else:
            share = 1.0 - (1.0 - 1.0 / self._learn) ** ends
        duration.mean += (mean - duration.mean) * share

    def short(self, duration: Duration) -> bool:
        """Whether these are known to be short: only they go beyond free slots, and in bundles (S8, S11)."""
        return duration.seen >= self._trust and duration.mean <= self._short
