"""The Master DB's part of one lane in memory: the same questions and events as the real one, for tests, the simulator and `app.testing`.

It keeps rows as the tables do: history is only added to, and where a job stands follows from rows alone.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jobyard.contracts.control import Bucket
from jobyard.contracts.job import Job, Kind, RefusedJob, resolve
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import NO_RESULT, Error
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.places import Bundle, Waiting, Why
from jobyard.coordinator.core.questions import Answers, Command, DueAnswer, DueQuestion, Fresh, LateSubject, NewAgent, Questions
from jobyard.coordinator.core.snapshot import AgentRow, BacklogRow, Snapshot
from jobyard.coordinator.seams import Deposed, Term

_RESTORED = 10**9
_LATELY_S = 3_600.0


@dataclass(slots=True)
class PendingRow:
    """A row of `pending`. `seq`: when others committed it; 0: the leader's own."""

    job_id: str
    kind: str
    run_at: Instant
    priority: int
    attempt: int
    used: int
    interruptions: int
    why: Why
    seq: int = 0


@dataclass(slots=True)
class AttemptRow:
    """A row of `attempts`. `seq`: the order in which final rows and reopenings were written."""

    job_id: str
    fence: int
    attempt: int
    used: int
    outcome: Outcome
    final: State | None
    agent_id: int
    bucket: int
    placed_at: Instant
    started_at: Instant | None
    ended_at: Instant
    error: Error | None
    result: bytes | None
    seq: int


@dataclass(slots=True)
class BundleRow:
    """A row of `bundles`: what was placed. What of it has ended is told by `attempts`."""

    bundle: Bundle


@dataclass(slots=True)
class EventRow:
    """A row of `job_events`."""

    noted: e.Noted
    seq: int


@dataclass(slots=True)
class CommandRow:
    """A row of `commands`. `answer`: code and text, None: nobody has answered."""

    command: Command
    answer: tuple[str | None, str] | None = None
    not_here: bool = False


@dataclass(slots=True)
class MemoryLane:
    """The tables of one lane. `now`: the database's clock. `locked`: ids that an open transaction of somebody else holds."""

    now: Callable[[], Instant]
    epoch: int = 0
    leader: str = ""
    lease_until: Instant = 0.0
    fence: int = 0
    offsets: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    pending: dict[str, PendingRow] = field(default_factory=dict[str, PendingRow])
    bundles: dict[int, BundleRow] = field(default_factory=dict[int, BundleRow])
    attempts: dict[tuple[str, int], AttemptRow] = field(default_factory=dict[tuple[str, int], AttemptRow])
    attempts_of: dict[str, list[AttemptRow]] = field(default_factory=dict[str, list[AttemptRow]])
    events: list[EventRow] = field(default_factory=list[EventRow])
    finals: dict[str, tuple[int, State]] = field(default_factory=dict[str, tuple[int, State]])
    reopened: dict[str, list[tuple[int, e.Reopened]]] = field(default_factory=dict[str, list[tuple[int, e.Reopened]]])
    running: dict[str, tuple[int, Instant]] = field(default_factory=dict[str, tuple[int, Instant]])
    progress: dict[str, e.Progressed] = field(default_factory=dict[str, e.Progressed])
    late: dict[tuple[str, int], e.LateReported] = field(default_factory=dict[tuple[str, int], e.LateReported])
    agents: dict[int, AgentRow] = field(default_factory=dict[int, AgentRow])
    agent_ended: dict[int, Instant] = field(default_factory=dict[int, Instant])
    buckets: dict[int, tuple[int, Bucket]] = field(default_factory=dict[int, tuple[int, Bucket]])
    commands: dict[int, CommandRow] = field(default_factory=dict[int, CommandRow])
    quarantine: list[e.Quarantined] = field(default_factory=list[e.Quarantined])
    held: dict[str, Job] = field(default_factory=dict[str, Job])
    locked: set[str] = field(default_factory=set[str])
    awake: bool = False
    seq: int = 0

    def submit(self, job: Job) -> bool:
        """A client's transaction that commits one job. False: the id was known."""
        if job.id in self.jobs:
            return False
        self.jobs[job.id] = copy.copy(job)
        self.pending[job.id] = PendingRow(job.id, job.kind, job.run_at, job.priority, 0, 0, 0, "n", self.tick())
        return True

    def command(self, verb: str, job_id: str | None = None, args: Mapping[str, object] | None = None, actor: str = "somebody") -> int:
        """A command that somebody records; its number."""
        number = self.tick()
        self.commands[number] = CommandRow(Command(number, verb, actor, self.now(), job_id, args or {}))
        return number

    def state(self, job_id: str) -> State | None:
        """The job's state by the rows; None: there is no such job (or it stands nowhere, which must not be)."""
        if job_id in self.pending:
            return State.PENDING
        if self.open_spot(job_id) is not None:
            return State.RUNNING if job_id in self.running else State.PLACED
        return self.final(job_id)

    def final(self, job_id: str) -> State | None:
        """The final state that no retry by hand has voided."""
        found = self.finals.get(job_id)
        reopened = self.reopened.get(job_id)
        if found is None or (reopened and reopened[-1][0] > found[0]):
            return None
        return found[1]

    def open_spot(self, job_id: str) -> tuple[Bundle, int] | None:
        """The open bundle that the job stands in, and its index."""
        for row in self.bundles.values():
            for index, job in enumerate(row.bundle.jobs):
                if job.id == job_id and (job_id, row.bundle.fence) not in self.attempts:
                    return row.bundle, index
        return None

    def bound(self, job_id: str) -> int:
        """How many attempts may be used."""
        reopened = self.reopened.get(job_id)
        return reopened[-1][1].bound if reopened else self.jobs[job_id].max_attempts

    def waiting(self, row: PendingRow) -> Waiting:
        """What the leader gets of a row."""
        job = copy.copy(self.jobs[row.job_id])
        job.run_at, job.priority = row.run_at, row.priority
        return Waiting(job, row.attempt, row.used, row.interruptions, self.bound(row.job_id), row.why, True, f"({row.job_id})")

    def tick(self) -> int:
        """The next number of the one counter that orders what was committed."""
        self.seq += 1
        return self.seq


