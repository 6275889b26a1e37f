"""The Master DB: the tables in memory, behind transactions that take time and may fail before their commit, after it, or without an answer."""

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from time import thread_time
from typing import Literal, Protocol, TypeAlias

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.job import Job
from jobyard.contracts.moments import Instant
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.questions import Answers, Questions
from jobyard.coordinator.core.snapshot import Snapshot
from jobyard.coordinator.seams import Deposed, Term
from jobyard.coordinator.simulation.clocks import START
from jobyard.coordinator.simulation.schedule import Schedule
from jobyard.coordinator.simulation.violation import Killed
from jobyard.testing.memory_store import MemoryLaneStore
from jobyard.testing.memory_tables import MemoryLane

Failure: TypeAlias = Literal["before", "after"]


class Waiter(Protocol):
    """The process that waits for an answer. `elapse` lets all else go on; it ends the caller if the process was killed meanwhile."""

    def elapse(self, seconds: float) -> None: ...
    def monotonic(self) -> float: ...


class Committed(Protocol):
    """Told of each commit of a leader, before anything else can happen."""

    def __call__(
        self, store: "SimulatedStore", events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, epoch: int
    ) -> None: ...


class Database:
    """`skew`: how far its clock is ahead. `down_until`: no answer before. `failing`: how the next commits fail, in turn.

    `took_s`: seconds that real Python needed between the parts of ticks: hearing, deciding, writing.
    """

    def __init__(self, schedule: Schedule, chance: Random, rules: Rules) -> None:
        self._schedule = schedule
        self.chance = chance
        self.rules = rules
        self.skew = 0.0
        self.down_until = 0.0
        self.slow_until = 0.0
        self.slow_s = 0.0
        self.failing: list[Failure] = []
        self.tables = MemoryLane(self.now)
        self.committed: list[Committed] = []
        self.open: dict[int, set[str]] = {}
        self.began = 0.0
        self.took_s = {"hear": 0.0, "ask": 0.0, "decide": 0.0, "write": 0.0}

    def now(self) -> Instant:
        """Its clock."""
        return START + self._schedule.now + self.skew

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._schedule.now

    def tick_began(self) -> None:
        """A tick has taken its messages."""
        self.began = thread_time()

    def trip(self, waiter: Waiter) -> None:
        """A request goes there, or an answer comes back."""
        took = 0.0002 + 0.001 * self.chance.random()
        if self._schedule.now < self.slow_until:
            took += self.slow_s * self.chance.random()
        waiter.elapse(took)
        if self._schedule.now < self.down_until:
            raise ServiceUnavailable("the database does not answer")

    def locked(self, job_id: str) -> bool:
        """Whether an open transaction of a leader or client has inserted this id: whoever submits it waits."""
        return job_id in self.tables.locked or any(job_id in ids for ids in self.open.values())

    def submit(self, job: Job) -> bool:
        """A client's transaction. False: it must wait for another's."""
        if self.locked(job.id):
            return False
        self.tables.submit(job)
        return True


class SimulatedStore(MemoryLaneStore):
    """One leadership's session. `number`: of the session. `inserted`: ids of the jobs that its transaction has found to be new."""

    def __init__(self, database: Database, leader: str, waiter: Waiter, number: int) -> None:
        super().__init__(database.tables, leader, database.rules, waiter.monotonic)
        self._db = database
        self._waiter = waiter
        self.number = number
        self.inserted: set[str] = set()
        self.looks = (float("-inf"), float("-inf"))
        """When it looked for others' rows the last time but one, and the last time."""

    def seize(self, at_least: int = 0) -> Term | None:
        asked_at = self._waiter.monotonic()
        self._db.trip(self._waiter)
        term = super().seize(at_least)
        self._db.trip(self._waiter)
        if term is not None:
            term.asked_at, term.answered_at = asked_at, self._waiter.monotonic()
            term.trusted_until = asked_at + self._db.rules.trust_s
        return term

    def snapshot(self) -> Snapshot:
        self._db.trip(self._waiter)
        found = super().snapshot()
        self._db.trip(self._waiter)
        return found

    @property
    def looked(self) -> int:
        """Up to which of the others' commits it has looked (L23)."""
        return self._looked

    def picture(self) -> Snapshot:
        """What a take-over would read now. Takes no time, and changes nothing that this session knows."""
        return MemoryLaneStore(self._db.tables, "nobody", self._db.rules).snapshot()

    def ask(self, questions: Questions) -> Answers:
        db = self._db
        if db.began:
            db.took_s["hear"] += thread_time() - db.began
        db.trip(self._waiter)
        began = thread_time()
        answers = super().ask(questions)
        db.took_s["ask"] += thread_time() - began
        if questions.look:
            self.looks = (self.looks[1], db.seconds)
        self.inserted = db.open[self.number] = {job.id for job in answers.jobs}
        db.trip(self._waiter)
        db.began = thread_time()
        return answers

    def write(self, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, term: Term) -> None:
        db = self._db
        if db.began:
            db.took_s["decide"] += thread_time() - db.began
            db.began = 0.0
        asked_at = self._waiter.monotonic()
        try:
            db.trip(self._waiter)
        except Killed:
            if db.chance.random() < 0.5:  # the COMMIT was on its way
                with suppress(Deposed):
                    self._commit(events, offsets, fence, term)
            raise
        failure = db.failing.pop(0) if db.failing else None
        if failure == "before":
            raise ServiceUnavailable("the commit failed")
        self._commit(events, offsets, fence, term)
        now = term.now
        db.trip(self._waiter)
        if failure == "after":
            raise ServiceUnavailable("the answer to the commit never came")
        term.now, term.asked_at, term.answered_at = now, asked_at, self._waiter.monotonic()
        term.trusted_until = asked_at + db.rules.trust_s

    def _commit(self, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, term: Term) -> None:
        db = self._db
        began = thread_time()
        super().write(events, offsets, fence, term)
        db.took_s["write"] += thread_time() - began
        db.open.pop(self.number, None)
        for told in db.committed:
            told(self, events, offsets, fence, term.epoch)

    def close(self) -> None:
        super().close()
        self._db.open.pop(self.number, None)
