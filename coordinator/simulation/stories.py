"""Three small runs by the product's own rules that show what the scheduler does: a machine joins, a machine dies, a huge job arrives."""

from random import Random
from typing import Final

from jobyard.contracts.job import Job
from jobyard.contracts.rules import RULES
from jobyard.coordinator.simulation.clocks import START
from jobyard.coordinator.simulation.jobs import Order, Script, Start, job_id
from jobyard.coordinator.simulation.series import Series, Story
from jobyard.coordinator.simulation.world import Checking, World

_KIND: Final = "resize"
_EVERY_S: Final = 0.5


def all_of_them() -> dict[str, Story]:
    """By the name of their picture."""
    return {"machine-joins": machine_joins(), "machine-dies": machine_dies(), "huge-job": huge_job()}


def machine_joins() -> Story:
    """Two agents have a backlog of long jobs; two more join, take what waits, and nothing that runs is touched."""
    world, series = _world("Two machines have a backlog; two more join", 2, 8)
    _submit(world, [2.0] * 160, 4.0)
    at = 20.0
    world.schedule.at(at, lambda: _join(world, 2), "machines join")
    series.mark(2.0, "160 jobs are due")
    series.mark(at, "a3 and a4 join")
    return _told(world, series, 40.3)


def machine_dies() -> Story:
    """One of three agents dies: what it held runs elsewhere as soon as it is lost, before what was due later."""
    world, series = _world("One of three machines dies; its jobs run elsewhere", 3, 8)
    _submit(world, [2.0 + number * 0.09 for number in range(320)], 1.6)
    at = 14.0
    world.schedule.at(at, lambda: world.workers[1].kill(), "machine dies")
    series.mark(at, "a2 dies")
    series.mark(at + RULES.unreachable_after_s, "unreachable: gets nothing new")
    series.mark(at + RULES.lost_after_s, "lost: its jobs wait again")
    return _told(world, series, 40.3)


def huge_job() -> Story:
    """A job as large as a machine comes while small ones keep all machines busy: after a while one is kept free for it."""
    world, series = _world("A job of a whole machine's size among small ones", 3, 8, seed=5)
    _submit(world, [2.0 + number * 0.2 for number in range(270)], 4.0)
    at = 12.0
    job = _job(world, at, size=8.0)
    world.order([Order(at, job, Script((Start(8.0),)), ("sql",))])
    series.mark(at, "a job of size 8 is due")
    story = _told(world, series, 64.3)
    starts = next(moment for moment in story.moments if moment.whole)
    series.mark(at + RULES.reserve_after_s, f"{starts.whole[0]} is kept for it")
    series.mark(world.ledger.runs[job.id][0].at, "it starts")
    return story


def _world(title: str, agents: int, slots: int, seed: int = 1) -> tuple[World, Series]:
    world = World(Random(seed), RULES, 1, Checking(knowledge=200))
    world.agents(lambda: ({_KIND: 1}, float(slots), slots), agents)
    series = Series(title, _EVERY_S)
    series.watch(world)
    return world, series


def _join(world: World, count: int) -> None:
    for _ in range(count):
        world.new_worker()


def _told(world: World, series: Series, until: float) -> Story:
    world.run_until(until)
    return series.story


def _job(world: World, at: float, size: float = 1.0) -> Job:
    return Job(id=job_id(world.chance, START + at), kind=_KIND, run_at=round(START + at, 6), size=size)


def _submit(world: World, times: list[float], lasts_s: float) -> None:
    chance = world.chance
    world.order(Order(at, _job(world, at), Script((Start(lasts_s * (0.6 + 0.8 * chance.random())),)), ("sql",)) for at in times)
