"""Who submits jobs and gives commands: by SQL, by Kafka, or by both under the same id."""

import dataclasses
from collections.abc import Callable, Mapping
from random import Random

from jobyard.contracts import codec
from jobyard.contracts.job import Job, NewJob
from jobyard.contracts.moments import moment
from jobyard.contracts.priority import NAMES
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.simulation.broker import Broker
from jobyard.coordinator.simulation.database import Database
from jobyard.coordinator.simulation.jobs import Order
from jobyard.coordinator.simulation.link import Link
from jobyard.coordinator.simulation.schedule import Schedule


class Clients:
    """`wrote`: told of each row that a client has committed. `notify`: wakes the leader, if it sleeps. `unsent`: submissions still on their way."""

    def __init__(
        self,
        schedule: Schedule,
        chance: Random,
        broker: Broker,
        database: Database,
        topics: LaneTopics,
        wrote: Callable[[str], None],
        notify: Callable[[], None],
    ) -> None:
        self._schedule = schedule
        self._chance = chance
        self._broker = broker
        self._db = database
        self._topics = topics
        self._wrote = wrote
        self._notify = notify
        self.link = Link(schedule, chance)
        self.unsent = 0

    def order(self, order: Order) -> None:
        """Have it submitted at its time; what is repeated comes a little later."""
        at = order.at
        for way in order.ways:
            self.unsent += 1
            if way == "sql":
                self._schedule.at(at, lambda: self.by_sql(order.job), "sql")
            else:
                self._schedule.at(at, lambda: self.by_kafka([order.job]), "kafka")
            at += self._chance.choice((0.0, 0.001, 0.01, 0.5))

    def by_sql(self, job: Job) -> None:
        """A transaction of its own; as often as it takes."""
        if self._schedule.now < self._db.down_until or not self._db.submit(job):
            self._schedule.after(0.05, lambda: self.by_sql(job), "sql again")
            return
        self.unsent -= 1
        self._wrote(job.id)
        self._stir()

    def by_kafka(self, jobs: list[Job]) -> None:
        """One message with these jobs, kept until the broker has it."""
        self._send(codec.encode_intake([_new(job) for job in jobs]), len(jobs))

    def command(self, verb: str, job_id: str | None = None, args: Mapping[str, object] | None = None) -> None:
        """Somebody asks for something."""
        self._db.tables.command(verb, job_id, args)
        self._stir()

    def mode(self, verb: str, kind: str = "", agent: str = "") -> None:
        """An operator pauses, drains or resumes, or switches fair share: the mode is written with the command."""
        modes = self._db.tables.modes
        drained = {name: stop for name, stop in modes.drained.items() if name != agent}
        changed = {
            "pause_lane": dataclasses.replace(modes, paused=True),
            "resume_lane": dataclasses.replace(modes, paused=False),
            "pause_kind": dataclasses.replace(modes, paused_kinds=modes.paused_kinds | {kind}),
            "resume_kind": dataclasses.replace(modes, paused_kinds=modes.paused_kinds - {kind}),
            "drain_agent": dataclasses.replace(modes, drained={**drained, agent: False}),
            "stop_agent": dataclasses.replace(modes, drained={**drained, agent: True}),
            "resume_agent": dataclasses.replace(modes, drained=drained),
            "fair_share": dataclasses.replace(modes, fair_share=not modes.fair_share),
        }
        self._db.tables.modes = changed[verb]
        self.command("drain_agent" if verb == "stop_agent" else verb)

    def _send(self, value: bytes, jobs: int) -> None:
        def comes() -> None:
            if not (self._broker.up and self.link.open):
                self._schedule.after(0.05, comes, "intake waits")
                return
            self._broker.append(self._topics.intake.name, 0, value)
            self.unsent -= jobs

        self._schedule.at(self.link.arrival(), comes, "intake")

    def _stir(self) -> None:
        if not self._db.tables.awake:
            self._schedule.after(0.001, self._notify, "notice")


def _new(job: Job) -> NewJob:
    return NewJob(
        kind=job.kind,
        args=job.args,
        id=job.id,
        priority=NAMES[job.priority],
        size=job.size,
        run_at=moment(job.run_at),
        timeout_s=job.timeout_s,
        max_attempts=job.max_attempts,
        retry=job.retry,
        submitter=job.submitter,
    )
