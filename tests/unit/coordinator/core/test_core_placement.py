"""The rules of placement, and the worked examples of the scheduling rules that need neither aging, nor reservations, nor limits."""

import pytest
from lane_world import World, of

from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core.books.durations import size_class
from jobyard.coordinator.core.events import Placed
from jobyard.coordinator.core.places import Bundle


def bundles(events: list[object]) -> list[Bundle]:
    return [event.bundle for event in events if isinstance(event, Placed)]


def place(world: World, *jobs: tuple[str, float], at: float = 0.0) -> str:
    for name, size in jobs:
        world.job(name, size, due=at)
    return world.placed(world.tick(at))


def test_example_01_least_load_and_ties_by_number() -> None:
    world = World()
    world.fleet(a=(100, 10), b=(100, 10))
    assert place(world, ("j1", 60), ("j2", 30), ("j3", 30)) == "j1>a j2>b j3>b"


def test_example_02_load_is_a_fraction() -> None:
    world = World()
    world.fleet(a=(4, 4), b=(64, 64))
    assert place(world, *((f"j{i}", 1.0) for i in range(6))) == "j0>a j1>b j2>b j3>b j4>b j5>b"


def test_example_03_slots_bound_jobs() -> None:
    world = World()
    world.fleet(a=(100, 2))
    assert place(world, ("j1", 1), ("j2", 1), ("j3", 1)) == "j1>a j2>a"
    world.finish("j1")
    assert world.placed(world.tick(1)) == "j3>a"


def test_example_05_another_size_class_passes() -> None:
    world = World()
    world.fleet(a=(100, 10))
    assert place(world, ("j1", 60), ("j2", 60), ("j3", 10)) == "j1>a j3>a"


def test_example_08_not_oversized_while_a_larger_agent_is_full() -> None:
    world = World()
    world.fleet(b=(100, 4))
    place(world, ("x", 100))
    world.fleet(a=(40, 4))
    assert place(world, ("j", 60)) == ""
    world.finish("x")
    assert world.placed(world.tick(1)) == "j>b"


def test_example_09_oversized_goes_to_the_roomiest() -> None:
    world = World()
    world.fleet(a=(40, 4))
    place(world, ("f", 20))
    world.fleet(b=(60, 4))
    assert place(world, ("big", 100)) == "big>b"


def test_example_10_priority_first() -> None:
    world = World()
    world.fleet(a=(100, 10))
    for name, priority in (("low", 3), ("high", 1), ("medium", 2)):
        world.job(name, priority=priority)
    assert world.placed(world.tick()) == "high>a medium>a low>a"


def test_example_12_an_unknown_kind_blocks_nobody() -> None:
    world = World()
    world.fleet(a=(100, 10))
    for i in range(20):
        world.job(f"n{i}", kind="none")
    world.job("j")
    assert world.placed(world.tick()) == "j>a"


def fourteen() -> World:
    world = World()
    world.fleet(a=(100, 10))
    place(world, ("j1", 60))
    world.fleet(b=(100, 10))
    place(world, ("j2", 20))
    assert world.where("j2") == "b"
    world.now = 5.0
    world.beat("a")
    world.silent_until(5.0)
    assert place(world, ("j3", 40), at=5.0) == "j3>a"
    world.now = 7.0
    world.beat("b")
    world.job("j4", 10)
    assert world.placed(world.tick()) == "j4>b"
    assert world.held("a") == ["j1", "j3"]
    return world


def test_example_14_unreachable_gets_nothing_and_keeps_what_it_holds() -> None:
    world = fourteen()
    assert world.held("b") == ["j2", "j4"]


def test_example_15_lost_work_waits_in_its_old_place() -> None:
    world = fourteen()
    world.now = 20.0
    world.beat("b")
    assert world.placed(world.silent_until(22.0)) == "j1>b"
    assert world.held("b") == ["j1", "j2", "j4"]
    assert world.outcomes("j3") == ["lost"]
    assert world.state("j3") == "pending"


def test_example_16_new_capacity_takes_waiting_work_and_moves_nothing() -> None:
    world = World()
    world.fleet(a=(100, 100))
    assert place(world, ("f", 100), ("q1", 50), ("q2", 50), ("q3", 50)) == "f>a"
    agent = world.new_incarnation("d", 100, 100)
    world.hello(agent)
    world.batch.buckets_ready = [(part, 0) for part in range(5, 10)]
    assert world.placed(world.tick(1)) == "q1>d q2>d"
    assert world.held("a") == ["f"]


def seventeen() -> World:
    world = World()
    world.fleet(a=(4, 4))
    for i in range(400):
        world.job(f"j{i:03}", due=0)
    assert len(bundles(list(world.tick()))) == 4
    return world


def test_example_17_without_history_free_slots_only() -> None:
    assert len(seventeen().held("a")) == 4


def eighteen() -> World:
    world = seventeen()
    for step in range(1, 6):
        world.now = step * 0.1
        for name in world.held("a")[:4]:
            world.finish(name, took=0.1)
        world.tick()
    return world


