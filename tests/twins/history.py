"""Everything that can happen to a lane, done to both of the twins: by clients, operators and agents, and by whatever breaks."""

import itertools
import json
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

import msgspec

from jobyard.contracts import priority as priorities
from jobyard.contracts.ids import derived_job_id
from jobyard.contracts.job import Job, Kind, NewJob, Problem, RefusedJob, resolve
from jobyard.contracts.moments import moment
from jobyard.contracts.reports import (
    NO_RESULT,
    End,
    Error,
    Finished,
    Goodbye,
    Heartbeat,
    Hello,
    Progress,
    Released,
    Report,
    Reports,
    Started,
)
from jobyard.contracts.retry import Retrying
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import FINAL, Outcome
from jobyard.coordinator.core.questions import Command, DueQuestion, Questions
from jobyard.testing.memory_tables import CommandRow, MemoryLane
from twins.frozen_database import LANE, T0, FrozenDatabase
from twins.twins import Differ, Submitted, Twins

_HOUR_S: Final = 3_600.0
_RETRY: Final = '{"backoff": "linear"}'
_T = TypeVar("_T")


@dataclass
class Process:
    """An incarnation of an agent."""

    name: str
    incarnation: str
    capacity: float
    slots: int
    kinds: dict[str, int]
    seq: int = 0
    said: list[Reports] = field(default_factory=list[Reports])


@dataclass(frozen=True)
class Asked:
    """What one who submits asks for. `age_s`: how long ago its id was made. None: left out."""

    kind: str = "k"
    priority: int | None = None
    size: float | None = None
    max_attempts: int | None = None
    due_in_s: float | None = None
    timeout_s: float | None = None
    args: int = 1
    rare: bool = False
    age_s: float = 0.0


@dataclass(frozen=True)
class Told:
    """How an agent says that an attempt ended."""

    outcome: Outcome = Outcome.SUCCEEDED
    delay_s: float | None = None
    retryable: bool = True
    took_s: float | None = 0.25
    ended_ago_s: float = 0.0
    result: str = "null"


