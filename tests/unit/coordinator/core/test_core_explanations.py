"""S17: each job answers with what holds it, or where it is and by which rule."""

import msgspec
from lane_world import World

from jobyard.contracts.explanation import Explanation
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.questions import Modes


def why(world: World, name: str) -> Explanation:
    number = world.tables.command("explain", world.ids[name])
    world.tick()
    answer = world.tables.commands[number].answer
    assert answer is not None, "nobody has answered"
    code, text = answer
    assert code is None
    return msgspec.json.decode(text, type=Explanation)


def test_S17_a_job_whose_time_has_not_come() -> None:
    world = World()
    world.submit("later", due=100)
    assert (why(world, "later").why, why(world, "later").run_at) == ("future", 1_000_100.0)


def test_S17_a_kind_or_a_version_that_nobody_knows() -> None:
    world = World()
    world.submit("j", kind="none")
    assert (why(world, "j").why, why(world, "j").highest) == ("no_agent", None)
    world.fleet(a=(10, 10))
    world.job("v", version=3)
    world.tick()
    assert (why(world, "v").why, why(world, "v").highest) == ("no_agent", 1)


def test_S17_agents_that_take_nothing() -> None:
    world = World()
    world.fleet(a=(10, 10))
    world.beat("a", draining=True)
    world.tick()
    world.job("j")
    world.tick()
    found = why(world, "j")
    assert (found.why, found.agents[0].state) == ("none_eligible", "draining")


def test_S17_no_slot_no_room_and_behind() -> None:
    world = World()
    world.fleet(a=(10, 2))
    world.job("f", 6)
    world.tick()
    world.job("big", 8)
    world.job("big2", 8)
    world.tick()
    found = why(world, "big")
    assert (found.why, found.agents[0].agent, found.agents[0].missing) == ("no_room", "a", 4.0)
    found = why(world, "big2")
    assert (found.why, found.ahead, found.first, found.first_waits) == ("behind", 1, world.ids["big"], "no_room")
    world.job("g", 1)
    world.tick()
    world.job("s", 1)
    world.tick()
    assert why(world, "s").why == "no_slot"


def test_S17_an_agent_that_drains_for_it() -> None:
    world = World(Rules(reserve_after_s=0.0))
    world.fleet(a=(10, 10))
    world.job("f", 6)
    world.job("big", 8)
    world.job("s", 1)
    world.tick()
    found = why(world, "big")
    assert (found.why, found.agents[0].reserved) == ("drains_for_it", True)


def test_S17_paused_lanes_and_kinds() -> None:
    world = World()
    world.fleet(a=(10, 10))
    world.tables.modes = Modes(paused=True)
    world.tables.command("pause_lane")
    world.tick()
    world.tick()
    world.job("j")
    assert world.placed(world.tick()) == ""
    assert why(world, "j").why == "lane_paused"
    world.tables.modes = Modes(paused_kinds=frozenset({"k"}))
    world.tables.command("pause_kind")
    world.tick()
    world.tick()
    assert why(world, "j").why == "kind_paused"


def test_S17_a_placed_one_and_one_that_has_ended() -> None:
    world = World()
    world.fleet(a=(10, 10))
    world.job("j")
    world.tick()
    found = why(world, "j")
    assert (found.why, found.agent, found.rule, found.load) == ("placed", "a", "free", 0.0)
    world.started("j")
    assert why(world, "j").why == "running"
    world.finish("j", took=0.5)
    world.tick()
    found = why(world, "j")
    assert (found.why, found.state, found.ends, found.mean_s) == ("ended", "succeeded", 1, 0.5)


def test_S16_what_was_learned_outlives_the_leader() -> None:
    world = World()
    world.fleet(a=(10, 10))
    for i in range(5):
        world.job(f"j{i}")
    world.tick(10)
    for i in range(5):
        world.finish(f"j{i}", took=0.25)
    world.tick(11)
    world.tick(16)
    world.lead()
    world.submit("later", due=100)
    found = why(world, "later")
    assert (found.ends, found.mean_s) == (5, 0.25)
