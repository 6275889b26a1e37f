"""How far the due rows of each priority and kind have been read into memory.

Every row of `pending` up to the cursor stands in memory. `next_at` is the earliest run_at known behind it. So memory is bounded, however much waits.
"""

from collections.abc import Iterator

from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.questions import DueAnswer, DueQuestion

FIRST_ID = "00000000-0000-0000-0000-000000000000"
"""Smaller than any job's id."""
_MOST_A_TICK = 2_000
_MOST_WHEN_FULL = 500


class Backlog:
    """One priority and kind. `held`: its jobs in memory. `cursor`: (run_at, id). `high`: the furthest that the cursor has been."""

    __slots__ = ("cursor", "held", "high", "kind", "next_at", "noticed", "priority")

    def __init__(self, priority: int, kind: str, next_at: Instant | None = None) -> None:
        self.priority = priority
        self.kind = kind
        self.cursor: tuple[Instant, str] = (0.0, FIRST_ID)
        self.high: Instant = 0.0
        self.next_at = next_at
        self.held = 0
        self.noticed: Instant | None = None

    def moved(self, cursor: tuple[Instant, str]) -> None:
        """All rows up to here are in memory."""
        self.cursor = cursor
        if cursor[0] > self.high:
            self.high = cursor[0]

    def settle(self) -> None:
        """What was noticed in the tick takes effect: behind the cursor it is read again from there, else it is the next."""
        at = self.noticed
        if at is None:
            return
        self.noticed = None
        if at <= self.cursor[0]:
            self.cursor = (at, FIRST_ID)
            self.next_at = at
        elif self.next_at is None or at < self.next_at:
            self.next_at = at


class Backlogs:
    """All backlogs of a lane."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: dict[tuple[int, str], Backlog] = {}
        self._noticed: list[Backlog] = []

    def of(self, priority: int, kind: str) -> Backlog:
        """The backlog of a priority and kind."""
        found = self._all.get((priority, kind))
        if found is None:
            found = self._all[priority, kind] = Backlog(priority, kind)
        return found

    def __iter__(self) -> Iterator[Backlog]:
        return iter(self._all.values())

    def has_room(self, backlog: Backlog) -> bool:
        """Whether one more may be held in memory."""
        return backlog.held < self._most

    def notice(self, backlog: Backlog, run_at: Instant) -> None:
        """A row with this run_at is, or will be by the end of the tick, in `pending` and not in memory."""
        if backlog.noticed is None:
            self._noticed.append(backlog)
            backlog.noticed = run_at
        elif run_at < backlog.noticed:
            backlog.noticed = run_at

    def wanted(self, backlog: Backlog) -> bool:
        """Whether memory has room for what is due: low, or something earlier than what is held has turned up (S2)."""
        if backlog.held * 2 < self._most:
            return True
        return backlog.cursor[0] < backlog.high and backlog.held < 2 * self._most

    def question(self, backlog: Backlog, now: Instant) -> DueQuestion:
        """What to read next."""
        most = min(_MOST_A_TICK, max(self._most - backlog.held, _MOST_WHEN_FULL))
        return DueQuestion(backlog.priority, backlog.kind, backlog.cursor, now, most)

    def answered(self, backlog: Backlog, answer: DueAnswer) -> None:
        """These rows are in memory now."""
        backlog.next_at = answer.next_at
        if answer.rows:
            last = answer.rows[-1].job
            backlog.moved((last.run_at, last.id))
        if answer.next_at is None or answer.next_at > backlog.high:
            backlog.high = backlog.cursor[0]

    def settle(self) -> None:
        """The end of a tick."""
        for backlog in self._noticed:
            backlog.settle()
        self._noticed.clear()
