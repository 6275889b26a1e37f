"""A lane with a Master DB in memory, agents that are only names, and a clock that a test moves."""

from dataclasses import dataclass, field

import msgspec

from jobyard.contracts.codec import encode
from jobyard.contracts.job import Job, NewJob, RefusedJob
from jobyard.contracts.priority import NAMES
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
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome, State
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.core.batch import Batch, IntakeRead, ReportsRead
from jobyard.coordinator.core.dispatch import Outgoing
from jobyard.coordinator.core.events import Event, Placed
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.core.places import Bundle
from jobyard.testing.memory_store import MemoryLaneStore
from jobyard.testing.memory_tables import AttemptRow, MemoryLane

T0 = 1_000_000.0
"""Zero of the tests' clock: all times that they name count from here."""
TOPICS = lane_topics("test", "default")
_IDS = {topic.name: "one" for topic in TOPICS.all()}


def a_job_id(number: int) -> str:
    """A UUIDv7; those of larger numbers are larger."""
    return f"018f0000-0000-7000-8000-{number:012x}"


@dataclass
class Told:
    """An agent as the tests know it."""

    name: str
    incarnation: str
    capacity: float
    slots: int
    kinds: dict[str, int]
    seq: int = 0
    epoch: int = 1


@dataclass
class World:
    """`now`: seconds after T0. Ticks happen only when a test says so."""

    rules: Rules = field(default_factory=Rules)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.tables = MemoryLane(lambda: T0 + self.now)
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.agents: dict[str, Told] = {}
        self.topic_ids = dict(_IDS)
        self.batch = Batch()
        self.sent: list[Outgoing] = []
        self._incarnations = 0
        self._partitions = 50
        self._leaders = 0
        self._keys = 0
        self.lead()

    # -- leading

    def lead(self, at_least: int = 0, reports_lost: bool = False, fence_all: bool = False) -> list[Event]:
        """A new leader takes over; what it opened with."""
        self.tables.lease_until = 0.0
        self._leaders += 1
        self.store = MemoryLaneStore(self.tables, f"leader {self._leaders}", self.rules)
        term = self.store.seize(at_least)
        assert term is not None
        self.term = term
        self.lane = self.loaded(reports_lost, fence_all)
        opening = self.lane.opening()
        self.store.write(opening, {name: (topic_id, 0) for name, topic_id in self.topic_ids.items()}, self.lane.fence, term)
        self.batch = Batch(partitions=self._partitions)
        self._send(opening)
        return opening

    def loaded(self, reports_lost: bool = False, fence_all: bool = False) -> Lane:
        """A lane as a take-over would make it now."""
        return Lane.load(
            self.store.snapshot(),
            lane="default",
            rules=self.rules,
            epoch=self.term.epoch,
            now=T0 + self.now,
            topic_ids=self.topic_ids,
            topics=TOPICS,
            reports_lost=reports_lost,
            fence_all=fence_all,
        )

    def tick(self, at: float | None = None, *, commit: bool = True) -> list[Event]:
        """One tick with what was said since the last."""
        if at is not None:
            self.now = at
        batch, self.batch = self.batch, Batch()
        now = T0 + self.now
        questions = self.lane.hear(batch, now)
        answers = self.store.ask(questions)
        events = self.lane.decide(batch, answers, now)
        if commit:
            self.store.write(events, {}, self.lane.fence, self.term)
            self._send(events)
        return events

    def _send(self, events: list[Event]) -> None:
        for event in events:
            outgoing = self.lane.message(event)
            if outgoing is not None:
                encode(outgoing.body)
                self.sent.append(outgoing)

    def silent_until(self, at: float) -> list[Event]:
        """A tick in which all reports up to now are known to have been read."""
        self.now = at
        self.batch.reports_read_at = T0 + at
        return self.tick()

    # -- jobs

    def job(
        self,
        name: str,
        size: float = 1.0,
        priority: int = 2,
        due: float | None = None,
        kind: str = "k",
        max_attempts: int = 5,
        version: int = 1,
        args: bytes = b"{}",
        submitter: str | None = None,
    ) -> str:
        """A job that arrives by the intake topic, due at `due` (now)."""
        self._keys += 1
        new = NewJob(
            id=self.id(name),
            kind=kind,
            size=float(size),
            priority=NAMES[priority],
            max_attempts=max_attempts,
            version=version,
            args=msgspec.Raw(args),
            submitter=submitter,
        )
        received = T0 + (self.now if due is None else due)
        self.batch.intake.append(IntakeRead(self._keys, received, f"intake:{self._keys}", [new], []))
        return self.ids[name]

    def refused(self, refused: RefusedJob) -> None:
        """A job that the reader found wrong."""
        self._keys += 1
        self.batch.intake.append(IntakeRead(self._keys, T0 + self.now, f"intake:{self._keys}", [], [refused]))

    def submit(
        self, name: str, due: float | None = None, kind: str = "k", priority: int = 2, max_attempts: int = 5, submitter: str | None = None
    ) -> str:
        """A job that a client commits by SQL."""
        job = Job(
            id=self.id(name),
            kind=kind,
            run_at=T0 + (self.now if due is None else due),
            priority=priority,
            max_attempts=max_attempts,
            submitter=submitter,
        )
        assert self.tables.submit(job)
        return job.id

    def id(self, name: str) -> str:
        """The id of a named job."""
        if name not in self.ids:
            self.ids[name] = a_job_id(len(self.ids) + 1)
            self.names[self.ids[name]] = name
        return self.ids[name]

    def state(self, name: str) -> State | None:
        return self.tables.state(self.ids[name])

    def attempts(self, name: str) -> list[AttemptRow]:
        return self.tables.attempts_of.get(self.ids[name], [])

    def outcomes(self, name: str) -> list[str]:
        return [row.outcome.value for row in self.attempts(name)]

    def bundle(self, name: str) -> Bundle:
        """The open bundle that the job stands in."""
        spot = self.tables.open_spot(self.ids[name])
        assert spot is not None
        return spot[0]

    def where(self, name: str) -> str:
        """The agent that the job is placed on."""
        bundle = self.bundle(name)
        return next(agent.name for agent in self.agents.values() if agent.incarnation == bundle.incarnation)

    # -- agents

    def new_incarnation(self, name: str, capacity: float = 100.0, slots: int = 10, kinds: dict[str, int] | None = None) -> Told:
        """A process that will say hello."""
        self._incarnations += 1
        told = Told(
            name,
            f"00000000-0000-4000-8000-{self._incarnations:012x}",
            capacity,
            slots,
            {"k": 1} if kinds is None else kinds,
            epoch=self.term.epoch,
        )
        self.agents[name] = told
        return told

    def hello(self, agent: Told, stamp: float | None = None) -> None:
        self.say(agent, Hello(stamp=self.now if stamp is None else stamp, kinds=agent.kinds, capacity=agent.capacity, slots=agent.slots))

    def join(self, name: str, capacity: float = 100.0, slots: int = 10, kinds: dict[str, int] | None = None) -> Told:
        """An agent joins: in two ticks, since its partitions' end offsets must be asked for."""
        agent = self.new_incarnation(name, capacity, slots, kinds)
        self.hello(agent)
        taken = set(self.tables.buckets)
        free = [part for part in range(self._partitions) if part not in taken][:5]
        self.batch.buckets_ready = [(part, 0) for part in free]
        self.batch.partitions = self._partitions
        self.tick()
        return agent

    def fleet(self, **agents: tuple[float, int]) -> None:
        for name, (capacity, slots) in agents.items():
            self.join(name, capacity, slots)

    def say(self, agent: Told, *reports: Report, seq: int | None = None, fetched: float | None = None) -> None:
        """One message on the reports topic."""
        if seq is None:
            agent.seq += 1
            seq = agent.seq
        message = Reports(v=1, agent=agent.name, incarnation=agent.incarnation, seq=seq, reports=list(reports))
        self.batch.reports.append(ReportsRead(agent.seq, T0 + (self.now if fetched is None else fetched), message, {}))

    def beat(
        self,
        name: str,
        *,
        suspended: bool = False,
        draining: bool = False,
        epoch: int | None = None,
        others: tuple[int, float] = (0, 0.0),
        held: list[tuple[int, str]] | None = None,
        capacity: float | None = None,
    ) -> None:
        agent = self.agents[name]
        self.say(
            agent,
            Heartbeat(
                stamp=self.now,
                epoch=self.term.epoch if epoch is None else epoch,
                suspended=suspended,
                draining=draining,
                capacity=agent.capacity if capacity is None else capacity,
                slots=agent.slots,
                others=others,
                held=held,
            ),
        )

    def started(self, name: str, agent: str | None = None) -> None:
        bundle = self.bundle(name)
        job_id = self.ids[name]
        index = [job.id for job in bundle.jobs].index(job_id)
        self.say(
            self.agents[agent or self.where(name)],
            Started(fence=bundle.fence, job=job_id, attempt=bundle.attempts[index], at=T0 + self.now),
        )

    def progress(self, name: str, done: float, seq: int | None = None) -> None:
        bundle = self.bundle(name)
        job_id = self.ids[name]
        index = [job.id for job in bundle.jobs].index(job_id)
        report = Progress(fence=bundle.fence, job=job_id, attempt=bundle.attempts[index], done=done)
        self.say(self.agents[self.where(name)], report, seq=seq)

    def an_end(
        self,
        name: str,
        outcome: Outcome = Outcome.SUCCEEDED,
        *,
        took: float = 0.1,
        retryable: bool = True,
        delay_s: float | None = None,
        ended_at: float | None = None,
    ) -> tuple[int, End]:
        """Fence and end of the attempt under way."""
        bundle = self.bundle(name)
        job_id = self.ids[name]
        index = [job.id for job in bundle.jobs].index(job_id)
        ended = T0 + (self.now if ended_at is None else ended_at)
        error = None if outcome is Outcome.SUCCEEDED else Error("ValueError", "no", "")
        return bundle.fence, End(job_id, bundle.attempts[index], outcome, ended - took, ended, NO_RESULT, error, retryable, delay_s)

    def finish(
        self,
        name: str,
        outcome: Outcome = Outcome.SUCCEEDED,
        *,
        took: float = 0.1,
        retryable: bool = True,
        delay_s: float | None = None,
        ended_at: float | None = None,
        agent: Told | None = None,
    ) -> tuple[int, End]:
        """The agent reports the end; what it said."""
        who = agent or self.agents[self.where(name)]
        fence, end = self.an_end(name, outcome, took=took, retryable=retryable, delay_s=delay_s, ended_at=ended_at)
        self.say(who, Finished(fence=fence, ends=[end]))
        return fence, end

    def finish_all(self, agent: str, took: float) -> int:
        """Everything that the agent holds has succeeded; how many."""
        told = self.agents[agent]
        count = 0
        for row in self.tables.bundles.values():
            bundle = row.bundle
            if bundle.incarnation != told.incarnation:
                continue
            ends = [
                End(job.id, attempt, Outcome.SUCCEEDED, T0 + self.now - took, T0 + self.now)
                for job, attempt in zip(bundle.jobs, bundle.attempts, strict=True)
                if (job.id, bundle.fence) not in self.tables.attempts
            ]
            count += len(ends)
            self.say(told, Finished(fence=bundle.fence, ends=ends))
        return count

    def release(self, *names: str) -> None:
        for name in names:
            bundle = self.bundle(name)
            index = [job.id for job in bundle.jobs].index(self.ids[name])
            self.say(
                self.agents[self.where(name)],
                Released(fence=bundle.fence, jobs=[(self.ids[name], bundle.attempts[index])], reason="shutdown"),
            )

    def goodbye(self, name: str) -> None:
        self.say(self.agents[name], Goodbye())

    # -- what came out

    def placed(self, events: list[Event]) -> str:
        """`job>agent …`, in the order in which they were placed."""
        by_incarnation = {agent.incarnation: agent.name for agent in self.agents.values()}
        return " ".join(
            f"{self.names.get(job.id, job.id)}>{by_incarnation[event.bundle.incarnation]}"
            for event in events
            if isinstance(event, Placed)
            for job in event.bundle.jobs
        )

    def held(self, agent: str) -> list[str]:
        """The jobs that an agent holds, sorted by id."""
        told = self.agents[agent]
        return [
            self.names[job.id]
            for job in sorted(
                (
                    job
                    for row in self.tables.bundles.values()
                    if row.bundle.incarnation == told.incarnation
                    for job in row.bundle.jobs
                    if (job.id, row.bundle.fence) not in self.tables.attempts
                ),
                key=lambda job: job.id,
            )
        ]

    def said(self, kind: type) -> list[Outgoing]:
        """What was sent of one kind of message."""
        return [outgoing for outgoing in self.sent if isinstance(outgoing.body, kind)]


def of(events: list[Event], kind: type) -> list[Event]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]
