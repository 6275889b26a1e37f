"""How far the due rows of each priority and kind have been read into memory.

Every row of `pending` up to the cursor stands in memory; some behind it may, too. `next_at` is the earliest run_at known behind it. So memory is
bounded, in jobs and in bytes, however much waits.
"""

from collections.abc import Iterator, Sequence

from jobyard.contracts.ids import FIRST_ID
from jobyard.contracts.moments import Instant
from jobyard.contracts.priority import PRIORITIES
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.questions import DueAnswer, DueQuestion

_MOST_A_TICK = 2_000
_MOST_WHEN_FULL = 500


class Backlog:
    """One priority and kind. `held`: its jobs in memory. `cursor`: (run_at, id). `high`: no job in memory lies behind it, nor behind the cursor."""

    __slots__ = ("cursor", "held", "high", "kind", "next_at", "noticed", "priority")

    def __init__(self, priority: int, kind: str, next_at: Instant | None = None) -> None:
        self.priority = priority
        self.kind = kind
        self.cursor: tuple[Instant, str] = (0.0, FIRST_ID)
        self.high = self.cursor
        self.next_at = next_at
        self.held = 0
        self.noticed: Instant | None = None

    def moved(self, cursor: tuple[Instant, str]) -> None:
        """All rows up to here are in memory."""
        self.cursor = cursor
        if cursor > self.high:
            self.high = cursor

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
    """All backlogs of a lane. `bytes`: of the arguments of all jobs in memory."""

    def __init__(self, rules: Rules) -> None:
        self._most = rules.read_ahead
        self._tick_bytes = rules.tick_bytes
        self._bytes = [rules.read_ahead_bytes * (10 - priority) // 10 for priority in PRIORITIES]
        self.bytes = 0
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

    def has_room(self, backlog: Backlog, size: int) -> bool:
        """Whether one more, whose arguments have this many bytes, may be held in memory. One always may."""
        held = backlog.held
        return not held or (held < self._most and self.bytes + size <= self._bytes[backlog.priority])

    def notice(self, backlog: Backlog, run_at: Instant) -> None:
        """A row with this run_at is, or will be by the end of the tick, in `pending` and not in memory."""
        if backlog.noticed is None:
            self._noticed.append(backlog)
            backlog.noticed = run_at
        elif run_at < backlog.noticed:
            backlog.noticed = run_at

    def wanted(self, backlog: Backlog) -> bool:
        """Whether memory has room for what is due: low, or something earlier than what is held has turned up and takes its place (S2)."""
        if not backlog.held or backlog.cursor < backlog.high:
            return True
        return backlog.held * 2 < self._most and self.bytes * 2 < self._bytes[backlog.priority]

    def questions(self, wanted: Sequence[Backlog], now: Instant) -> list[DueQuestion]:
        """What to read next, in all not more than a tick may."""
        return [self._question(backlog, now, len(wanted)) for backlog in wanted]

    def _question(self, backlog: Backlog, now: Instant, wanted: int) -> DueQuestion:
        most = min(_MOST_A_TICK, max(self._most - backlog.held, _MOST_WHEN_FULL))
        most_bytes = self._tick_bytes
        if backlog.cursor == backlog.high:  # else part of what is read stands in memory already
            most_bytes = min(most_bytes, max(0, self._bytes[backlog.priority] - self.bytes))
        return DueQuestion(backlog.priority, backlog.kind, backlog.cursor, now, most, most_bytes // wanted)

    def answered(self, backlog: Backlog, answer: DueAnswer, taken: int) -> None:
        """The first `taken` of these rows are in memory now."""
        rows = answer.rows
        if taken:
            last = rows[taken - 1].job
            backlog.moved((last.run_at, last.id))
        if taken < len(rows):  # for these nothing later than the cursor could make room
            backlog.next_at = rows[taken].job.run_at
            backlog.high = backlog.cursor
            return
        backlog.next_at = answer.next_at
        if answer.next_at is None or answer.next_at > backlog.high[0]:
            backlog.high = backlog.cursor

    def settle(self) -> None:
        """The end of a tick."""
        for backlog in self._noticed:
            backlog.settle()
        self._noticed.clear()