class MemoryLaneStore:
    """One leadership's store over a MemoryLane. Several may be opened on one: only the last that seized it can write."""

    def __init__(self, tables: MemoryLane, leader: str, rules: Rules, monotonic: Callable[[], float] | None = None) -> None:
        self._t = tables
        self._leader = leader
        self._rules = rules
        self._monotonic = monotonic or tables.now
        self._looked = 0
        self._inserted: list[Job] = []
        self._refused: list[RefusedJob] = []
        self._agents: dict[str, tuple[int, NewAgent]] = {}
        self._hold: list[Job] = []
        self._unhold: list[str] = []
        self._kinds: dict[str, Kind] = {}

    def seize(self, at_least: int = 0) -> Term | None:
        """T1."""
        t, now = self._t, self._t.now()
        if t.leader != self._leader and now < t.lease_until:
            return None
        if at_least >= t.epoch and at_least:
            t.epoch = at_least
            t.fence += _RESTORED
        t.epoch += 1
        t.leader, t.lease_until = self._leader, now + self._rules.lease_s
        return Term(t.epoch, self._monotonic() + self._rules.trust_s, now)

    def snapshot(self) -> Snapshot:
        """T2. Nothing in it is shared with the tables or with another lane."""
        t = self._t
        self._looked = t.seq
        backlog: dict[tuple[int, str], Instant] = {}
        for row in t.pending.values():
            key = (row.priority, row.kind)
            backlog[key] = min(backlog.get(key, row.run_at), row.run_at)
        lately = t.now() - _LATELY_S
        return Snapshot(
            fence=t.fence,
            offsets=dict(t.offsets),
            agents=[self._agent(row) for number, row in sorted(t.agents.items()) if t.agent_ended.get(number, t.now()) >= lately],
            bundles=[self._bundle(row.bundle) for _, row in sorted(t.bundles.items())],
            kinds=dict(t.kinds),
            backlog=[BacklogRow(priority, kind, at) for (priority, kind), at in sorted(backlog.items())],
            held=bool(t.held),
        )

    def ask(self, questions: Questions) -> Answers:
        """What the transaction inserts is only written by `write`."""
        self._roll_back()
        answers = Answers()
        for unresolved in questions.unresolved:
            self._resolve(unresolved.new.kind, answers)
            found = resolve(unresolved.new, answers.kinds[unresolved.new.kind], unresolved.received, unresolved.key)
            if isinstance(found, Job):
                self._insert(found, answers)
            else:
                job_id = unresolved.new.id or ""
                problem = RefusedJob(id=job_id, kind=unresolved.new.kind, problem=found, submitter=unresolved.new.submitter)
                if job_id not in self._t.jobs:
                    self._refused.append(problem)
                    answers.problems.append(problem)
        for job in questions.jobs:
            self._insert(job, answers)
        for refused in questions.refused:
            if refused.id not in self._t.jobs:
                self._refused.append(refused)
                answers.refused.add(refused.id)
            else:
                answers.duplicates += 1
        if questions.held_again:
            for job in self._t.held.values():
                if job.id not in self._t.locked:
                    self._unhold.append(job.id)
                    self._insert(job, answers)
        answers.held_left = bool(len(self._t.held) + len(self._hold) - len(self._unhold))
        for new in questions.agents:
            if all(row.incarnation != new.incarnation for row in self._t.agents.values()):
                number = len(self._t.agents) + len(self._agents) + 1
                self._agents[new.incarnation] = (number, new)
                answers.agents[new.incarnation] = number
        if questions.kinds:
            answers.kinds.update(self._t.kinds)
        for due in questions.due:
            answers.due.append(self._due(due))
        if questions.look:
            self._look(answers)
        for job_id, fence in questions.late:
            answers.late[job_id, fence] = self._late(job_id, fence)
        return answers

    def write(self, events: Sequence[e.Event], offsets: dict[str, tuple[str, int]], fence: int, term: Term) -> None:
        """L1: all of it, or nothing."""
        t = self._t
        if t.epoch != term.epoch or t.leader != self._leader:
            self._roll_back()
            raise Deposed(f"epoch {t.epoch} has been taken")
        gone = [waiting.job.id for event in events if isinstance(event, e.Left) for waiting in event.waiting]
        missing = [job_id for job_id in gone if job_id not in t.pending]
        if missing or len(set(gone)) != len(gone):
            self._roll_back()
            raise RuntimeError(f"rows of pending are not where they were: {missing or gone}")
        self._commit_asked()
        for job_id in gone:
            del t.pending[job_id]
        for event in events:
            self._write(event)
        t.offsets = t.offsets | offsets
        t.fence = fence
        t.lease_until = t.now() + self._rules.lease_s
        term.trusted_until = self._monotonic() + self._rules.trust_s

    def sleep(self) -> None:
        """D8."""
        self._t.awake = False

    def wake(self) -> None:
        """D8."""
        self._t.awake = True

    def release(self, term: Term) -> None:
        """The lease ends at once."""
        if self._t.epoch == term.epoch and self._t.leader == self._leader:
            self._t.lease_until = 0.0

    def close(self) -> None:
        """What was asked and not written is lost."""
        self._roll_back()

    # -- asked

    def _roll_back(self) -> None:
        self._inserted, self._refused, self._agents, self._hold, self._unhold, self._kinds = [], [], {}, [], [], {}

    def _resolve(self, kind: str, answers: Answers) -> None:
        if kind not in answers.kinds:
            answers.kinds[kind] = self._kinds[kind] = self._t.kinds.get(kind, Kind())

    def _insert(self, job: Job, answers: Answers) -> None:
        if job.id in self._t.jobs:
            answers.duplicates += 1
        elif job.id in self._t.locked or (job.id in self._t.held and job.id not in self._unhold):
            self._hold.append(job)
            answers.held += 1
        else:
            self._inserted.append(job)
            answers.jobs.append(copy.copy(job))

    def _due(self, question: DueQuestion) -> DueAnswer:
        rows = sorted(
            (row for row in self._t.pending.values() if (row.priority, row.kind) == (question.priority, question.kind)),
            key=lambda row: (row.run_at, row.job_id),
        )
        behind = [row for row in rows if (row.run_at, row.job_id) > question.after]
        taken = [row for row in behind if row.run_at <= question.until][: question.most]
        left = behind[len(taken) :]
        return DueAnswer(
            question.priority, question.kind, [self._t.waiting(row) for row in taken], min((row.run_at for row in left), default=None)
        )

    def _look(self, answers: Answers) -> None:
        t = self._t
        fresh: dict[tuple[int, str], Instant] = {}
        for row in t.pending.values():
            if row.seq > self._looked:
                fresh[row.priority, row.kind] = min(fresh.get((row.priority, row.kind), row.run_at), row.run_at)
        self._looked = t.seq
        answers.fresh = [Fresh(priority, kind, at) for (priority, kind), at in sorted(fresh.items())]
        for asked in t.commands.values():
            if asked.answer is None:
                answers.commands.append(self._standing(asked.command))

    def _standing(self, asked: Command) -> Command:
        t = self._t
        command = copy.copy(asked)
        job_id = command.job_id
        if job_id is None or job_id not in t.jobs:
            return command
        command.job = copy.copy(t.jobs[job_id])
        command.state = t.final(job_id)
        row = t.pending.get(job_id)
        command.waiting = None if row is None else t.waiting(row)
        command.bound = t.bound(job_id)
        attempts = t.attempts_of.get(job_id, [])
        if attempts:
            last = max(attempts, key=lambda one: one.attempt)
            command.attempt, command.used = last.attempt, last.used
            command.interruptions = sum(one.outcome is Outcome.INTERRUPTED for one in attempts)
        return command

    def _late(self, job_id: str, fence: int) -> LateSubject:
        t = self._t
        attempt = t.attempts.get((job_id, fence))
        if attempt is None:
            return LateSubject(None)
        row = t.pending.get(job_id)
        return LateSubject(
            attempt.outcome,
            attempt.attempt,
            attempt.agent_id,
            t.agents[attempt.agent_id].incarnation,
            t.jobs[job_id].kind,
            attempt.used,
            (job_id, fence) in t.late,
            t.final(job_id),
            None if row is None else t.waiting(row),
        )

    def _agent(self, row: AgentRow) -> AgentRow:
        buckets = [bucket for owner, bucket in self._t.buckets.values() if owner == row.agent_id]
        made = copy.copy(row)
        made.kinds = dict(row.kinds)
        made.buckets = sorted(buckets, key=lambda bucket: bucket.priority)
        return made

    def _bundle(self, bundle: Bundle) -> Bundle:
        t, fence = self._t, bundle.fence
        jobs = [copy.copy(t.jobs[job.id]) for job in bundle.jobs]
        for job in jobs:
            job.priority = bundle.priority
        opened = [index for index, job in enumerate(jobs) if (job.id, fence) not in t.attempts]
        asked = {
            row.noted.job_id: str((row.noted.detail or {}).get("reason", ""))
            for row in t.events
            if row.noted.event == "cancel_asked" and (row.noted.detail or {}).get("fence") == fence
        }
        return Bundle(
            fence,
            bundle.agent_id,
            bundle.incarnation,
            bundle.bucket,
            bundle.kind,
            bundle.priority,
            bundle.placed_at,
            dict(bundle.reason),
            jobs,
            list(bundle.attempts),
            list(bundle.used),
            list(bundle.interruptions),
            [t.bound(job.id) for job in jobs],
            list(bundle.careful),
            {index for index in range(len(jobs)) if (jobs[index].id, fence) in t.attempts},
            {index: t.running[jobs[index].id][1] for index in opened if t.running.get(jobs[index].id, (0, 0))[0] == fence},
            {index: asked[jobs[index].id] for index in opened if jobs[index].id in asked},
        )

    # -- written

    def _commit_asked(self) -> None:
        t = self._t
        for job in self._inserted:
            t.jobs[job.id] = copy.copy(job)
        for refused in self._refused:
            t.jobs[refused.id] = Job(id=refused.id, kind=refused.kind)
        for job_id in self._unhold:
            t.held.pop(job_id, None)
        for job in self._hold:
            t.held.setdefault(job.id, job)
        t.kinds.update(self._kinds)
        for number, new in self._agents.values():
            t.agents[number] = AgentRow(
                number,
                new.name,
                new.incarnation,
                new.host,
                new.capacity,
                new.slots,
                dict(new.kinds),
                "active",
                new.lost_after_s,
                [],
                False,
            )
        self._roll_back()

    def _final(self, job_id: str, state: State) -> int:
        t = self._t
        if t.final(job_id) is not None:
            raise RuntimeError(f"job {job_id} has ended as {t.final(job_id)}, and now as {state} (I2)")
        number = t.tick()
        t.finals[job_id] = (number, state)
        return number

    def _write(self, event: e.Event) -> None:
        t = self._t
        match event:
            case e.Waits():
                for waiting in event.waiting:
                    self._wait(waiting)
            case e.Moved():
                del t.pending[event.waiting.job.id]
                self._wait(event.waiting)
            case e.Placed():
                t.bundles[event.bundle.fence] = BundleRow(event.bundle)
            case e.Ended():
                self._ended(event)
            case e.Closed():
                for fence in event.fences:
                    del t.bundles[fence]
            case e.Started():
                job_id = event.bundle.jobs[event.index].id
                t.running[job_id] = (event.bundle.fence, event.at)
            case e.Progressed():
                t.progress[event.bundle.jobs[event.index].id] = event
            case e.Refused():
                self._final(event.job.id, State.REFUSED)
                t.events.append(EventRow(e.Noted(event.job.id, event.job.kind, "refused", event.at, State.REFUSED), t.seq))
            case e.Noted():
                number = t.tick() if event.final is None else self._final(event.job_id, event.final)
                t.events.append(EventRow(event, number))
            case e.Reopened():
                t.reopened.setdefault(event.job_id, []).append((t.tick(), event))
            case e.LateReported():
                if (event.job_id, event.fence) in t.late:
                    raise RuntimeError(f"a second late report of job {event.job_id} under fence {event.fence}")
                t.late[event.job_id, event.fence] = event
            case e.Quarantined():
                t.quarantine.append(event)
            case e.AgentJoined() | e.BucketsMoved():
                for bucket in event.buckets:
                    t.buckets[bucket.partition] = (event.agent_id, bucket)
            case e.AgentChanged():
                row = t.agents[event.agent_id]
                row.state, row.capacity, row.slots = event.state, event.capacity, event.slots
            case e.AgentEnded():
                row = t.agents[event.agent_id]
                row.state, row.ended = event.state, True
                t.agent_ended[event.agent_id] = event.at
                t.buckets = {part: owned for part, owned in t.buckets.items() if owned[0] != event.agent_id}
            case e.Answered():
                t.commands[event.command_id].answer = (event.code, event.answer)
            case e.NotHere():
                t.commands[event.command_id].not_here = True
                t.commands[event.command_id].answer = ("JY007", "there is no such job")
            case (
                e.Accepted()
                | e.Left()
                | e.AgentsHeard()
                | e.BucketsWanted()
                | e.Welcomed()
                | e.Confirmed()
                | e.FencedOff()
                | e.CancelSent()
                | e.Resent()
                | e.DrainSent()
            ):
                pass

    def _wait(self, waiting: Waiting) -> None:
        job = waiting.job
        if job.id in self._t.pending:
            raise RuntimeError(f"job {job.id} has a row of pending already")
        self._t.pending[job.id] = PendingRow(
            job.id, job.kind, job.run_at, job.priority, waiting.attempt, waiting.used, waiting.interruptions, waiting.why
        )

    def _ended(self, event: e.Ended) -> None:
        t, bundle = self._t, event.bundle
        for end, used, final in zip(event.ends, event.used, event.finals, strict=True):
            key = (end.job, bundle.fence)
            if key in t.attempts:
                raise RuntimeError(f"attempt {key} is written twice (I2)")
            number = t.tick() if final is None else self._final(end.job, final)
            row = AttemptRow(
                end.job,
                bundle.fence,
                end.attempt,
                used,
                end.outcome,
                final,
                bundle.agent_id,
                bundle.bucket,
                bundle.placed_at,
                end.started_at,
                end.ended_at,
                end.error,
                None if bytes(end.result) == bytes(NO_RESULT) else bytes(end.result),
                number,
            )
            t.attempts[key] = row
            t.attempts_of.setdefault(end.job, []).append(row)
        for job_id in event.running:
            t.running.pop(job_id, None)
            t.progress.pop(job_id, None)
