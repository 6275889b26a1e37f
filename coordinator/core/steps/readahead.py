"""Which due rows to read into memory, and what was found (L23)."""

from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.core.books.backlog import Backlog, Backlogs
from jobyard.coordinator.core.books.pools import Pools
from jobyard.coordinator.core.books.waiting import WaitingJobs
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.questions import Answers, Questions


class Readahead:
    """The step. Kinds that nobody runs are not read: their jobs wait in the Master DB (S14)."""

    def __init__(self, backlogs: Backlogs, waiting: WaitingJobs, pools: Pools) -> None:
        self._backlogs = backlogs
        self._waiting = waiting
        self._pools = pools

    def hear(self, batch: Batch, questions: Questions, events: list[Event], now: Instant) -> None:
        """Ask for what is due and has room in memory."""
        questions.look = batch.look
        wanted = [backlog for backlog in self._backlogs if backlog.next_at is not None and backlog.next_at <= now and self._wanted(backlog)]
        questions.due = self._backlogs.questions(wanted, now)

    def decide(self, batch: Batch, answers: Answers, events: list[Event], now: Instant) -> None:
        """Rows that are due wait in memory; where others committed rows is read by and by."""
        for answer in answers.due:
            backlog = self._backlogs.of(answer.priority, answer.kind, answer.flow)
            self._backlogs.answered(backlog, answer, self._waiting.read(backlog, answer.rows))
        for fresh in answers.fresh:
            self._backlogs.notice(self._backlogs.of(fresh.priority, fresh.kind, fresh.flow), fresh.run_at)

    @property
    def next_at(self) -> Instant | None:
        """When the next row is due that memory has room for; in the past: at once."""
        return min(
            (backlog.next_at for backlog in self._backlogs if backlog.next_at is not None and self._wanted(backlog)),
            default=None,
        )

    def _wanted(self, backlog: Backlog) -> bool:
        return self._backlogs.wanted(backlog) and self._pools.known(backlog.kind)
