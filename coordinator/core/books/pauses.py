"""What is paused by hand: the lane, or kinds (S15). What is paused places nothing; what is placed goes on, and intake goes on."""

from collections.abc import Iterable


class Pauses:
    """Read at the take-over, and again whenever somebody pauses or resumes."""

    def __init__(self, lane: bool, kinds: Iterable[str]) -> None:
        self.lane = lane
        self.kinds = frozenset(kinds)

    def told(self, lane: bool, kinds: Iterable[str]) -> bool:
        """How it is now; whether that is another than before."""
        before = (self.lane, self.kinds)
        self.lane, self.kinds = lane, frozenset(kinds)
        return (self.lane, self.kinds) != before
