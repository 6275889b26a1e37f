"""Awake or asleep (L25, D8): awake, a leader looks in every tick and holds the lock that tells submitters so; asleep, it is told, and looks as a backstop."""

from jobyard.contracts.moments import Instant
from jobyard.contracts.rules import Rules
from jobyard.coordinator.seams import Clock, LaneStore


class Wakefulness:
    """Whether one lane's leader is awake, and how long it may wait for its next tick. Used by the tick thread."""

    def __init__(self, store: LaneStore, clock: Clock, rules: Rules) -> None:
        self._store = store
        self._clock = clock
        self._rules = rules
        self._awake = True
        self._settled = True
        self._worked_at = clock.monotonic()
        self._looked_at = -1.0

    @property
    def awake(self) -> bool:
        """The leader holds the lock and looks in every tick."""
        return self._awake

    def wait_s(self, next_at: Instant | None) -> float:
        """How long the next tick may wait for something to come, seconds."""
        if self._awake:
            longest = self._rules.tick_wait_s
        elif self._settled:
            longest = min(self._rules.poll_s, self._rules.renew_s)
        else:
            longest = self._rules.settle_poll_s
        if next_at is not None:
            longest = min(longest, max(0.0, next_at - self._clock.now()))
        return longest

    def look(self, stirred: bool) -> bool:
        """Whether this tick asks the database for what is new. A sleeper that was stirred wakes first, so that nobody notifies it while it works."""
        at = self._clock.monotonic()
        if stirred and not self._awake:
            self._store.wake()
            self._awake = True
            self._worked_at = at
        due = self._awake or not self._settled or at - self._looked_at >= self._rules.poll_s * 0.9
        if due:
            self._looked_at = at
        return due

    def saw(self, *, worked: bool, settled: bool) -> None:
        """After a tick: whether it had work, and whether all transactions have ended that were open when the leader went to sleep."""
        at = self._clock.monotonic()
        if worked:
            self._worked_at = at
            if not self._awake:
                self._store.wake()
                self._awake = True
        elif self._awake and at - self._worked_at >= self._rules.sleep_after_s:
            self._store.sleep()
            self._awake = False
            self._settled = False
        elif not self._awake:
            self._settled = settled
