"""The Master DB's part of one lane in memory: the same questions and events as the real one, for tests, the simulator and `app.testing`.

It keeps rows as the tables do: history is only added to, and where a job stands follows from rows alone.
"""

import bisect
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jobyard.contracts.job import Job, Kind, RefusedJob, resolve
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
        at = self._monotonic()
        return Term(t.epoch, at + self._rules.trust_s, now, at, at)

    def snapshot(self) -> Snapshot:
        """T2. Nothing in it is shared with the tables or with another lane."""
        t = self._t
        self._looked = t.seq
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
        for unresolved in questions.unresolved:
            self._resolve(unresolved.new.kind, answers)
            found = resolve(unresolved.new, answers.kinds[unresolved.new.kind], unresolved.received, unresolved.key, unresolved.now)
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
        if questions.modes:
            answers.modes = self._t.modes
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
        rows = self._t.pending.behind(question.priority, question.kind, question.after)
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
        return DueAnswer(question.priority, question.kind, [self._t.waiting(row) for row in taken], next_at)

    def _look(self, answers: Answers) -> None:
        t = self._t
        fresh: dict[tuple[int, str], Instant] = {}
        first = bisect.bisect_right(t.submitted, self._looked, key=lambda row: row.seq)
        for row in t.submitted[first:]:
            if t.pending.get(row.job_id) is row:
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


if TYPE_CHECKING:
    from jobyard.coordinator.seams import LaneStore

    _proof: type[LaneStore] = MemoryLaneStore
