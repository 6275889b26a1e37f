"""New jobs of the intake topic: resolved by their kind, inserted by `ask`, and what the database found new waits (L2, L19)."""

from jobyard.contracts.ids import derived_job_id
from jobyard.contracts.job import Job, RefusedJob, resolve
from jobyard.contracts.moments import Instant
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.batch import Batch, IntakeRead
from jobyard.coordinator.core.books.kinds import Kinds
from jobyard.coordinator.core.books.quarantine import Quarantine
from jobyard.coordinator.core.books.waiting import WaitingJobs
from jobyard.coordinator.core.events import Accepted, Event, Refused
from jobyard.coordinator.core.questions import Answers, Questions, Unresolved


class Admission:
    """The step. `held`: whether jobs stand in held_intake."""

    def __init__(self, rules: Rules, kinds: Kinds, waiting: WaitingJobs, quarantine: Quarantine, held: bool) -> None:
        self._rules = rules
        self._kinds = kinds
        self._waiting = waiting
        self._quarantine = quarantine
        self._held = held
        self._tried_at: Instant = 0.0
        # of this tick
        self._refused: list[RefusedJob] = []
        self._doubles = 0

    def hear(self, batch: Batch, questions: Questions, events: list[Event], now: Instant) -> None:
        """Of an id that comes twice in a tick the first counts; all else about ids the database tells."""
        self._refused, self._doubles = [], 0
        seen: set[str] = set()
        for read in batch.intake:
            if read.jobs:
                self._resolve(read, questions, seen, now)
            for refused in read.refused:
                self._refuse(refused, seen)
        questions.refused.extend(self._refused)
        for bad in batch.bad:
            self._quarantine.put(bad, events, now)
        if self._held and now - self._tried_at >= self._rules.held_again_s:
            self._tried_at = now
            questions.held_again = True

    def decide(self, batch: Batch, answers: Answers, events: list[Event], now: Instant) -> None:
        """Only what was seen to be new is ever placed."""
        if answers.kinds:
            self._kinds.met(answers.kinds)
        if answers.held_left and not self._held:
            self._tried_at = now
        self._held = answers.held_left
        if answers.jobs:
            self._waiting.came_new(answers.jobs, now)
        for refused in self._refused:
            if refused.id in answers.refused:
                events.append(Refused(refused, now))
        for refused in answers.problems:
            events.append(Refused(refused, now))
        duplicates = answers.duplicates + self._doubles
        if answers.jobs or duplicates or answers.held:
            events.append(Accepted(len(answers.jobs), duplicates, answers.held))

    @property
    def next_at(self) -> Instant | None:
        """When held jobs are tried again; None: there are none."""
        return self._tried_at + self._rules.held_again_s if self._held else None

    @property
    def held(self) -> bool:
        """Whether jobs are set aside because somebody else holds their id."""
        return self._held

    def _resolve(self, read: IntakeRead, questions: Questions, seen: set[str], now: Instant) -> None:
        jobs = questions.jobs
        get = self._kinds.get
        for position, new in enumerate(read.jobs):
            key = read.key if new.id is not None else f"{read.key}:{position}"
            kind = get(new.kind)
            if kind is None:
                job_id = new.id or derived_job_id(read.received, key)
                if self._twice(job_id, seen):
                    continue
                questions.unresolved.append(Unresolved(new, read.received, key, now))
                continue
            found = resolve(new, kind, read.received, key, now)
            if isinstance(found, Job):
                if found.id in seen:
                    self._doubles += 1
                    continue
                seen.add(found.id)
                jobs.append(found)
            else:
                job_id = new.id or derived_job_id(read.received, key)
                self._refuse(RefusedJob(id=job_id, kind=new.kind, problem=found, submitter=new.submitter), seen)

    def _refuse(self, refused: RefusedJob, seen: set[str]) -> None:
        if not self._twice(refused.id, seen):
            self._refused.append(refused)

    def _twice(self, job_id: str, seen: set[str]) -> bool:
        if job_id in seen:
            self._doubles += 1
            return True
        seen.add(job_id)
        return False
