"""What holds of every placement, whatever came before it: room (S5, S6), order (S2, S4), reservations (S7); and that the same history has the same events."""

import random
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_world import T0, World

from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.books.durations import size_class
from jobyard.coordinator.core.books.reservations import Reservations
from jobyard.coordinator.core.events import Event, Placed

FLEET = {"a": (4, 4), "b": (8, 4), "c": (8, 8), "d": (16, 6), "e": (2, 2), "f": (8, 4)}
KINDS = {name: {"k": 1} if name in "ae" else {"k": 1, "m": 1} for name in FLEET}
_QUICK = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def kept(world: World) -> Reservations:
    return world.lane._placement._reservations  # pyright: ignore[reportPrivateUsage]  # what is kept shows in no event


@dataclass
class Sent:
    """A job as it was submitted."""

    size: float
    kind: str
    priority: int
    due: float
    job_id: str


@dataclass
class History:
    """Random jobs, ends, silences, drains and cancels of 60 s. All jobs take seconds: no window, no bundles (S8, S11)."""

    seed: int
    rules: Rules
    jobs: dict[str, Sent] = field(default_factory=dict[str, Sent])
    log: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.world = World(self.rules)
        self.quiet: set[str] = set()
        for name, (capacity, slots) in FLEET.items():
            self.world.join(name, capacity, slots, KINDS[name])

    def step(self, at: float, *, come: bool) -> list[Event]:
        world, rng = self.world, self.rng
        world.now = at
        for _ in range(rng.choice((0, 1, 2, 3, 5)) if come else 0):
            name = f"j{len(self.jobs):04}"
            size = rng.choice((1, 1, 1, 2, 3, 5, 8, 16, 24))
            kind, priority, due = rng.choice("kkm"), rng.choice((0, 1, 2, 2, 3, 4)), at - rng.choice((0, 0, 0, 3))
            self.jobs[name] = Sent(size, kind, priority, due, world.job(name, size, priority, due, kind))
        if come and rng.random() < 0.1:
            self.quiet ^= {rng.choice("bcf")}
        for name in FLEET:
            if name in self.quiet:
                continue
            draining = come and name == "b" and int(at) % 20 > 16
            world.beat(name, draining=draining)
            for job in world.held(name):
                if rng.random() < 0.25:
                    world.finish(job, took=3.0)
        if come and self.jobs and rng.random() < 0.1:
            world.tables.command("cancel", self.jobs[rng.choice(sorted(self.jobs))].job_id)
        events = world.silent_until(at)
        self.log.append(world.placed(events))
        return events

    def waiting(self) -> set[str]:
        return set(self.world.lane._waiting._by_id)  # pyright: ignore[reportPrivateUsage]  # shown nowhere


def rules(reserve_after: float) -> Rules:
    return Rules(reserve_after_s=reserve_after, reserved_share=0.3, aging_s=12.0, aged_every=4)


@_QUICK
@given(st.integers(0, 2**32), st.sampled_from((0.0, 3.0, 1_000.0)))
def test_S5_S6_nobody_holds_more_than_slots_and_room_but_an_oversized_job_alone(seed: int, reserve_after: float) -> None:
    history = History(seed, rules(reserve_after))
    world = history.world
    for at in range(60):
        history.step(float(at), come=at < 50)
        for name, (capacity, slots) in FLEET.items():
            held = [history.jobs[job].size for job in world.held(name)]
            assert len(held) <= slots
            assert sum(held) <= capacity or len(held) == 1, (at, name, held)


@_QUICK
@given(st.integers(0, 2**32), st.sampled_from((0.0, 3.0, 1_000.0)))
def test_S4_inside_a_strand_nobody_passes_anybody(seed: int, reserve_after: float) -> None:
    """Whoever is placed stood before all of its priority, kind and size class that wait on, aged or not, reserved for or not."""
    history = History(seed, rules(reserve_after))
    for at in range(60):
        events = history.step(float(at), come=at < 50)
        waiting: dict[tuple[int, str, int], tuple[float, str]] = {}
        left = history.waiting()
        for sent in history.jobs.values():
            if sent.job_id in left:
                key = (sent.priority, sent.kind, size_class(sent.size))
                waiting[key] = min(waiting.get(key, (float("inf"), "")), (T0 + sent.due, sent.job_id))
        for event in events:
            if isinstance(event, Placed):
                for job in event.bundle.jobs:
                    first = waiting.get((job.priority, job.kind, size_class(job.size)))
                    assert first is None or (job.run_at, job.id) < first, (at, job)


@settings(_QUICK, max_examples=15)
@given(st.integers(0, 2**32), st.lists(st.sampled_from((0, 1, 2, 3, 4)), min_size=12, max_size=12))
def test_S2_equal_jobs_go_by_priority_then_due_time_then_id(seed: int, priorities: list[int]) -> None:
    rng = random.Random(seed)
    world = World(Rules(aging_s=1_000.0))
    world.fleet(a=(100, 1))
    world.job("first", 1)
    world.tick(50)
    order: list[tuple[int, float, str, str]] = []
    for number, priority in enumerate(priorities):
        due = float(rng.choice((10, 20, 30)))
        order.append((priority, due, world.job(f"j{number}", 1, priority, due), f"j{number}"))
    placed: list[str] = []
    for at in range(51, 51 + len(order)):
        world.now = float(at)
        world.beat("a")
        world.finish(world.held("a")[0], took=3.0)
        placed.append(world.placed(world.tick()))
    assert placed == [f"{name}>a" for *_, name in sorted(order)]


@_QUICK
@given(st.integers(0, 2**32), st.sampled_from((0.0, 3.0)))
def test_S7_never_more_than_the_share_is_kept_and_each_keeping_ends(seed: int, reserve_after: float) -> None:
    """Once nothing comes any more, all is placed, nothing stays kept, and every agent is free for all."""
    history = History(seed, rules(reserve_after))
    world = history.world
    for at in range(50):
        history.step(float(at), come=True)
        pools = world.lane._fleet.pools  # pyright: ignore[reportPrivateUsage]  # what is kept shows in no event
        for reservation in kept(world):
            knowing = pools.knowing(reservation.strand.kind, reservation.strand.version)
            agents = [agent for pool in knowing for agent in pool.agents.values()]
            assert sum(agent.reserved for agent in agents) <= max(1, int(0.3 * len(agents)))
        reserved = [agent.agent_id for pool in pools.knowing("k", 1) for agent in pool.agents.values() if agent.reserved]
        assert sorted(reserved) == sorted(one.agent.agent_id for one in kept(world))
    history.quiet.clear()
    for name, (capacity, slots) in FLEET.items():  # those that were lost come back as new ones
        if not any(name == agent.name and agent.state == "active" for agent in world.lane._fleet):  # pyright: ignore[reportPrivateUsage]  # as above
            world.join(name, capacity, slots, KINDS[name])
    for at in range(50, 400):
        history.step(float(at), come=False)
        if not history.waiting():
            break
    assert not history.waiting()
    history.step(world.now + 1, come=False)
    assert not kept(world)


@settings(_QUICK, max_examples=5)
@given(st.integers(0, 2**32), st.sampled_from((0.0, 3.0)))
def test_the_same_history_leads_to_the_same_placements(seed: int, reserve_after: float) -> None:
    logs: list[list[str]] = []
    for _ in range(2):
        history = History(seed, rules(reserve_after))
        for at in range(40):
            history.step(float(at), come=at < 30)
        logs.append(history.log)
    assert logs[0] == logs[1]
    assert any(logs[0])
