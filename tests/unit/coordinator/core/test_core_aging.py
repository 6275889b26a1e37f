"""S3: of every so many placements one goes to whoever has waited longest, and the wait of the least urgent is bounded."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_world import World

from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.events import Event, Placed
from jobyard.coordinator.core.places import Bundle


def made(events: list[Event]) -> Iterator[Bundle]:
    return (event.bundle for event in events if isinstance(event, Placed))


def one_slot(**rules: float) -> World:
    world = World(Rules(**rules))  # type: ignore[arg-type]  # numbers of both kinds
    world.fleet(a=(100, 1))
    return world


def ends_one(world: World, at: float) -> str:
    """What runs on a ends; what is placed then."""
    world.now = at
    for name in world.held("a"):
        world.finish(name, took=0.9)
    return world.placed(world.tick())


def test_S3_example_11_every_tenth_placement_is_the_oldest_ones() -> None:
    world = one_slot()
    world.job("first", priority=0, due=0)
    world.tick(0)
    world.job("old", priority=4, due=0)
    for i in range(39):
        world.job(f"c{i:02}", priority=0, due=30)
    world.beat("a")
    world.tick(30)
    placed = [ends_one(world, float(at)) for at in range(61, 71)]
    assert placed == [*(f"c{i:02}>a" for i in range(8)), "old>a", "c08>a"]
    # and it travels in the bucket of the most urgent, or it would wait behind them once more
    ended = {row.bundle.jobs[0].id: row.bundle for row in world.tables.bundles.values()}
    assert world.attempts("old")
    assert all(bundle.bucket == 0 for bundle in ended.values())


def test_S3_an_aged_job_travels_in_the_critical_bucket_and_says_so() -> None:
    world = one_slot(aging_s=10.0)
    world.job("old", priority=4, due=0)
    world.job("young", priority=4, due=9)
    world.beat("a")
    (bundle,) = made(world.tick(10))
    assert (bundle.bucket, bundle.priority, bundle.reason["rule"]) == (0, 4, "free")
    world.now = 11.0
    world.finish("old")
    (bundle,) = made(world.tick())
    assert bundle.bucket == 4


def test_S3_the_share_begins_anew_when_the_first_in_order_is_the_oldest_anyway() -> None:
    world = one_slot(aging_s=10.0, aged_every=3)
    world.job("a0", priority=0, due=0)
    world.job("z", priority=4, due=5)
    for i in range(6):
        world.job(f"c{i}", priority=0, due=20)
    placed = [world.placed(world.tick(20))]
    placed += [ends_one(world, 21.0 + at) for at in range(5)]
    # a0 came first in order and is the oldest, but the share was not due yet: two of three, then z
    assert placed == ["a0>a", "c0>a", "z>a", "c1>a", "c2>a", "c3>a"]


def test_S3_an_aged_job_without_room_leaves_its_turn_to_the_next_oldest() -> None:
    world = World(Rules(aging_s=10.0, aged_every=2, reserve_after_s=1_000.0))
    world.fleet(a=(10, 4))
    world.job("big", 8, priority=3, due=0)
    world.job("old", 1, priority=4, due=1)
    world.job("f", 5, priority=0, due=20)
    for i in range(3):
        world.job(f"c{i}", priority=0, due=20)
    assert world.placed(world.tick(20)) == "f>a old>a c0>a c1>a"


def test_S3_without_aged_jobs_priority_alone_counts() -> None:
    world = one_slot(aging_s=1_000.0, aged_every=2)
    world.job("low", priority=4, due=0)
    for i in range(8):
        world.job(f"c{i}", priority=0, due=1)
    world.tick(1)
    assert [ends_one(world, 2.0 + at) for at in range(7)] == [f"c{i}>a" for i in range(1, 8)]


def test_S3_S8_an_aged_job_of_a_long_kind_gets_its_slot_among_short_urgent_ones() -> None:
    """They would fill each slot by the window before it is seen free: nothing holds up what is first in order but the share's turn."""
    world = World(Rules(aging_s=10.0))
    world.join("a", 100, 2, {"s": 1, "l": 1})
    came = 0
    old_at = None
    for step in range(200):
        world.now = step / 10
        for name in world.held("a")[:10]:
            if name != "old":
                world.finish(name, took=0.02)
        for _ in range(12):
            came += 1
            world.job(f"s{came:05}", priority=0, kind="s")
        if step == 20:
            world.job("old", priority=4, kind="l")
        world.beat("a")
        if "old>a" in world.placed(world.tick()).split():
            old_at = world.now
            break
    assert old_at is not None
    # 0.5 s of work at 500 a second, by the stamps of its 20 ms jobs, which it ends at 100 a second here
    assert 12.0 <= old_at <= 12.0 + 0.5 * 500 / 100 + 0.1
    assert world.bundle("old").reason["rule"] == "aged"
    assert len(world.held("a")) > 2  # and windows are open again in the same pass


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(1, 4))
def test_S3_the_bound_holds_in_random_histories(seed: int, every: int, slots: int) -> None:
    """Job j is among the first `aged_every` × (n + 1) + `bundle_max` placed from the moment on at which it is aged; n: of those with an earlier (due, id).

    Sizes differ only where all jobs are long: smaller ones that are short go by the window, past a larger one that waits for a slot (S8).
    """
    rng = random.Random(seed)
    rules = Rules(aging_s=20.0, aged_every=every, bundle_max=8)
    sizes, durations = rng.choice((((1, 1, 2), (1.5,)), ((1,), (0.01, 0.4, 1.5)), ((1,), (0.01,))))
    world = World(rules)
    world.fleet(a=(1_000, slots), b=(1_000, slots))
    due: dict[str, tuple[float, str]] = {}
    came: dict[str, float] = {}
    order: list[tuple[float, str]] = []
    count = 0
    for step in range(150):
        now = float(step)
        world.now = now
        for _ in range(rng.choice((0, 1, 2, 3, 3, 4)) if step < 90 else 0):
            count += 1
            name = f"j{count:04}"
            back = rng.choice((0, 0, 0, 5, 25)) if step > 30 else 0
            job_id = world.job(name, rng.choice(sizes), priority=rng.choice((0, 0, 0, 1, 2, 3, 4)), due=now - back, kind="k")
            due[name] = (now - back, job_id)
            came[name] = now
        for agent in ("a", "b"):
            for name in world.held(agent)[: rng.randint(0, slots)]:
                world.finish(name, took=rng.choice(durations))
            world.beat(agent)
        for bundle in made(world.tick()):
            order += [(now, world.names[job.id]) for job in bundle.jobs]
    placed_at = {name: spot for spot, (_, name) in enumerate(order)}
    for name, (at, job_id) in due.items():
        if name not in placed_at:
            continue
        aged_from = max(at + rules.aging_s, came[name])
        if order[placed_at[name]][0] < aged_from:
            continue
        # never released, so what counts is when it became aged, or came, if it was due long before
        since = [one for when, one in order if when >= aged_from]
        earlier = sum(1 for one in since if due[one] < (at, job_id))
        assert since.index(name) < every * (earlier + 1) + rules.bundle_max, (name, since.index(name), earlier)


@pytest.mark.parametrize(
    ("wrong", "named"), [({"aging_s": 0.0}, "aging_s"), ({"aged_every": 1}, "aged_every"), ({"aging_s": float("nan")}, "aging_s")]
)
def test_S3_numbers_that_cannot_be_are_refused(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Rules(**wrong)  # type: ignore[arg-type]  # numbers of both kinds