class History:
    """The methods choose by numbers (`pick`), modulo how many there are: so whatever is drawn means something. Ticks come between, by `twins.tick`."""

    def __init__(self, database: FrozenDatabase, rules: Rules) -> None:
        self.twins = Twins(database, rules)
        self.database = database
        self.processes: list[Process] = []
        self.ids: list[str] = []
        self._numbers = itertools.count(1)
        self._open: list[Job] = []

    def close(self) -> None:
        self.twins.close()

    def declare_sized(self) -> None:
        """Code declares a kind whose jobs tell their size in an argument; the leader has not been told yet."""
        self.database.admin.execute(
            b"insert into jobyard.kinds (kind, size_arg, retry, tags) values ('sized', 'o.size', %s, %s)", [_RETRY, '{"of": "kind"}']
        )
        self._t.kinds["sized"] = Kind(size_arg="o.size", retry=Retrying(backoff="linear"), tags={"of": "kind"})

    @property
    def _t(self) -> MemoryLane:
        return self.twins.tables

    # -- clients

    def _new(self, asked: Asked, job_id: str | None, *, by_sql: bool) -> NewJob:
        n = next(self._numbers)
        rare = asked.rare
        return NewJob(
            kind=asked.kind,
            args=msgspec.Raw(b'{"o": {"size": 2.5}}')
            if rare and asked.kind == "sized"
            else msgspec.Raw(json.dumps({"n": "ä" * asked.args if rare else "a" * asked.args}, ensure_ascii=False).encode()),
            id=job_id,
            priority=None if asked.priority is None else priorities.NAMES[asked.priority],
            size=1.5 if asked.kind == "sized" and by_sql and asked.size is None else asked.size,
            run_at=None if asked.due_in_s is None else moment(self.twins.now + asked.due_in_s),
            timeout_s=asked.timeout_s,
            max_attempts=asked.max_attempts,
            retry=Retrying(backoff="constant", base_s=2.0, jitter=0.5) if rare else None,
            version=1 if rare else None,
            submitter="tenant" if rare else self.database.actor if by_sql else None,
            tags={"tag": f"\\ \t{n}"} if rare else None,
            parent=self.ids[-1] if rare and self.ids else None,
            traceparent="00-trace" if rare else None,
        )

    def _id(self, asked: Asked, again: int | None = None) -> str:
        """A new one; or one that is known."""
        if again is not None and self.ids:
            return _pick(self.ids, again)
        job_id = derived_job_id(self.twins.now - asked.age_s, f"job {next(self._numbers)}")
        self.ids.append(job_id)
        return job_id

    def submit(self, asked: list[Asked], again: int | None = None) -> None:
        """By SQL: one by `submit`, several by `submit_many`. `again`: the first under an id that is known."""
        news: list[NewJob] = []
        for n, one in enumerate(asked):
            job_id = self._id(one, again if n == 0 else None)
            if any(job.id == job_id for job in self._open):
                return  # it would wait for the transaction that holds the id
            news.append(self._new(one, job_id, by_sql=True))
        if len(news) == 1:
            self.database.value(_SUBMIT, *_values(news[0]))
        else:
            self.database.admin.execute(b"select jobyard.submit_many(%s::jsonb)", [msgspec.json.encode(news).decode()])
        for new in news:
            self._committed(new)

    def _committed(self, new: NewJob) -> Job:
        job = self._resolved(new)
        self._t.submit(job)
        self.twins.unlooked = True
        return job

    def _resolved(self, new: NewJob) -> Job:
        job = resolve(new, self._t.kinds.get(new.kind, Kind()), self.twins.now, "")
        assert isinstance(job, Job)
        return job

    def begin(self, asked: Asked) -> None:
        """A client submits, and leaves its transaction open: others that bring this id must wait. Of a kind that is known."""
        if self._open or asked.kind not in self._t.kinds:
            return
        new = self._new(asked, self._id(asked), by_sql=True)
        self.database.begin(_SUBMIT, *_values(new))
        self._open = [self._resolved(new)]
        self._t.locked = {job.id for job in self._open}

    def end(self, *, commit: bool) -> None:
        """That transaction ends."""
        if not self._open:
            return
        if commit:
            self.database.commit()
            for job in self._open:
                self._t.submit(job)
            self.twins.unlooked = True
        else:
            self.database.roll_back()
        self._open, self._t.locked = [], set()

    def send(self, asked: list[Asked], again: int | None = None, *, named: bool = True, refused: bool = False) -> None:
        """One message of the intake topic. `named`: with ids. `refused`: the reader has found one more of them wrong. `again`: the first is known by its id,
        and comes twice."""
        jobs: list[NewJob] = []
        for n, one in enumerate(asked):
            if n == 0 and self._open and again is not None and again % 2:
                job_id: str | None = self._open[0].id
            else:
                job_id = self._id(one, again if n == 0 else None) if named else None
            jobs.append(self._new(one, job_id, by_sql=False))
        if again is not None:
            jobs.append(jobs[0])
        wrong: list[RefusedJob] = []
        if refused:
            problem = Problem("JY002", "size", "size 0 must be above 0", "Mend it.")
            last = asked[-1]
            wrong = [RefusedJob(id=self._id(last, again), kind=last.kind, problem=problem, submitter="tenant" if last.rare else None)]
        self.twins.intake.messages.append(Submitted(self.twins.now, jobs, wrong))

    def send_rubbish(self) -> None:
        """A message that nobody understands."""
        self.twins.intake.messages.append(None)

    # -- commands

    def command(
        self, verb: Literal["cancel", "retry", "reschedule", "explain"], pick: int, due_in_s: float | None, priority: int | None
    ) -> None:
        """About a job that somebody has submitted, or is about to."""
        job_id = _pick(self.ids, pick) if self.ids else self._id(Asked())
        args: dict[str, object] = {}
        values: tuple[object, ...] = (job_id,)
        if verb == "reschedule":
            if due_in_s is None and priority is None:
                priority = 0
            name = None if priority is None else priorities.NAMES[priority]
            run_at = None if due_in_s is None else self.twins.now + due_in_s
            args = {"run_at": run_at, "priority": name}
            query = "select jobyard.reschedule(%s::uuid, to_timestamp(%s::float8), %s)"
            values = (job_id, run_at, name)
        elif verb == "explain":
            query = "select jobyard.explain(%s::uuid)"
        else:
            args = {"reason": f"because {pick}"}
            query, values = f"select jobyard.{verb}(%s::uuid, %s)", (job_id, args["reason"])
        self._record(query, values, verb, job_id, args, self._refusal(verb, job_id))

    def _refusal(self, verb: str, job_id: str) -> str | None:
        """The code with which the database refuses it at once."""
        if job_id in self._t.jobs:
            return "JY009" if verb in ("cancel", "reschedule") and self._t.state(job_id) in FINAL else None
        made = int(job_id[:8] + job_id[9:13], 16) / 1000
        return "JY007" if self.twins.now - made > _HOUR_S else None

    def _record(
        self, query: str, values: tuple[object, ...], verb: str, job_id: str | None, args: dict[str, object], refusal: str | None = None
    ) -> bool:
        number, refused = self.database.tried(query, *values)
        if refused != refusal:
            raise Differ(f"{verb} {values}: memory would refuse it by {refusal}, Postgres by {refused}")
        if number is None:
            return False
        assert isinstance(number, int)
        self._t.commands[number] = CommandRow(Command(number, verb, self.database.actor, self.twins.now, job_id, args))
        return True

    def pause_lane(self, *, paused: bool) -> None:
        verb = "pause_lane" if paused else "resume_lane"
        if self._record(f"select jobyard.{verb}(%s)", (LANE,), verb, None, {}):
            self._t.modes = replace(self._t.modes, paused=paused)

    def share_fairly(self, *, fair: bool) -> None:
        if self._record("select jobyard.fair_share(%s, %s)", (LANE, fair), "fair_share", None, {"fair": fair}):
            self._t.modes = replace(self._t.modes, fair_share=fair)

    def pause_kind(self, pick: int, *, paused: bool) -> None:
        if not self._t.kinds:
            return
        kind, verb = _pick(sorted(self._t.kinds), pick), "pause_kind" if paused else "resume_kind"
        if self._record(f"select jobyard.{verb}(%s)", (kind,), verb, None, {"kind": kind}):
            kinds = self._t.modes.paused_kinds
            self._t.modes = replace(self._t.modes, paused_kinds=kinds | {kind} if paused else kinds - {kind})

    def drain(self, pick: int, *, drained: bool, stop: bool) -> None:
        if not self.processes:
            return
        name, modes = _pick(self.processes, pick).name, self._t.modes
        alive = any(row.name == name and not row.ended for row in self._t.agents.values())
        refusal = None if alive or (not drained and name in modes.drained) else "JY007"
        if drained:
            if self._record(
                "select jobyard.drain_agent(%s, stop => %s)", (name, stop), "drain_agent", None, {"agent": name, "stop": stop}, refusal
            ):
                self._t.modes = replace(modes, drained={**modes.drained, name: stop})
        elif self._record("select jobyard.resume_agent(%s)", (name,), "resume_agent", None, {"agent": name}, refusal):
            self._t.modes = replace(modes, drained={one: stop for one, stop in modes.drained.items() if one != name})

    def sync(self, pick: int, priority: int, max_attempts: int) -> None:
        """Code declares a kind otherwise, and the leader is told."""
        if not self._t.kinds:
            return
        kind = _pick(sorted(self._t.kinds), pick)
        self.database.admin.execute(
            b"update jobyard.kinds set priority = %s, max_attempts = %s, timeout_s = 9.5, size = 2 where kind = %s",
            [priority, max_attempts, kind],
        )
        self._t.kinds[kind] = msgspec.structs.replace(
            self._t.kinds[kind], priority=priority, max_attempts=max_attempts, timeout_s=9.5, size=2.0
        )
        self._record("select jobyard.operate(%s, 'sync')", (LANE,), "sync", None, {})

    # -- agents

    def start(self, name: str, capacity: float = 8.0, slots: int = 3, kinds: tuple[str, ...] = ("k", "m")) -> Process:
        """A process says hello; there may be one of its name."""
        number = next(self._numbers)
        process = Process(name, f"00000000-0000-4000-8000-{number:012x}", capacity, slots, dict.fromkeys(kinds, 1))
        self.processes.append(process)
        self.hello(process)
        return process

    def hello(self, process: Process) -> None:
        stamp = self.twins.now - T0
        self.say(process, Hello(stamp=stamp, kinds=process.kinds, capacity=process.capacity, slots=process.slots, host="host"))

    def say(self, process: Process, *reports: Report) -> None:
        """One message of the reports topic."""
        process.seq += 1
        message = Reports(v=1, agent=process.name, incarnation=process.incarnation, seq=process.seq, reports=list(reports))
        process.said.append(message)
        self.twins.reports.messages.append(message)

    def repeat(self, pick: int, which: int) -> None:
        """The broker has a message twice."""
        if self.processes and (said := _pick(self.processes, pick).said):
            self.twins.reports.messages.append(_pick(said, which))

    def beat(self, process: Process, *, inventory: int | None = None, suspended: bool = False, draining: bool = False) -> None:
        """A heartbeat. `inventory`: with one of all that is held, but for what a number leaves out; and what it should not hold."""
        held: list[tuple[int, str]] | None = None
        if inventory is not None:
            held = [(fence, job_id) for fence, job_id, _ in self._spots(process)]
            if held and inventory % 3 == 0:
                held.pop(inventory % len(held))
            if self.ids and inventory % 3 == 1:
                held.append((inventory % 7 + 1, _pick(self.ids, inventory)))
        self.say(
            process,
            Heartbeat(
                stamp=self.twins.now - T0,
                epoch=self.twins.epoch,
                suspended=suspended,
                draining=draining,
                capacity=process.capacity,
                slots=process.slots,
                held=held,
            ),
        )

    def beat_all(self, but: int | None = None) -> None:
        """All that may still be there say so; `but` one."""
        silent = None if but is None or not self.processes else _pick(self.processes, but).name
        for process in {process.name: process for process in self.processes}.values():
            if process.name != silent:
                self.beat(process)

    def goodbye(self, pick: int) -> None:
        if self.processes:
            self.say(_pick(self.processes, pick), Goodbye())

    def _spots(self, process: Process | None = None) -> list[tuple[int, str, int]]:
        """What is open: fence, job, attempt."""
        return [
            (fence, job.id, attempt)
            for fence, row in sorted(self._t.bundles.items())
            for job, attempt in zip(row.bundle.jobs, row.bundle.attempts, strict=True)
            if (job.id, fence) not in self._t.attempts and (process is None or row.bundle.incarnation == process.incarnation)
        ]

    def _holder(self, fence: int) -> Process:
        incarnation = self._t.bundles[fence].bundle.incarnation
        return next(process for process in self.processes if process.incarnation == incarnation)

    def started(self, pick: int, ago_s: float = 0.0) -> None:
        if spots := self._spots():
            fence, job_id, attempt = _pick(spots, pick)
            self.say(self._holder(fence), Started(fence=fence, job=job_id, attempt=attempt, at=self.twins.now - ago_s))

    def progress(self, pick: int, done: float) -> None:
        if spots := self._spots():
            fence, job_id, attempt = _pick(spots, pick)
            report = Progress(fence=fence, job=job_id, attempt=attempt, done=done, total=4.0 if pick % 2 else None, message=f"\\ {done}")
            self.say(self._holder(fence), report)

    def finish(self, pick: int, told: Told, count: int = 1) -> None:
        """Attempts end: up to so many of one bundle, in one message."""
        if spots := self._spots():
            fence, _, _ = first = _pick(spots, pick)
            ends = [first, *(spot for spot in spots if spot[0] == fence and spot != first)][:count]
            self.say(
                self._holder(fence),
                Finished(fence=fence, ends=[self._end(job_id, attempt, told) for _, job_id, attempt in ends], busy_s=0.5),
            )

    def finish_late(self, pick: int, told: Told, *, lost: bool, released: bool = False) -> None:
        """The end of an attempt that has ended already, as lost above all, by whoever had it."""
        rows = [row for row in self._t.attempts.values() if (row.outcome is Outcome.LOST) is lost]
        if not rows:
            return
        row = _pick(rows, pick)
        incarnation = self._t.agents[row.agent_id].incarnation
        process = next(process for process in self.processes if process.incarnation == incarnation)
        if released:
            self.say(process, Released(fence=row.fence, jobs=[(row.job_id, row.attempt)]))
        else:
            self.say(process, Finished(fence=row.fence, ends=[self._end(row.job_id, row.attempt, told)]))

    def _end(self, job_id: str, attempt: int, told: Told) -> End:
        ended = self.twins.now - told.ended_ago_s
        started = None if told.took_s is None else ended - told.took_s
        good = told.outcome is Outcome.SUCCEEDED
        return End(
            job_id,
            attempt,
            told.outcome,
            started,
            ended,
            msgspec.Raw(told.result.encode()) if good else NO_RESULT,
            None if good else Error("E\t", "no\n\\", "at x"),
            told.retryable,
            told.delay_s,
        )

    def release(self, pick: int, count: int = 1) -> None:
        if spots := self._spots():
            fence = _pick(spots, pick)[0]
            jobs = [(job_id, attempt) for other, job_id, attempt in spots if other == fence][:count]
            self.say(self._holder(fence), Released(fence=fence, jobs=jobs, reason="full" if pick % 2 else ""))

    def forge(self, pick: int, who: int) -> None:
        """An end in the name of somebody who has not got the job."""
        if (spots := self._spots()) and self.processes:
            fence, job_id, attempt = _pick(spots, pick)
            self.say(_pick(self.processes, who), Finished(fence=fence, ends=[self._end(job_id, attempt + who % 2, Told())]))

    # -- topics, leaders, questions

    def remake(self, topic: Literal["reports", "intake", "buckets"]) -> None:
        """A topic is deleted and made again; the leader takes over anew (L17)."""
        if topic == "buckets":
            self.twins.buckets_id += "+"
        else:
            one = self.twins.reports if topic == "reports" else self.twins.intake
            one.topic_id, one.messages = one.topic_id + "+", []
        self.twins.lead(same=True)

    def ask(self, pick: int, most: int, most_bytes: int | None, behind: bool) -> None:
        """Questions beside the lane's own: a part of what is due, and of reports that may be late."""
        rows = sorted(self._t.pending.values(), key=lambda row: (row.run_at, row.job_id))
        due: list[DueQuestion] = []
        if rows:
            row = _pick(rows, pick)
            after = (row.run_at, row.job_id) if behind else (0.0, "")
            due = [DueQuestion(row.priority, row.kind, row.flow, after, max(row.run_at, self.twins.now) + pick % 9, most, most_bytes)]
        late = [(job_id, fence) for job_id, fence in self._t.attempts][-20:]
        if self.ids:
            late.append((_pick(self.ids, pick), pick % 5))
        self.twins.ask(Questions(due=due, late=late, look=False))


_SUBMIT: Final = (
    "select jobyard.submit(%s, %s::jsonb, %s::uuid, priority => %s, size => %s::float8, run_at => %s::timestamptz, timeout_s => %s::float8,"
    " max_attempts => %s::int, retry => %s::jsonb, version => %s::int, submitter => %s, tags => %s::jsonb, parent => %s::uuid, traceparent => %s)"
)


def _values(new: NewJob) -> list[object]:
    def as_json(value: object) -> str | None:
        return None if value is None else msgspec.json.encode(value).decode()

    return [
        new.kind, bytes(new.args).decode(), new.id, new.priority, new.size, new.run_at, new.timeout_s, new.max_attempts, as_json(new.retry),
        new.version, new.submitter, as_json(new.tags), new.parent, new.traceparent,
    ]  # fmt: skip


def _pick(of: list[_T], pick: int) -> _T:
    return of[pick % len(of)]