def test_example_18_a_known_short_kind_gets_a_window() -> None:
    world = eighteen()
    assert len(world.held("a")) == 4 + 20  # 20 ends in 0.5 s of busy time are 40 a second; the window is half a second


def test_example_19_released_work_does_not_come_back_at_once() -> None:
    world = eighteen()
    world.now = 3.0
    world.release(*world.held("a")[4:])
    assert world.placed(world.tick()) == ""
    assert len(world.held("a")) == 4


def test_example_22_no_window_while_a_long_kind_waits_for_a_slot() -> None:
    world = World()
    world.join("a", 16, 16, {"K": 1, "L": 1})
    for step in range(4):
        for i in range(16):
            world.job(f"k{step}{i:02}", kind="K", due=step * 0.1)
        world.tick(step * 0.1)
        world.now = step * 0.1 + 0.01
        world.finish_all("a", 0.01)
        world.tick()
    for i in range(16):
        world.job(f"l{i:02}", kind="L", due=1.0)
    world.tick(1.0)
    world.job("x", kind="K", due=1.0)
    assert world.placed(world.tick()) == "x>a"
    world.job("L", kind="L", due=1.0)
    world.job("M", kind="K", due=1.0)
    assert world.placed(world.tick()) == ""
    world.now = 2.0
    world.finish("l00", took=1.0)
    world.finish("l01", took=1.0)
    assert world.placed(world.tick()) == "L>a M>a"


def test_S2_order_is_due_time_then_id() -> None:
    world = World()
    world.fleet(a=(100, 10))
    world.job("late", due=-1)
    world.job("early", due=-2)
    world.job("same", due=-2)
    assert world.placed(world.tick()) == "early>a same>a late>a"


def test_S4_nobody_passes_inside_a_strand() -> None:
    world = World()
    world.fleet(a=(10, 10))
    assert place(world, ("f", 4), ("seven", 7), ("five", 5)) == "f>a"  # five would fit, but stands behind seven


def test_S5_draining_agents_get_nothing() -> None:
    world = World()
    world.fleet(a=(10, 10))
    world.beat("a", draining=True)
    world.tick()
    assert place(world, ("j", 1)) == ""
    world.beat("a")
    assert world.placed(world.tick(1)) == "j>a"


def test_S5_what_runs_from_earlier_incarnations_counts_as_held() -> None:
    world = World()
    world.fleet(a=(10, 10))
    world.beat("a", others=(1, 8.0))
    world.tick()
    assert place(world, ("j", 4)) == ""
    world.beat("a")
    assert world.placed(world.tick(1)) == "j>a"


def test_S5_a_job_goes_only_to_handlers_of_its_version_or_a_later_one() -> None:
    world = World()
    world.join("old", kinds={"k": 1})
    world.job("j", version=2)
    assert world.placed(world.tick()) == ""
    agent = world.new_incarnation("new", kinds={"k": 3})
    world.hello(agent)
    world.batch.buckets_ready = [(part, 0) for part in range(5, 10)]
    assert world.placed(world.tick()) == "j>new"


def test_S5_an_agent_without_a_lease_gets_nothing_until_it_has_one_again() -> None:
    """It says so in its heartbeats, and starts nothing (A6)."""
    world = World()
    world.fleet(a=(10, 10), b=(10, 10))
    world.beat("a", suspended=True)
    world.tick()
    assert place(world, ("j1", 1), ("j2", 1)) == "j1>b j2>b"
    world.beat("a")
    world.job("j3")
    assert world.placed(world.tick(1)) == "j3>a"


def test_S9_what_was_given_back_goes_elsewhere_first() -> None:
    """Whatever keeps an idle agent from starting jobs, it doesn't get the same ones again and again."""
    world = World()
    world.fleet(a=(10, 10), b=(10, 10))
    assert place(world, ("f", 1), ("g", 1), ("j", 1)) == "f>a g>b j>a"
    world.release("f", "j")
    assert world.placed(world.tick(2)) == "f>b j>b"
    for name in "hi":
        world.job(name)
    assert world.placed(world.tick()) == "h>b i>b"
    world.job("k", 8)
    assert world.placed(world.tick()) == "k>a"  # where nobody else has room
    world.finish("k")
    world.job("l")
    assert world.placed(world.tick(3)) == "l>a"


def test_S6_oversized_drains_and_runs_alone() -> None:
    world = World()
    world.fleet(a=(50, 10))
    place(world, ("x", 10))
    world.job("big", 100)
    assert world.placed(world.tick(1)) == ""
    world.finish("x")
    assert world.placed(world.tick(2)) == "big>a"
    assert world.bundle("big").reason["rule"] == "oversized"
    assert place(world, ("y", 10), at=3.0) == ""
    world.finish("big")
    assert world.placed(world.tick(4)) == "y>a"


