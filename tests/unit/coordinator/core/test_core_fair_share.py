"""Fair share: inside a priority submitters take turns, whatever each of them has waiting; what is due longest keeps its share (S3)."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_world import World

from jobyard.contracts.flows import flow_of
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.events import Placed
from jobyard.coordinator.core.questions import Modes


def fair(rules: Rules | None = None) -> World:
    """A lane that shares fairly from its beginning."""
    world = World(rules or Rules())
    world.tables.modes = Modes(fair_share=True)
    world.lead()
    return world


def set_modes(world: World, modes: Modes) -> None:
    """As an operator's transaction leaves it; the leader acts by it in the second tick."""
    world.tables.modes = modes
    world.tables.command("fair_share")
    world.tick()
    world.tick()


def one_by_one(world: World, count: int) -> list[str]:
    """The agent "a" has one slot, and each job ends in the tick after it was placed: the names in the order of their placement."""
    order: list[str] = []
    for name in world.held("a"):
        world.finish(name, took=5.0)
    for _ in range(count):
        events = world.tick(world.now + 1)
        placed = [world.names[job.id] for event in events if isinstance(event, Placed) for job in event.bundle.jobs]
        order += placed
        for name in placed:
            world.finish(name, took=5.0)
    return order


def test_submitters_take_turns_and_each_is_served_by_due_time() -> None:
    world = fair()
    world.join("a", slots=1)
    for n in range(6):
        world.job(f"x{n}", submitter="x")
    for n in range(3):
        world.job(f"y{n}", submitter="y")
    world.job("z0", submitter="z")
    assert one_by_one(world, 10) == ["x0", "y0", "z0", "x1", "y1", "x2", "y2", "x3", "x4", "x5"]


def test_without_fair_share_it_is_due_time_alone() -> None:
    world = World()
    world.join("a", slots=1)
    for n in range(3):
        world.job(f"x{n}", submitter="x")
    world.job("y0", submitter="y")
    assert one_by_one(world, 4) == ["x0", "x1", "x2", "y0"]


def test_a_turn_counts_over_kinds_and_sizes_and_in_each_priority_alone() -> None:
    world = fair()
    world.join("a", slots=1, kinds={"k": 1, "l": 1})
    for n in range(2):
        world.job(f"xk{n}", submitter="x")
        world.job(f"xl{n}", submitter="x", kind="l", size=3)
        world.job(f"y{n}", submitter="y")
    world.job("urgent", submitter="x", priority=1)
    assert one_by_one(world, 7) == ["urgent", "xk0", "y0", "xl0", "y1", "xk1", "xl1"]


def test_who_comes_late_has_the_next_turn_and_no_more() -> None:
    world = fair()
    world.join("a", slots=1)
    for n in range(30):
        world.job(f"x{n:02}", submitter="x")
    assert one_by_one(world, 10) == [f"x{n:02}" for n in range(10)]
    for n in range(4):
        world.job(f"y{n}", submitter="y")
    assert one_by_one(world, 6) == ["y0", "x10", "y1", "x11", "y2", "x12"]


def test_who_could_not_be_served_does_not_make_up_for_it() -> None:
    world = fair()
    world.join("a", slots=1, kinds={"k": 1, "l": 1})
    set_modes(world, Modes(fair_share=True, paused_kinds=frozenset("l")))
    for n in range(5):
        world.job(f"y{n}", submitter="y", kind="l")
    for n in range(20):
        world.job(f"x{n:02}", submitter="x")
    assert one_by_one(world, 10) == [f"x{n:02}" for n in range(10)]
    set_modes(world, Modes(fair_share=True))
    assert one_by_one(world, 6) == ["y0", "y1", "x11", "y2", "x12", "y3"]  # y0 ends a round, y1 begins the next: it was due first


