"""The Master DB's part of one lane in memory: the same questions and events as the real one, for tests, the simulator and `app.testing`.

It keeps rows as the tables do: history is only added to, and where a job stands follows from rows alone.
"""

import bisect
import copy
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from jobyard.contracts.ids import derived_job_id, id_time
from jobyard.contracts.job import Job, Kind, RefusedJob, problem_of_kind, resolve
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import NO_RESULT
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.places import Waiting
from jobyard.coordinator.core.questions import Answers, Command, DueAnswer, DueQuestion, Fresh, LateSubject, NewAgent, Questions
from jobyard.coordinator.core.snapshot import AgentRow, BacklogRow, Snapshot
from jobyard.coordinator.seams import Deposed, Term
from jobyard.testing.memory_tables import AttemptRow, BundleRow, EventRow, MemoryLane, PendingRow

_RESTORED = 10**9
_LATELY_S = 3_600.0


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
        self._hold: list[Job | RefusedJob] = []
        self._unhold: list[str] = []
        self._met: set[str] = set()
        self._fresh: dict[str, Kind] = {}

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
        self._met, self._fresh = set(), {}
        at = self._monotonic()
        return Term(t.epoch, at + self._rules.trust_s, now, at, at)

    def snapshot(self) -> Snapshot:
        """T2. Nothing in it is shared with the tables or with another lane."""
        t = self._t
        self._looked = t.seq
        self._met, self._fresh = set(t.kinds), {}  # the snapshot tells them all
        return Snapshot(
            fence=t.fence,
            offsets=dict(t.offsets),
            agents=t.loaded_agents(t.now() - _LATELY_S),
            bundles=[t.loaded_bundle(row.bundle) for _, row in sorted(t.bundles.items())],
            kinds=dict(t.kinds),
            backlog=[BacklogRow(*backlog) for backlog in t.pending.backlogs()],
            held=bool(t.held),
            modes=t.modes,
            durations=[copy.copy(mean) for _, mean in sorted(t.means.items())],
        )

    def ask(self, questions: Questions) -> Answers:
        """What the transaction inserts is only written by `write`."""
        self._roll_back()
        answers = Answers()
        self._meet(one.new.kind for one in questions.unresolved)
        self._meet(one.kind for one in questions.refused)
        self._meet(kind for one in questions.agents for kind in one.kinds)
        for job in questions.jobs:
            self._insert(job, answers)
        for unresolved in questions.unresolved:
            found = resolve(unresolved.new, self._t.kinds[unresolved.new.kind], unresolved.received, unresolved.key, unresolved.now)
            if isinstance(found, Job):
                self._insert(found, answers)
            else:
                job_id = unresolved.new.id or derived_job_id(unresolved.received, unresolved.key)
                problem = RefusedJob(id=job_id, kind=unresolved.new.kind, problem=found, submitter=unresolved.new.submitter)
                if self._refuse(problem, answers):
                    answers.problems.append(problem)
        for refused in questions.refused:
            self._refuse(refused, answers)
        if questions.held_again:
            self._try_held(answers)
        answers.held_left = bool((self._t.held.keys() - set(self._unhold)) | {one.id for one in self._hold})
        for new in questions.agents:
            if all(row.incarnation != new.incarnation for row in self._t.agents.values()):
                number = len(self._t.agents) + len(self._agents) + 1
                self._agents[new.incarnation] = (number, new)
                answers.agents[new.incarnation] = number
        if questions.modes:
            answers.modes = self._t.modes
        for due in questions.due:
            answers.due.append(self._due(due))
        if questions.look:
            self._look(answers)
        for job_id, fence in questions.late:
            answers.late[job_id, fence] = self._late(job_id, fence)
        self._meet(self._t.kinds if questions.kinds else ())
        answers.kinds, self._fresh = dict(self._t.kinds) if questions.kinds else self._fresh, {}
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
        at = self._monotonic()
        term.trusted_until, term.now, term.asked_at, term.answered_at = at + self._rules.trust_s, t.now(), at, at

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
        self._inserted, self._refused, self._agents, self._hold, self._unhold = [], [], {}, [], []

    def _meet(self, names: Iterable[str]) -> None:
        """Kinds that a question or an answer names: one that is not there is added at once, whatever becomes of the tick."""
        for name in names:
            if name not in self._met and problem_of_kind(name) is None:
                self._met.add(name)
                self._fresh[name] = self._t.kinds.setdefault(name, Kind())

    def _insert(self, job: Job, answers: Answers) -> None:
        if job.id in self._t.jobs:
            answers.duplicates += 1
        elif job.id in self._t.locked:
            self._hold.append(job)
            answers.held += 1
        else:
            self._inserted.append(job)
            answers.jobs.append(copy.copy(job))

    def _refuse(self, refused: RefusedJob, answers: Answers) -> bool:
        """Whether it went in. Set aside, it is told once it has."""
        if refused.id in self._t.jobs:
            return False
        if refused.id in self._t.locked:
            self._hold.append(refused)
            answers.held += 1
            return False
        self._refused.append(refused)
        answers.refused.add(refused.id)
        return True

    def _try_held(self, answers: Answers) -> None:
        self._meet(one.kind for one in self._t.held.values())
        taken = {job.id for job in self._inserted} | {refused.id for refused in self._refused}
        for one in self._t.held.values():
            if one.id in self._t.locked:
                continue
            self._unhold.append(one.id)
            if one.id in self._t.jobs or one.id in taken:
                continue
            if isinstance(one, Job):
                self._inserted.append(one)
                answers.jobs.append(copy.copy(one))
            else:
                self._refused.append(one)
                answers.problems.append(one)
                answers.refused.add(one.id)

    def _due(self, question: DueQuestion) -> DueAnswer:
        rows = self._t.pending.behind(question.priority, question.kind, question.flow, question.after)
        taken: list[PendingRow] = []
        next_at: Instant | None = None
        bytes_ = 0
        for row in rows:
            if question.most_bytes is not None:
                bytes_ += len(self._t.jobs[row.job_id].args)
            full = len(taken) >= question.most or (bool(taken) and question.most_bytes is not None and bytes_ > question.most_bytes)
            if row.run_at > question.until or full:
                next_at = row.run_at
                break
            taken.append(row)
        return DueAnswer(question.priority, question.kind, question.flow, [self._t.waiting(row) for row in taken], next_at)

    def _look(self, answers: Answers) -> None:
        t = self._t
        fresh: dict[tuple[int, str, int], Instant] = {}
        first = bisect.bisect_right(t.submitted, self._looked, key=lambda row: row.seq)
        for row in t.submitted[first:]:
            if t.pending.get(row.job_id) is row:
                key = (row.priority, row.kind, row.flow)
                fresh[key] = min(fresh.get(key, row.run_at), row.run_at)
        self._looked = t.seq
        self._meet(kind for _, kind, _ in fresh)
        answers.fresh = [Fresh(*key, at) for key, at in sorted(fresh.items())]
        for asked in t.commands.values():
            if asked.answer is None and asked.command.job_id not in t.held:  # that waits until the job is in, or is not
                answers.commands.append(self._standing(asked.command))

    def _standing(self, asked: Command) -> Command:
        t = self._t
        command = copy.copy(asked)
        job_id = command.job_id
        if job_id is None or job_id not in t.jobs:
            return command
        self._meet([t.jobs[job_id].kind])
        command.job = copy.copy(t.jobs[job_id])
        command.state = t.final(job_id)
        row = t.pending.get(job_id)
        command.waiting = None if row is None else t.waiting(row)
        if row is not None:
            command.job.run_at, command.job.priority = row.run_at, row.priority
        command.bound = t.bound(job_id)
        attempts = t.attempts_of.get(job_id, [])
        if attempts:
            last = max(attempts, key=lambda one: one.attempt)
            command.attempt, command.used = last.attempt, last.used
            command.interruptions = sum(one.outcome is Outcome.INTERRUPTED for one in attempts)
        return command

    def _late(self, job_id: str, fence: int) -> LateSubject:
        t = self._t
        if job_id in t.jobs:
            self._meet([t.jobs[job_id].kind])
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

    # -- written

    def _commit_asked(self) -> None:
        t = self._t
        for job in self._inserted:
            t.jobs[job.id] = copy.copy(job)
        for refused in self._refused:
            t.jobs[refused.id] = Job(
                id=refused.id, kind=refused.kind, run_at=id_time(refused.id), max_attempts=1, submitter=refused.submitter
            )
        for job_id in self._unhold:
            t.held.pop(job_id, None)
        for one in self._hold:
            t.held.setdefault(one.id, one)
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
                told = event.job.problem
                detail: dict[str, object] = {"error_type": told.code, "error_message": told.message, "field": told.field, "hint": told.hint}
                t.events.append(EventRow(e.Noted(event.job.id, event.job.kind, "refused", event.at, State.REFUSED, detail=detail), t.seq))
            case e.Noted():
                number = t.tick() if event.final is None else self._final(event.job_id, event.final)
                t.events.append(EventRow(event, number))
                if event.event == "cancel_asked":
                    detail = event.detail or {}
                    t.cancels.setdefault(int(str(detail.get("fence", 0))), {})[event.job_id] = str(detail.get("reason", ""))
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
                if t.commands[event.command_id].answer is None:  # as in SQL: the first answer stands
                    t.commands[event.command_id].answer = (event.code, event.answer)
            case e.Learned():
                t.means.update({(mean.kind, mean.size_class): mean for mean in event.means})
            case e.DrainEnded():
                t.modes = dataclasses.replace(t.modes, drained={name: stop for name, stop in t.modes.drained.items() if name != event.name})
            case e.Repaired():
                t.repairs.append(event)
            case e.NotHere():
                t.commands[event.command_id].not_here = True
                t.commands[event.command_id].answer = ("JY007", "no such job")
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
            job.id, job.kind, job.run_at, job.priority, waiting.attempt, waiting.used, waiting.interruptions, waiting.why, waiting.flow
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


if TYPE_CHECKING:
    from jobyard.coordinator.seams import LaneStore

    _proof: type[LaneStore] = MemoryLaneStore
