"""A whole lane in one process: coordinators, agents, Kafka, the Master DB, clients, and what must hold of them after every step."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.codec import decode_intake
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.simulation.broker import Broker, Topic
from jobyard.coordinator.simulation.candidate import Candidate, Stage
from jobyard.coordinator.simulation.checks.commits import Commits
from jobyard.coordinator.simulation.checks.knowledge import Knowledge
from jobyard.coordinator.simulation.checks.placements import Placements
from jobyard.coordinator.simulation.checks.remembered import Remembered
from jobyard.coordinator.simulation.checks.rest import Rest
from jobyard.coordinator.simulation.checks.starts import Starts
from jobyard.coordinator.simulation.clients import Clients
from jobyard.coordinator.simulation.clocks import START, Machine
from jobyard.coordinator.simulation.database import Database, SimulatedStore
from jobyard.coordinator.simulation.faults import Faults
from jobyard.coordinator.simulation.jobs import Order, Script
from jobyard.coordinator.simulation.ledger import Ledger
from jobyard.coordinator.simulation.link import Link
from jobyard.coordinator.simulation.schedule import Schedule
from jobyard.coordinator.simulation.worker import Worker
from jobyard.process import points
from jobyard.process.points import Point

LANE: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """How closely a world is looked at: all jobs every `full` steps, the law of the take-over every `knowledge` commits, one message in `message` of those
    that a committed offset passes, `order` inside strands or not, what agents remember or not."""

    full: int = 2_000
    knowledge: int = 5
    message: int = 1
    order: bool = True
    remembered: bool = True


class World:
    """`chance`: the only source of chance. `orders`: all jobs that are submitted by the plan."""

    def __init__(self, chance: Random, rules: Rules, coordinators: int, checking: Checking) -> None:
        self.chance = chance
        self.rules = rules
        self.checking = checking
        self.schedule = schedule = Schedule()
        self.topics = lane_topics("simulated", LANE)
        self.broker = Broker(schedule, lambda: START + schedule.now, self.topics)
        self.broker.destroyed = self._destroyed
        self.database = Database(schedule, chance, rules)
        self.ledger = Ledger(lambda: schedule.now)
        self.stage = Stage()
        self.orders: list[Order] = []
        self.scripts: dict[str, Script] = {}
        self.faults = Faults(self)
        self._number = 0
        self._names = 0
        self._make_worker: Callable[[], tuple[dict[str, int], float, int]] = lambda: ({}, 1.0, 1)
        self.workers: list[Worker] = []
        tables = self.database.tables
        self.commits = Commits(tables, self.ledger, self.broker, self.topics, LANE, rules, every_message=checking.message)
        self.starts = Starts(tables, self.ledger, self.commits)
        self.placements = Placements(tables, rules, lambda: schedule.now, order=checking.order)
        self.knowledge = Knowledge(self.database, self.broker, self.topics, LANE, rules, self._lane_of, checking.knowledge)
        self.remembered = Remembered()
        self.rest = Rest(tables, self.commits)
        self.ledger.watch = self.starts.watch
        self.database.committed = [self.commits.committed, self.placements.committed, self._committed, self.knowledge.committed]
        self.clients = Clients(schedule, chance, self.broker, self.database, self.topics, self.placements.wrote, self._notify)
        schedule.every, schedule.each = checking.full, self.commits.everything
        self.candidates = [
            Candidate(
                name=f"coordinator {number}",
                lane=LANE,
                schedule=schedule,
                chance=chance,
                broker=self.broker,
                database=self.database,
                topics=self.topics,
                rules=rules,
                stage=self.stage,
                number=self.number,
            )
            for number in range(coordinators)
        ]

    @property
    def checks(self) -> int:
        """How many single invariants have been looked at."""
        parts = (self.commits, self.starts, self.placements, self.knowledge, self.remembered)
        return sum(part.checked for part in parts)

    def number(self) -> int:
        """A number that nobody has."""
        self._number += 1
        return self._number

    # -- what happens in it

    def order(self, orders: Iterable[Order]) -> None:
        """Have these jobs submitted."""
        for order in orders:
            self.orders.append(order)
            self.scripts[order.job.id] = order.script
            self.rest.expected.add(order.job.id)
            self.clients.order(order)

    def agents(self, make: Callable[[], tuple[dict[str, int], float, int]], count: int) -> None:
        """Start agents; `make` tells kinds, capacity and slots of each, also of those that join later."""
        self._make_worker = make
        for _ in range(count):
            self.new_worker()

    def new_worker(self) -> Worker:
        """An agent that was not there."""
        self._names += 1
        return self.start_worker(f"a{self._names}", *self._make_worker())

    def start_worker(self, name: str, kinds: dict[str, int], capacity: float, slots: int) -> Worker:
        """A process of an agent."""
        worker = Worker(
            schedule=self.schedule,
            chance=self.chance,
            broker=self.broker,
            link=Link(self.schedule, self.chance),
            machine=Machine(self.schedule),
            topics=self.topics,
            ledger=self.ledger,
            scripts=self.scripts.__getitem__,
            rules=self.rules,
            name=name,
            process=self.number(),
            kinds=kinds,
            capacity=capacity,
            slots=slots,
            over=self._worker_over,
            saw=self._worker_saw,
        )
        self.workers.append(worker)
        return worker

    def worker(self, who: int) -> Worker | None:
        """One of those that live; None: nobody does."""
        return self.workers[who % len(self.workers)] if self.workers else None

    def worker_later(self, worker: Worker, seconds: float) -> None:
        """Another process of its name after a while, if it is gone by then."""

        def starts() -> None:
            if all(one.name != worker.name for one in self.workers):
                self.start_worker(worker.name, worker.kinds, worker.core.slots.capacity, worker.core.slots.slots)

        self.schedule.after(seconds, starts, "agent starts again")

    # -- running it

    def run_until(self, when: float, enough: Callable[[], bool] | None = None) -> None:
        """Go on up to a time, or until it is enough; nothing is logged meanwhile. Violation if something does not hold."""
        silent = logging.root.manager.disable
        logging.disable(logging.CRITICAL)  # the product's own lines, of each simulated process
        for point in Point:
            points.arm(point, partial(self._reached, point))
        try:
            self.schedule.run_until(when, enough)
        finally:
            points.disarm()
            logging.disable(silent)

    def heal(self) -> None:
        """Nothing breaks any more, what stands still goes on, and what was paused is resumed."""
        now = self.schedule.now
        self.faults.end()
        self.broker.down_until = self.database.down_until = self.database.slow_until = now
        self.database.failing.clear()
        for link in [self.clients.link, *(worker.link for worker in self.workers), *(one.link for one in self.candidates)]:
            link.cut_until = link.slow_until = now
        for candidate in self.candidates:
            if candidate.leading is not None:
                candidate.leading.producer.failing = 0
        for worker in self.workers:
            worker.killed_at = ""
            worker.handlers.slow_s = 0.0
            worker.handlers.between = None
        modes = self.database.tables.modes
        if modes.paused:
            self.clients.mode("resume_lane")
        for kind in sorted(modes.paused_kinds):
            self.clients.mode("resume_kind", kind=kind)
        for name in sorted(modes.drained):
            self.clients.mode("resume_agent", agent=name)

    # -- inside

    def _reached(self, point: Point, *facts: object) -> None:
        if point is Point.MESSAGES_TAKEN:
            self.database.tick_began()
        self.faults.reached(point, *facts)

    def _committed(
        self, store: SimulatedStore, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, epoch: int
    ) -> None:
        self.schedule.saw(f"commit {epoch} {fence} {sorted(offsets.items())}")
        for event in events:
            if isinstance(event, e.AgentEnded):
                self.starts.ended(event.incarnation, event.state)

    def _lane_of(self, store: SimulatedStore) -> Lane | None:
        for candidate in self.candidates:
            if candidate.leading is not None and candidate.leading.store is store:
                return candidate.leading.lane
        return None

    def _notify(self) -> None:
        for candidate in self.candidates:
            candidate.woken()

    def _worker_over(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.remembered.over(worker)

    def _worker_saw(self, worker: Worker, bundles: list[BundleMessage]) -> None:
        if self.checking.remembered:
            self.remembered.saw(worker, bundles)

    def _destroyed(self, topic: Topic) -> None:
        """A job that was only in the intake topic is gone with it (promise 1)."""
        if topic.name != self.topics.intake.name:
            return
        partition = topic.partitions[0]
        for offset in range(partition.first, partition.end):
            intake = decode_intake(partition.record(offset)[0], LANE, self.database.now(), self.rules)
            for job in intake.jobs:
                if job.id is not None and job.id not in self.database.tables.jobs:
                    self.rest.expected.discard(job.id)
