"""Until when an agent may start jobs (A6)."""

from math import inf


class Lease:
    """The lease of one incarnation, on the agent's own clock (seconds; it counts sleep).

    Written by the turn thread; `holds` may be asked by any thread, and is asked by the one that calls a handler, as the last thing before the call.
    """

    __slots__ = ("_over", "until")

    def __init__(self) -> None:
        self.until = -inf
        self._over = False

    def holds(self, now: float) -> bool:
        """Whether a job may be started at `now`."""
        return now < self.until

    def grant(self, stamp: float, lost_after_s: float, margin_s: float) -> None:
        """The leader, or the broker in an unbroken chain, has heard what was said at `stamp`. Never shortens; nothing after `end`."""
        until = stamp + lost_after_s - margin_s
        if until > self.until and not self._over:
            self.until = until

    def confirm(self, stamp: float, now: float, lost_after_s: float, margin_s: float) -> None:
        """The same, as a leader tells it. The agent has said nothing yet that lies ahead: such a stamp grants nothing."""
        if stamp <= now:
            self.grant(stamp, lost_after_s, margin_s)

    def end(self) -> None:
        """For good: this incarnation starts nothing any more."""
        self._over = True
        self.until = -inf
