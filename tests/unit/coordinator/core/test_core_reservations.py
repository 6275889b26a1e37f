"""S7: while a large job waits, smaller ones leave gaps for it, and pass it only for so long."""

import pytest
from lane_world import World

from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.questions import Modes


def place(world: World, *jobs: tuple[str, float], at: float = 0.0) -> str:
    for name, size in jobs:
        world.job(name, size, due=at)
    return world.placed(world.tick(at))


def reason(world: World, name: str) -> object:
    return world.bundle(name).reason["rule"]


def strict() -> World:
    return World(Rules(reserve_after_s=0.0))


def test_S7_example_04_what_comes_later_is_packed() -> None:
    world = World()
    world.fleet(a=(100, 10), b=(100, 10))
    assert place(world, ("x", 60), ("y", 60)) == "x>a y>b"
    assert place(world, ("big", 100), ("s", 30)) == "s>b"
    assert reason(world, "s") == "packed"
    world.finish("x")
    assert world.placed(world.tick(1)) == "big>a"


def test_S7_example_06_strict_order_reserves_at_once() -> None:
    world = strict()
    world.fleet(a=(100, 10))
    assert place(world, ("j1", 60), ("j2", 60), ("j3", 10)) == "j1>a"
    world.finish("j1")
    assert world.placed(world.tick(1)) == "j2>a j3>a"
    assert reason(world, "j2") in ("free", "reserved")


def test_S7_example_07_an_oversized_job_gets_its_empty_agent() -> None:
    world = strict()
    world.fleet(a=(50, 10))
    place(world, ("x", 10))
    assert place(world, ("big", 100), ("y", 10)) == ""
    world.finish("x")
    assert world.placed(world.tick(1)) == "big>a"
    world.finish("big")
    assert world.placed(world.tick(2)) == "y>a"


def test_S7_example_20_small_jobs_leave_the_emptier_agent_alone() -> None:
    world = World()
    world.fleet(a=(10, 10), b=(10, 10))
    place(world, *((f"x{i}", 1.0) for i in range(8)))
    assert place(world, ("big", 8), ("s1", 1), ("s2", 1)) == "s1>b s2>b"


def twenty_one() -> World:
    """An agent full of small jobs; z=4 waits, and each second one small job ends and a new one comes."""
    world = World()
    world.fleet(a=(4, 4))
    place(world, *((f"s{i}", 1.0) for i in range(4)))
    world.job("z", 4, due=0)
    world.tick(0)
    return world


def second(world: World, at: int) -> str:
    world.now = float(at)
    world.beat("a")
    world.finish(world.held("a")[0], took=1.0)
    world.job(f"n{at:02}", due=at)
    return world.placed(world.tick())


def test_S7_example_21_small_jobs_pass_for_reserve_after_and_no_longer() -> None:
    world = twenty_one()
    assert [second(world, at) for at in range(1, 30)] == [f"n{at:02}>a" for at in range(1, 30)]
    assert [second(world, at) for at in range(30, 34)] == ["", "", "", "z>a"]
    assert reason(world, "z") == "reserved"


def test_S7_higher_priorities_use_a_reserved_agent_until_its_job_is_aged() -> None:
    world = twenty_one()
    for at in range(1, 31):
        second(world, at)
    world.job("urgent", priority=1, due=30)
    world.job("peer", priority=2, due=30)
    assert world.placed(world.tick()) == "urgent>a"
    world.now = 60.0
    world.beat("a")
    world.finish("urgent", took=1.0)
    world.job("urgent2", priority=1, due=60)
    assert world.placed(world.tick()) == ""


def test_S7_a_reserved_job_goes_elsewhere_if_that_comes_first() -> None:
    world = twenty_one()
    for at in range(1, 31):
        second(world, at)
    agent = world.new_incarnation("b", 4, 4)
    world.hello(agent)
    world.batch.buckets_ready = [(part, 0) for part in range(5, 10)]
    placed = world.placed(world.tick()).split()
    assert placed[0] == "z>b"
    assert all(one.endswith(">a") for one in placed[1:])  # and a is free for all again
    assert placed[1:]


def test_S7_a_reservation_ends_with_its_job() -> None:
    world = twenty_one()
    for at in range(1, 32):
        second(world, at)
    assert len(world.held("a")) == 2
    world.tables.command("cancel", world.ids["z"])
    placed = world.placed(world.tick()) + world.placed(world.tick())
    assert placed == "n30>a n31>a"


