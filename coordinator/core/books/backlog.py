"""How far the due rows of each priority and kind (and flow, where the lane shares fairly) have been read into memory.

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
_FLOWS_AT_ONCE = 16
"""With so many flows memory holds as much as without any; with more, more, up to sixteen times that."""


class Backlog:
    """One priority, kind and flow. `held`: its jobs in memory, at most `most`. `cursor`: (run_at, id). `high`: no job in memory lies behind it, nor behind
    the cursor."""

    __slots__ = ("cursor", "flow", "held", "high", "kind", "most", "next_at", "noticed", "priority")

    def __init__(self, priority: int, kind: str, flow: int, most: int) -> None:
        self.priority = priority
        self.kind = kind
        self.flow = flow
        self.most = most
        self.cursor: tuple[Instant, str] = (0.0, FIRST_ID)
        self.high = self.cursor
        self.next_at: Instant | None = None
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
        self._all: dict[tuple[int, str, int], Backlog] = {}
        self._noticed: list[Backlog] = []

    def of(self, priority: int, kind: str, flow: int) -> Backlog:
        """The backlog of a priority, kind and flow."""
        found = self._all.get((priority, kind, flow))
        if found is None:
            most = max(1, self._most // _FLOWS_AT_ONCE) if flow else self._most
            found = self._all[priority, kind, flow] = Backlog(priority, kind, flow, most)
        return found

    def __iter__(self) -> Iterator[Backlog]:
        return iter(self._all.values())

    def has_room(self, backlog: Backlog, size: int) -> bool:
        """Whether one more, whose arguments have this many bytes, may be held in memory. One always may."""
        held = backlog.held
        return not held or (held < backlog.most and self.bytes + size <= self._bytes[backlog.priority])

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
        return backlog.held * 2 < backlog.most and self.bytes * 2 < self._bytes[backlog.priority]

    def questions(self, wanted: Sequence[Backlog], now: Instant) -> list[DueQuestion]:
        """What to read next, in all not more than a tick may."""
        return [self._question(backlog, now, len(wanted)) for backlog in wanted]

    def _question(self, backlog: Backlog, now: Instant, wanted: int) -> DueQuestion:
        most = min(_MOST_A_TICK, max(backlog.most - backlog.held, min(_MOST_WHEN_FULL, backlog.most)))
        most_bytes = self._tick_bytes
        if backlog.cursor == backlog.high:  # else part of what is read stands in memory already
            most_bytes = min(most_bytes, max(0, self._bytes[backlog.priority] - self.bytes))
        return DueQuestion(backlog.priority, backlog.kind, backlog.flow, backlog.cursor, now, most, most_bytes // wanted)

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

    def sweep(self) -> None:
        """Forget flows of which nothing waits. How far they were read is forgotten, too: what comes is read from the beginning."""
        self._all = {key: one for key, one in self._all.items() if not one.flow or one.held or one.next_at is not None}