def test_a_bundle_counts_with_all_its_jobs() -> None:
    world = fair()
    world.join("a", slots=4)
    for n in range(24):  # the kind is known to be short, and the agent to be fast
        world.job(f"w{n}")
    for _ in range(10):
        world.tick(world.now + 0.01)
        for name in world.held("a"):
            world.finish(name, took=0.001)
    world.tick(world.now + 0.01)
    for n in range(400):
        world.job(f"x{n:03}", submitter="x")
        world.job(f"y{n:03}", submitter="y")
    served = {"x": 0, "y": 0}
    largest = 0
    for _ in range(12):
        for event in world.tick(world.now + 0.02):
            if isinstance(event, Placed):
                names = {world.names[job.id][0] for job in event.bundle.jobs}
                assert len(names) == 1
                served[names.pop()] += len(event.bundle.jobs)
                largest = max(largest, len(event.bundle.jobs))
                assert abs(served["x"] - served["y"]) <= largest
        for name in world.held("a"):
            world.finish(name, took=0.001)
    assert largest > 1


@pytest.mark.parametrize("way", ["kafka", "sql"])
def test_a_flood_does_not_hide_what_others_have_waiting(way: str) -> None:
    """Memory holds a bounded part of what is due: of each flow some."""
    world = fair(Rules(read_ahead=64))
    assert flow_of("flood") != flow_of("ten")
    for n in range(1_000):
        (world.job if way == "kafka" else world.submit)(f"f{n:04}", submitter="flood")
    world.tick(world.now + 1)
    for n in range(10):
        (world.job if way == "kafka" else world.submit)(f"t{n}", submitter="ten")
    world.tick(world.now + 1)
    assert world.lane.in_memory[0] < 100
    world.join("a", slots=1)
    order = [*world.held("a"), *one_by_one(world, 24)]
    assert [name for name in order if name[0] == "t"] == [f"t{n}" for n in range(10)]
    assert [name for name in order if name[0] == "f"] == [f"f{n:04}" for n in range(len(order) - 10)]


def test_the_setting_changes_what_waits_already_and_a_take_over_knows_it() -> None:
    world = World()
    world.join("a", slots=1)
    for n in range(10):
        world.job(f"x{n}", submitter="x")
    for n in range(4):
        world.job(f"y{n}", submitter="y")
    assert one_by_one(world, 2) == ["x0", "x1"]
    set_modes(world, Modes(fair_share=True))
    code, _ = next(iter(world.tables.commands.values())).answer or ("none", "")
    assert code is None
    world.finish("x2", took=5.0)
    assert one_by_one(world, 3) == ["x3", "y0", "x4"]
    assert world.loaded().picture() == world.lane.picture()
    world.lead()
    world.beat("a")
    assert one_by_one(world, 6) == ["x5", "y1", "x6", "y2", "x7", "y3"]
    set_modes(world, Modes())
    assert world.loaded().picture() == world.lane.picture()
    assert all(row.flow == 0 for row in world.tables.pending.values())  # they came before the lane shared fairly


def test_what_has_waited_longest_keeps_its_share() -> None:
    """S3: one of every `aged_every`, whoever's turn it is."""
    world = fair(Rules(aging_s=10.0, aged_every=4))
    world.join("a", slots=1)
    for n in range(5):
        world.job(f"old{n}", submitter="x", priority=4)
    world.now = 20.0
    for n in range(30):
        world.job(f"u{n:02}", submitter="y", priority=0)
    order = one_by_one(world, 20)
    places = [order.index(f"old{n}") for n in range(4)]
    assert all(after - before == 4 for before, after in pairwise(places))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("wxyz"), st.integers(1, 12)), min_size=2, max_size=12))
def test_while_two_wait_neither_is_served_two_jobs_more_than_the_other(came: list[tuple[str, int]]) -> None:
    world = fair(Rules(aging_s=1e6))
    world.join("a", slots=1)
    left: dict[str, int] = {}
    for number, (who, count) in enumerate(came):
        for n in range(count):
            world.job(f"{who}{number:02}{n:02}", submitter=who)
        left[who] = left.get(who, 0) + count
    served = dict.fromkeys(left, 0)
    for name in one_by_one(world, sum(left.values())):
        served[name[0]] += 1
        waiting = [served[who] for who in left if served[who] < left[who]]
        assert max(waiting, default=0) - min(waiting, default=0) <= 1
    assert served == left