def short_kind(world: World, agent: str = "a") -> None:
    """Make the kind known as short, and the agent as fast."""
    for step in range(3):
        for i in range(10):
            world.job(f"w{step}{i}")
        world.tick(step * 0.01)
        world.now = step * 0.01 + 0.001
        world.finish_all(agent, 0.001)
        world.tick()


def test_S11_short_jobs_travel_in_bundles() -> None:
    world = World()
    world.fleet(a=(100, 10))
    short_kind(world)
    for i in range(100):
        world.job(f"j{i:03}")
    made = bundles(list(world.tick(1.0)))
    assert max(len(bundle.jobs) for bundle in made) > 10
    assert all(bundle.fence for bundle in made)


def test_S11_a_bundle_is_cut_at_the_size_of_a_message() -> None:
    world = World(Rules(batch_bytes=10_000))
    world.fleet(a=(100, 10))
    short_kind(world)
    for i in range(10):
        world.job(f"j{i}", args=b'{"x": "' + b"y" * 3_000 + b'"}')
    world.job("giant", args=b'{"x": "' + b"y" * 20_000 + b'"}')
    made = bundles(list(world.tick(1.0)))
    assert [len(bundle.jobs) for bundle in made] == [2, 2, 2, 2, 2, 1]


def test_S16_a_kind_is_known_after_trust_ends_and_long_ones_get_no_window() -> None:
    world = World()
    world.fleet(a=(4, 4))
    for i in range(60):
        world.job(f"j{i:02}", due=0)
    world.tick()
    for step in range(1, 9):
        world.now = step * 2.0
        world.finish_all("a", 1.9)
        world.tick()
    assert len(world.held("a")) == 4


@pytest.mark.parametrize(("size", "expected"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (0.5, -1), (0.3, -1), (64, 6)])
def test_S16_size_classes_are_powers_of_two(size: float, expected: int) -> None:
    assert size_class(size) == expected


def test_S17_a_placement_keeps_its_reason() -> None:
    world = World()
    world.fleet(a=(100, 10), b=(100, 10))
    place(world, ("j1", 60), ("j2", 30))
    assert world.bundle("j1").reason == {"rule": "free", "room": 2, "load": 0.0, "next": 0.0}
    assert world.bundle("j2").reason == {"rule": "free", "room": 2, "load": 0.0, "next": 0.6}


def test_the_last_allowed_attempt_is_careful() -> None:
    world = World()
    world.fleet(a=(100, 10))
    world.job("once", max_attempts=1)
    world.job("twice", max_attempts=2)
    world.tick()
    assert world.bundle("once").careful == [True]
    assert world.bundle("twice").careful == [False]
    world.finish("twice", Outcome.FAILED, delay_s=0.0)
    world.tick(1)
    world.tick(1.1)
    assert world.bundle("twice").careful == [True]
    assert world.bundle("twice").attempts == [2]


def test_a_bundle_goes_to_the_bucket_of_its_priority() -> None:
    world = World()
    world.fleet(a=(100, 10))
    world.job("j", priority=3)
    world.tick()
    (message,) = world.said(BundleMessage)
    assert (message.where, message.partition) == ("buckets", 3)


def test_an_oversized_job_never_hides_behind_a_fitting_one_in_a_bundle() -> None:
    world = World()
    world.fleet(a=(6, 10), b=(8, 10))
    for step in range(3):
        for i in range(20):
            world.job(f"w{step}{i}", 5, due=step * 0.1)
        for _ in range(20):
            world.tick(world.now + 0.002)
            world.finish_all("a", 0.001)
            world.finish_all("b", 0.001)
            world.tick(world.now + 0.001)
    for i in range(20):
        world.job(f"j{i:02}", 8 if i % 2 else 5)
    events = world.tick(world.now + 0.01)
    assert of(events, Placed)
    for bundle in bundles(list(events)):
        capacity = 6 if bundle.incarnation == world.agents["a"].incarnation else 8
        assert all(job.size <= capacity for job in bundle.jobs)


@pytest.mark.parametrize("took", [0.01, 0.05, 0.25])
def test_L6_what_an_agent_may_hold_beyond_its_slots_is_what_it_ends_within_the_window(took: float) -> None:
    """S8: at its own rate, and by no means more, however much waits."""
    world = World()
    world.join("a", 1_000, 4)
    for number in range(1_000):
        world.job(f"j{number}", due=0)
    world.tick()
    most = 0
    for step in range(1, 120):
        world.now = step * took
        for name in world.held("a")[:4]:  # four run at a time
            world.finish(name, took=took)
        world.tick()
        most = max(most, len(world.held("a")))
    assert 4 < most <= 4 + 4 * 0.5 / took + 1
    for later in range(10):  # it ends nothing more, so it gets nothing more
        before = len(world.held("a"))
        world.beat("a")
        world.tick(world.now + later)
        assert len(world.held("a")) == before


def test_L6_without_a_rate_slots_are_all() -> None:
    world = World()
    world.join("a", 1_000, 4)
    for number in range(50):
        world.job(f"j{number}", due=0)
    world.tick()
    world.tick(1)
    assert len(world.held("a")) == 4
