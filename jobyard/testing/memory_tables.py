"""The tables of one lane in memory: what clients write, and what the rows say of where a job stands. See memory_store."""

import bisect
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from jobyard.contracts.control import Bucket
from jobyard.contracts.flows import flow_of
from jobyard.contracts.job import Job, Kind, RefusedJob
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import Error
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.places import Bundle, Waiting, Why
from jobyard.coordinator.core.questions import Command, Modes
from jobyard.coordinator.core.snapshot import AgentRow

_SWEPT_AFTER = 100
_Key: TypeAlias = tuple[int, str, int]


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
    flow: int = 0
    seq: int = 0


class PendingRows(dict[str, PendingRow]):
    """The rows of `pending` by job, in the order of (run_at, id) for each priority, kind and flow: what is due is found without a look at all."""

    def __init__(self) -> None:
        super().__init__()
        self._order: dict[_Key, list[tuple[Instant, str]]] = {}
        self._dead: dict[_Key, int] = {}

    def __setitem__(self, job_id: str, row: PendingRow) -> None:
        if job_id in self:
            del self[job_id]
        super().__setitem__(job_id, row)
        bisect.insort(self._order.setdefault((row.priority, row.kind, row.flow), []), (row.run_at, job_id))

    def __delitem__(self, job_id: str) -> None:
        row = self[job_id]
        super().__delitem__(job_id)
        key = (row.priority, row.kind, row.flow)
        dead = self._dead.get(key, 0) + 1
        order = self._order[key]
        if dead > _SWEPT_AFTER and dead * 2 > len(order):
            order[:] = [entry for entry in order if self._lives(key, entry)]
            dead = 0
        self._dead[key] = dead

    def backlogs(self) -> list[tuple[int, str, int, Instant]]:
        """Each priority, kind and flow that has rows, with the earliest run_at."""
        firsts = ((key, next(self.behind(*key, (0.0, "")), None)) for key in sorted(self._order))
        return [(*key, first.run_at) for key, first in firsts if first is not None]

    def behind(self, priority: int, kind: str, flow: int, after: tuple[Instant, str]) -> Iterator[PendingRow]:
        """The rows of one priority, kind and flow after this (run_at, id), in order."""
        key = (priority, kind, flow)
        order = self._order.get(key, [])
        seen: tuple[Instant, str] | None = None
        for at in range(bisect.bisect_right(order, after), len(order)):
            entry = order[at]
            if entry != seen and self._lives(key, entry):
                seen = entry
                yield self[entry[1]]

    def _lives(self, key: _Key, entry: tuple[Instant, str]) -> bool:
        row = self.get(entry[1])
        return row is not None and row.run_at == entry[0] and (row.priority, row.kind, row.flow) == key


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
    """The tables of one lane. `now`: the database's clock. `locked`: ids that an open transaction of somebody else holds.

    `submitted`: rows of `pending` as others committed them, in that order. `cancels`: by fence, what `events` says of cancels asked, job → reason.
    """

    now: Callable[[], Instant]
    epoch: int = 0
    leader: str = ""
    lease_until: Instant = 0.0
    fence: int = 0
    offsets: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    means: dict[tuple[str, int], e.Mean] = field(default_factory=dict[tuple[str, int], e.Mean])
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    pending: PendingRows = field(default_factory=PendingRows)
    submitted: list[PendingRow] = field(default_factory=list[PendingRow])
    bundles: dict[int, BundleRow] = field(default_factory=dict[int, BundleRow])
    attempts: dict[tuple[str, int], AttemptRow] = field(default_factory=dict[tuple[str, int], AttemptRow])
    attempts_of: dict[str, list[AttemptRow]] = field(default_factory=dict[str, list[AttemptRow]])
    events: list[EventRow] = field(default_factory=list[EventRow])
    cancels: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])
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
    repairs: list[e.Repaired] = field(default_factory=list[e.Repaired])
    modes: Modes = field(default_factory=Modes)
    held: dict[str, Job | RefusedJob] = field(default_factory=dict[str, "Job | RefusedJob"])
    locked: set[str] = field(default_factory=set[str])
    awake: bool = False
    seq: int = 0

    def submit(self, job: Job) -> bool:
        """A client's transaction that commits one job. False: the id was known."""
        self.kinds.setdefault(job.kind, Kind())
        if job.id in self.jobs:
            return False
        self.jobs[job.id] = copy.copy(job)
        flow = flow_of(job.submitter) if self.modes.fair_share else 0
        self.pending[job.id] = row = PendingRow(job.id, job.kind, job.run_at, job.priority, 0, 0, 0, "n", flow, self.tick())
        self.submitted.append(row)
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
        return Waiting(job, row.attempt, row.used, row.interruptions, self.bound(row.job_id), row.why, True, f"({row.job_id})", row.flow)

    def loaded_agents(self, since: Instant) -> list[AgentRow]:
        """What a snapshot holds of the agents that are there, or ended since then."""
        buckets: dict[int, list[Bucket]] = {}
        for owner, bucket in self.buckets.values():
            buckets.setdefault(owner, []).append(bucket)
        loaded: list[AgentRow] = []
        holders = {row.bundle.agent_id for row in self.bundles.values()}  # careful jobs, until the lease is over (L11)
        for number, row in sorted(self.agents.items()):
            if number in holders or self.agent_ended.get(number, self.now()) > since:
                made = copy.copy(row)
                made.kinds = dict(row.kinds)
                made.buckets = sorted(buckets.get(number, []), key=lambda bucket: bucket.priority)
                loaded.append(made)
        return loaded

    def loaded_bundle(self, bundle: Bundle) -> Bundle:
        """What a snapshot holds of an open bundle: all but what was placed follows from other rows."""
        fence = bundle.fence
        jobs = [copy.copy(self.jobs[job.id]) for job in bundle.jobs]
        for job in jobs:
            job.priority = bundle.priority
        opened = [index for index, job in enumerate(jobs) if (job.id, fence) not in self.attempts]
        asked = self.cancels.get(fence, {})
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
            [self.bound(job.id) for job in jobs],
            list(bundle.careful),
            {index for index in range(len(jobs)) if (jobs[index].id, fence) in self.attempts},
            {index: self.running[jobs[index].id][1] for index in opened if self.running.get(jobs[index].id, (0, 0))[0] == fence},
            {index: asked[jobs[index].id] for index in opened if jobs[index].id in asked},
        )

    def tick(self) -> int:
        """The next number of the one counter that orders what was committed."""
        self.seq += 1
        return self.seq