@pytest.mark.parametrize("how", ["unreachable", "draining"])
def test_S7_a_reservation_ends_with_its_agent(how: str) -> None:
    """Then another one is kept, though no more than one of the two may be at a time."""
    world = World()
    world.fleet(a=(4, 4), b=(4, 4))
    assert place(world, *((f"x{i}", 1.0) for i in range(8))) == "x0>a x1>b x2>a x3>b x4>a x5>b x6>a x7>b"
    world.job("z", 4, due=0)
    for at in (10.0, 20.0, 30.0):
        world.beat("a")
        world.beat("b")
        world.tick(at)
    world.finish("x1", took=1.0)
    world.job("n1", due=30)
    assert world.placed(world.tick()) == ""  # b is kept
    world.now = 36.0
    world.beat("a")
    if how == "draining":
        world.beat("b", draining=True)
    world.silent_until(36.0)
    world.finish("x0", took=1.0)
    assert world.placed(world.tick()) == ""  # and now a is: n1 would have gone there
    for name in ("x2", "x4", "x6"):
        world.finish(name, took=1.0)
    assert world.placed(world.tick()) == "z>a"
    world.beat("b")
    assert world.placed(world.tick()) == "n1>b"


def test_S7_no_more_than_a_share_of_the_agents_is_reserved() -> None:
    world = World(Rules(reserve_after_s=0.0, reserved_share=0.25))
    for name in "abcdefgh":
        world.join(name, 8, 8)
    place(world, *((f"x{i}", 6.0) for i in range(8)))
    for priority in range(5):
        world.job(f"big{priority}", 8, priority=priority, due=0)
    for i in range(16):
        world.job(f"s{i:02}", 1, priority=4, due=1)
    placed = world.placed(world.tick(1)).split()
    used = {one[-1] for one in placed}
    assert len(placed) == 12  # two of eight are kept; six take two more each
    assert len(used) == 6


def kept_for_z() -> World:
    """Agent a has one slot free of four, and is kept for z=4 of kind k; s=1 of kind m waits for it to be free again."""
    world = World(Rules(reserve_after_s=1.0))
    world.join("a", 4, 4, {"k": 1, "m": 1})
    place(world, *((f"x{i}", 1.0) for i in range(3)))
    world.job("z", 4, priority=1, due=1)
    world.tick(1)
    world.now = 3.0
    world.beat("a")
    world.job("s", kind="m", priority=2, due=3)
    assert world.placed(world.tick()) == ""
    return world


def test_S7_who_sat_out_for_a_kept_agent_goes_there_in_the_pass_that_frees_it() -> None:
    """Or it would wait beside free slots until something else ends, which may take hours."""
    world = kept_for_z()
    world.job("y", kind="m", priority=1, due=0.5)  # first in order, so it sits out before z is asked
    assert world.placed(world.tick()) == ""
    agent = world.new_incarnation("b", 4, 4)
    world.hello(agent)
    world.batch.buckets_ready = [(part, 0) for part in range(5, 10)]
    assert world.placed(world.tick()) == "z>b y>a"
    world.finish("x0")
    assert world.placed(world.tick()) == "s>a"


def test_S7_S15_a_kept_agent_is_free_at_once_when_the_kind_is_paused() -> None:
    world = kept_for_z()
    world.tables.modes = Modes(False, frozenset({"k"}), {})
    world.tables.command("pause_kind")
    assert world.placed(world.tick()) + world.placed(world.tick()) == "s>a"


def test_S7_when_agents_leave_fewer_are_kept() -> None:
    """Two of eight are a quarter; of four, one is."""
    world = World(Rules(reserve_after_s=0.0, reserved_share=0.25))
    for name in "abcdefgh":
        world.join(name, 8, 8)
    place(world, *((f"x{i}", 6.0) for i in range(8)))
    world.job("big0", 8, priority=0, due=0)
    world.job("big1", 8, priority=1, due=0)
    for i in range(30):
        world.job(f"s{i:02}", 1, priority=4, due=1)
    placed = world.placed(world.tick(1)).split()
    kept = sorted(set("abcdefgh") - {one[-1] for one in placed})
    assert len(kept) == 2
    for name in [one for one in "abcdefgh" if one not in kept][:4]:
        world.goodbye(name)
    placed = world.placed(world.tick(2)).split()
    assert {one[-1] for one in placed} & set(kept) == {kept[1]}  # the one that was kept first is kept still
