"""New jobs go into `jobs`: by COPY, which shows that all are new; or, where that fails, one by one, so that what others hold locked is set aside (L2).

Jobs found wrong go in as well, as rows without arguments: only so is their id taken for ever.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec
import psycopg
from psycopg import RawCursor
from psycopg.pq import ExecStatus
from psycopg.rows import TupleRow, tuple_row

from jobyard.contracts.ids import derived_job_id
from jobyard.contracts.job import Job, Kind, RefusedJob, resolve
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.questions import Answers, Questions
from jobyard.master_db import rows
from jobyard.master_db.connection import Connection, roll_back
from jobyard.master_db.job_rows import stretches
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.queries import Query, Statement

FEW: Final = 8
"""Up to so many rows of a table go as INSERTs in the pipeline: a COPY costs two round trips of its own (measured: 2 rows 1.5 times as long, 16 rows 0.65)."""
_ONE_TIMEOUT: Final = b"set local lock_timeout = '20ms'"
_ONE_BUDGET_S: Final = 1.0
_AGAIN_BUDGET_S: Final = 0.2
_AGAIN_MOST: Final = 200
_CHUNK: Final = 200

LOCKED: Final = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
Cursors: TypeAlias = list[RawCursor[TupleRow]]


class KnownJob(NamedTuple):
    """That a job is there."""

    id: str


class HeldRow(NamedTuple):
    """A job set aside, as JSON."""

    id: str
    job: str


class AnyHeld(NamedTuple):
    """Whether jobs are set aside."""

    any: bool


KNOWN_JOBS = Query("known_jobs", KnownJob)
HOLD_JOBS = Statement("hold_jobs")
HELD_JOBS = Query("held_jobs", HeldRow)
LET_GO = Statement("let_go")
ANY_HELD = Query("any_held", AnyHeld)


class Held(msgspec.Struct, omit_defaults=True):
    """What `held_intake` keeps: a job, or one that was found wrong."""

    job: Job | None = None
    refused: RefusedJob | None = None

    @property
    def kind(self) -> str:
        """The name of its kind."""
        one = self.job or self.refused
        assert one is not None, "a row of held_intake holds neither job nor refused job"  # noqa: S101 - only we write them
        return one.kind


@dataclass(slots=True)
class Inserted:
    """Ids that were new, and ids that were set aside. All others were there."""

    new: set[str] = field(default_factory=set[str])
    held: set[str] = field(default_factory=set[str])


_GENERAL: Final = Kind()


@dataclass(slots=True)
class New:
    """What a tick brings, by id: jobs, wrong ones, and those set aside. `rows`: the text of what is to be inserted. `new`: what went in.
    `offered`: how many right jobs came, doubles counted. `problems`: those found wrong here."""

    offered: int = 0
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    wrong: dict[str, RefusedJob] = field(default_factory=dict[str, RefusedJob])
    problems: list[RefusedJob] = field(default_factory=list[RefusedJob])
    held: dict[str, Held] = field(default_factory=dict[str, Held])
    rows: dict[str, str] = field(default_factory=dict[str, str])
    new: set[str] = field(default_factory=set[str])

    def took(self, inserted: Inserted) -> None:
        """What has become of the rows."""
        self.new = inserted.new
        for job_id in inserted.held:
            self.held[job_id] = Held(job=self.jobs[job_id]) if job_id in self.jobs else Held(refused=self.wrong[job_id])

    def count(self, answers: Answers) -> None:
        """Tell it."""
        mine = [job for job_id, job in self.jobs.items() if job_id in self.new]
        held = sum(one.job is not None for one in self.held.values())
        answers.jobs = mine + answers.jobs
        answers.problems = [one for one in self.problems if one.id in self.new and self.wrong.get(one.id) is one] + answers.problems
        answers.refused |= self.new & self.wrong.keys()
        answers.held = len(self.held)
        answers.duplicates = self.offered - len(mine) - held


class Intake:
    """Inserts into `jobs` for one lane. Opens the transaction; nothing else has been done in it before."""

    def __init__(self, lane_id: int, kinds: KindNumbers, rules: Rules, monotonic: Callable[[], float]) -> None:
        self._lane_id = lane_id
        self._kinds = kinds
        self._monotonic = monotonic
        self._begin = f"begin; set local lock_timeout = '{round(rules.intake_lock_timeout_s * 1000)}ms'".encode()

    def sort_out(self, connection: Connection, questions: Questions) -> New:
        """New jobs, wrong ones, and those of a kind that somebody else is just adding. Of an id that comes twice the first counts."""
        names = {one.new.kind for one in questions.unresolved} | {one.kind for one in questions.refused}
        for agent in questions.agents:
            names |= agent.kinds.keys()
        if questions.held_again:
            names |= {one.kind for one in self._held(connection).values()}
        locked = self._kinds.meet(connection, names) if names else set[str]()
        new = New(offered=len(questions.jobs))
        for job in questions.jobs:
            new.jobs.setdefault(job.id, job)
        for one in questions.unresolved:
            found = resolve(one.new, self._kinds.kinds.get(one.new.kind) or _GENERAL, one.received, one.key, one.now)
            if not isinstance(found, Job):
                job_id = one.new.id or derived_job_id(one.received, one.key)
                new.problems.append(RefusedJob(id=job_id, kind=one.new.kind, problem=found, submitter=one.new.submitter))
                continue
            new.offered += 1
            if found.id not in new.jobs and found.id not in new.held:
                if found.kind in locked:
                    new.held[found.id] = Held(job=found)
                else:
                    new.jobs[found.id] = found
        for refused in (*questions.refused, *new.problems):
            if refused.id not in new.jobs and refused.id not in new.held:
                if refused.kind in locked:
                    new.held[refused.id] = Held(refused=refused)
                else:
                    new.wrong.setdefault(refused.id, refused)
        new.rows = self._rows(new.jobs.values(), new.wrong.values())
        return new

    def _rows(self, jobs: Collection[Job], refused: Collection[RefusedJob]) -> dict[str, str]:
        """The text of their rows by id. All kinds are known."""
        found = dict(zip((job.id for job in jobs), rows.jobs(jobs, self._kinds.ids, self._lane_id), strict=True))
        for one in refused:
            found[one.id] = rows.refused_job(one.id, self._kinds.ids[one.kind], one.submitter, self._lane_id)
        return found

    def queue(self, connection: Connection, new: Mapping[str, str]) -> Cursors:
        """A few: begin and insert, as part of a pipeline. May fail with one of LOCKED when the pipeline ends: roll back, then `insert_slowly`."""
        for part in self._begin.split(b"; "):
            connection.execute(part)
        return [_insert(connection, row) for row in new.values()]

    def insert(self, connection: Connection, new: dict[str, str]) -> Inserted:
        """Many: begin and copy, else insert slowly."""
        connection.execute(self._begin, prepare=False)
        try:
            _copy(connection, new.values())
        except (psycopg.errors.UniqueViolation, *LOCKED):
            # the transaction holds nothing else yet: going back to its beginning is as good as a savepoint, and costs the others nothing
            roll_back(connection)
            return self.insert_slowly(connection, new)
        return Inserted(set(new))

    def insert_slowly(self, connection: Connection, new: dict[str, str]) -> Inserted:
        """Begin, leave out those that are there, copy the others, or else go one by one."""
        connection.execute(self._begin, prepare=False)
        with connection.pipeline():
            cursors = [KNOWN_JOBS.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in stretches(new)]
        known = {row.id for cursor in cursors for row in cursor.fetchall()}
        rest = {job_id: row for job_id, row in new.items() if job_id not in known}
        if not rest:
            return Inserted()
        if known and len(rest) > FEW:
            connection.execute(b"savepoint intake")
            try:
                _copy(connection, rest.values())
            except (psycopg.errors.UniqueViolation, *LOCKED):
                roll_back(connection, "intake")
            else:
                return Inserted(set(rest))
        return self._one_by_one(connection, rest, _ONE_BUDGET_S)

    def _one_by_one(self, connection: Connection, new: Mapping[str, str], budget_s: float) -> Inserted:
        """Each locked id costs one short wait; when the time is used up, what is left counts as locked."""
        connection.execute(_ONE_TIMEOUT)
        done = Inserted()
        until = self._monotonic() + budget_s
        items = list(new.items())
        for first in range(0, len(items), _CHUNK):
            left = items[first : first + _CHUNK]
            while left:
                if self._monotonic() >= until:
                    done.held.update(job_id for job_id, _ in left)
                    break
                cursors: Cursors = []
                try:
                    with connection.pipeline():
                        connection.execute(b"savepoint one")
                        cursors = [_insert(connection, row) for _, row in left]
                        connection.execute(b"release savepoint one")
                except LOCKED:
                    roll_back(connection, "one")
                    locked = _succeeded(cursors)
                    done.held.add(left.pop(locked)[0])
                else:
                    done.new |= returned(cursors)
                    break
        return done

    def hold(self, connection: Connection, held: Mapping[str, Held]) -> None:
        """Set these aside, in the same transaction as the offset."""
        HOLD_JOBS.run(connection, lane_id=self._lane_id, ids=list(held), jobs=[msgspec.json.encode(one).decode() for one in held.values()])

    def try_held(self, connection: Connection, answers: Answers) -> bool:
        """Try those that were set aside, those tried least first, not all at once; within the open transaction. Whether some are left."""
        found = self._held(connection)
        ready = {job_id: one for job_id, one in found.items() if one.kind in self._kinds.ids}
        new = self._rows(
            [one.job for one in ready.values() if one.job is not None], [one.refused for one in ready.values() if one.refused is not None]
        )
        done = self._one_by_one(connection, new, _AGAIN_BUDGET_S) if new else Inserted()
        connection.execute(b"set local lock_timeout to default")
        still = done.held | (found.keys() - ready.keys())
        LET_GO.run(connection, ids=[job_id for job_id in found if job_id not in still])
        if still:
            self.hold(connection, {job_id: found[job_id] for job_id in still})
        for one in (ready[job_id] for job_id in ready if job_id in done.new):
            if one.job is not None:
                answers.jobs.append(one.job)
            elif one.refused is not None:
                answers.problems.append(one.refused)
                answers.refused.add(one.refused.id)
        return ANY_HELD.one(connection, lane_id=self._lane_id).any

    def _held(self, connection: Connection) -> dict[str, Held]:
        return {
            row.id: msgspec.json.decode(row.job, type=Held) for row in HELD_JOBS.all(connection, lane_id=self._lane_id, most=_AGAIN_MOST)
        }


def returned(cursors: Cursors) -> set[str]:
    """The ids that INSERTs have returned: those that were new."""
    return {row[0] for cursor in cursors for row in cursor.fetchall()}


def _insert(connection: Connection, row: str) -> RawCursor[TupleRow]:
    """Never prepared: where a pipeline is cut short by a lock, the server has not seen what the library takes for prepared from then on."""
    cursor = RawCursor(connection, row_factory=tuple_row)
    cursor.execute(rows.JOBS.insert_new + b" returning id", rows.values(row), prepare=False)
    return cursor


def _succeeded(cursors: Cursors) -> int:
    """How many of a failed pipeline's INSERTs went through before the one that failed."""
    for n, cursor in enumerate(cursors):
        if cursor.pgresult is None or cursor.pgresult.status != ExecStatus.TUPLES_OK:
            return n
    return len(cursors) - 1


def _copy(connection: Connection, lines: Iterable[str]) -> None:
    with connection.cursor() as cursor, cursor.copy(rows.JOBS.copy) as copy:
        copy.write(("\n".join(lines) + "\n").encode())
