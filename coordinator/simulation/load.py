"""A lane at its full size: a thousand agents, a million jobs, machines that die and join, a coordinator that dies. What it cost, how long jobs waited."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import Final

from jobyard.contracts.job import Job
from jobyard.contracts.priority import NAMES
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.simulation.clocks import START
from jobyard.coordinator.simulation.database import SimulatedStore
from jobyard.coordinator.simulation.jobs import Script, Start, job_id
from jobyard.coordinator.simulation.series import Series
from jobyard.coordinator.simulation.violation import Violation
from jobyard.coordinator.simulation.world import Checking, World

_BATCH_S: Final = 0.02
_KINDS: Final = {"blink": (0.003, 56), "tiny": (0.05, 10), "short": (0.4, 26), "long": (4.0, 8)}
"""Kind → how long it lasts on average, and how many of a hundred jobs are of it."""
_QUICK: Final = ("blink", "tiny")
"""What all agents run; every fourth one runs nothing else, so that it is idle most of the time and very short jobs travel in bundles (S11)."""
_QUICK_ONLY_EVERY: Final = 4
_PRIORITIES: Final = (0, 1, 1, 2, 2, 2, 2, 2, 3, 4)
_GONE_S: Final = 8.0
_TOLD_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`busy`: how much of the slots of agents that run all kinds the longer jobs need. `deaths`: of agents, each with another that joins later; `leaders`:
    coordinators that die."""

    agents: int = 1_000
    jobs: int = 1_000_000
    slots: int = 16
    busy: float = 0.85
    deaths: int = 10
    leaders: int = 2
    seed: int = 1

    @property
    def rate(self) -> float:
        """Jobs a second."""
        mean = sum(seconds * share for kind, (seconds, share) in _KINDS.items() if kind not in _QUICK) / 100
        return self.slots_for_all * self.busy / mean

    @property
    def slots_for_all(self) -> int:
        """Slots of agents that run all kinds."""
        return (self.agents - self.agents // _QUICK_ONLY_EVERY) * self.slots


@dataclass(slots=True)
class Waits:
    """Seconds from due to placed, of jobs placed for the first time, by priority. `sizes`: bundles by how many jobs they had."""

    by_priority: list[list[float]] = field(default_factory=lambda: [[] for _ in NAMES])
    sizes: Counter[int] = field(default_factory=Counter[int])

    def committed(
        self, store: SimulatedStore, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, epoch: int
    ) -> None:
        """Take note of what was placed."""
        for event in events:
            if isinstance(event, e.Placed):
                bundle = event.bundle
                self.sizes[len(bundle.jobs)] += 1
                waits = self.by_priority[bundle.priority]
                for job, attempt in zip(bundle.jobs, bundle.attempts, strict=True):
                    if attempt == 1:
                        waits.append(bundle.placed_at - job.run_at)

    def of(self, priority: int, share: float) -> float | None:
        """The wait that this share of the jobs did not exceed; None: there were none."""
        waits = sorted(self.by_priority[priority])
        return waits[min(len(waits) - 1, int(share * len(waits)))] if waits else None


@dataclass(slots=True)
class Figures:
    """What a load came to. `took_s`, `parts_s`: real seconds, in all and inside the parts of ticks. `rules`: placements by rule.

    `alone`: bundles of one; `most`: jobs of the largest.
    """

    load: Load
    steps: int = 0
    checks: int = 0
    faults: dict[str, int] = field(default_factory=dict[str, int])
    virtual_s: float = 0.0
    took_s: float = 0.0
    parts_s: dict[str, float] = field(default_factory=dict[str, float])
    placed: int = 0
    bundles: int = 0
    rules: dict[str, int] = field(default_factory=dict[str, int])
    alone: int = 0
    most: int = 0
    starts: int = 0
    ticks: int = 0
    utilisation: float = 0.0
    waits: Waits = field(default_factory=Waits)
    broken: str | None = None

    @property
    def per_second(self) -> float:
        """Placements a second of the core alone: hearing and deciding, on one processor."""
        core = self.parts_s.get("hear", 0.0) + self.parts_s.get("decide", 0.0)
        return self.placed / core if core else 0.0


def run(load: Load, rules: Rules, series: Series | None = None, say: Callable[[str], None] = lambda text: None) -> Figures:
    """All of it, until every job has ended. `say`: gets a line now and then."""
    chance = Random(load.seed)
    world = World(chance, rules, 2, Checking(full=1_000_000, knowledge=10**9, message=50, order=False, remembered=False))
    world.broker.sparing = True
    figures = Figures(load)
    world.database.committed.append(figures.waits.committed)
    if series is not None:
        series.watch(world)
    began = perf_counter()

    def tell() -> None:
        tables, took = world.database.tables, perf_counter() - began
        say(f"  {world.schedule.now:6.1f} s: {len(tables.finals):,} jobs ended, {len(tables.pending):,} wait ({took:.0f} s)")
        world.schedule.after(_TOLD_S, tell, "tell")

    world.schedule.after(_TOLD_S, tell, "tell")
    try:
        _live(world, load)
    except Violation as broken:
        figures.broken = str(broken)
    figures.took_s = perf_counter() - began
    figures.steps, figures.checks, figures.virtual_s = world.schedule.steps, world.checks, world.schedule.now
    figures.faults, figures.parts_s = dict(world.faults.done), dict(world.database.took_s)
    figures.rules = world.placements.rules
    figures.placed, figures.bundles = sum(figures.rules.values()), world.placements.checked
    figures.alone, figures.most = figures.waits.sizes[1], max(figures.waits.sizes, default=0)
    figures.starts = world.ledger.starts
    figures.ticks = sum(candidate.ticks for candidate in world.candidates)
    figures.utilisation = _utilisation(world, load)
    return figures


def _live(world: World, load: Load) -> None:
    chance = world.chance
    number = itertools.count(1)

    def make() -> tuple[dict[str, int], float, int]:
        kinds = _KINDS if next(number) % _QUICK_ONLY_EVERY else _QUICK
        return dict.fromkeys(kinds, 1), float(load.slots), load.slots

    world.agents(make, load.agents)
    world.run_until(3.0)  # all have joined
    lasts = load.jobs / load.rate
    world.schedule.after(0.0, lambda: _submit(world, load, load.jobs), "load begins")
    for _ in range(load.deaths):
        world.schedule.after(chance.random() * lasts, lambda: _die(world), "agent dies")
    for _ in range(load.leaders):
        world.schedule.after(chance.random() * lasts, lambda: _leader_dies(world), "leader dies")
    world.run_until(world.schedule.now + lasts)
    world.run_until(world.schedule.now + 600.0, lambda: world.schedule.steps % 64 == 0 and world.rest.reached)
    world.rest.check()


def _submit(world: World, load: Load, left: int) -> None:
    count = min(left, max(1, round(load.rate * _BATCH_S)))
    chance, now = world.chance, world.schedule.now
    kinds = [kind for kind, (_, share) in _KINDS.items() for _ in range(share)]
    jobs: list[Job] = []
    for _ in range(count):
        kind = chance.choice(kinds)
        job = Job(
            id=job_id(chance, START + now), kind=kind, run_at=START + now, priority=chance.choice(_PRIORITIES), size=1.0, max_attempts=3
        )
        world.scripts[job.id] = Script((Start(min(60.0, chance.expovariate(1 / _KINDS[kind][0]))),))
        jobs.append(job)
    world.clients.by_kafka(jobs)
    if left > count:
        world.schedule.after(_BATCH_S, lambda: _submit(world, load, left - count), "load goes on")


def _die(world: World) -> None:
    worker = world.worker(world.chance.randrange(10**6))
    if worker is not None:
        worker.kill()
        world.faults.done["agent dies"] += 1
        world.schedule.after(_GONE_S, lambda: _join(world), "agent joins")


def _join(world: World) -> None:
    world.new_worker()
    world.faults.done["agent joins"] += 1


def _leader_dies(world: World) -> None:
    for candidate in world.candidates:
        if candidate.leading is not None:
            candidate.kill()
            world.faults.done["leader dies"] += 1
            world.schedule.after(_GONE_S, candidate.restart, "coordinator starts again")
            return


def _utilisation(world: World, load: Load) -> float:
    """How much of the time of the slots for all kinds went into the longer ones, while jobs came."""
    first, last = 3.0, 3.0 + load.jobs / load.rate
    worked = 0.0
    for job, runs in world.ledger.runs.items():
        if world.database.tables.jobs[job].kind in _QUICK:
            continue
        for run in runs:
            if run.outcome is Outcome.SUCCEEDED and run.until is not None:
                worked += max(0.0, min(run.until, last) - max(run.at, first))
    return worked / (load.slots_for_all * (last - first))
