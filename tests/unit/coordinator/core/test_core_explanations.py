"""S17: each job answers with what holds it, or where it is and by which rule."""

import msgspec
from lane_world import T0, World, of

from jobyard.contracts.explanation import Explanation
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core.events import Learned
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


def test_S17_an_agent_that_is_kept_for_another() -> None:
    world = World(Rules(reserve_after_s=0.0))
    world.fleet(a=(10, 10))
    world.job("f", 6)
    world.job("big", 8)
    world.job("s", 1)
    world.tick()
    found = why(world, "s")
    assert (found.why, found.earlier, found.agents[0].reserved) == ("kept_for_another", 1, True)
    world.job("urgent", 5, priority=0)
    world.tick()
    assert why(world, "urgent").why == "no_room"  # a more urgent one may use it, but doesn't fit


def test_S6_S17_a_job_larger_than_all_agents() -> None:
    world = World()
    world.fleet(a=(10, 10), b=(20, 10))
    world.job("f", 15)
    world.job("g", 8)
    world.tick()
    world.job("giant", 50)
    world.tick()
    found = why(world, "giant")
    assert (found.why, found.largest, found.knowing) == ("no_room", 20.0, 2)


def test_S2_S17_how_many_come_before_it() -> None:
    world = World()
    world.fleet(a=(10, 1))
    world.job("f")
    world.tick()
    world.job("low", priority=3, due=-50)
    for name in ("m1", "m2"):
        world.job(name)
    world.job("larger", 2, due=-10)
    world.tick()
    found = why(world, "m2")
    assert (found.ahead, found.earlier, found.first) == (1, 2, world.ids["m1"])
    found = why(world, "low")
    assert (found.why, found.ahead, found.earlier) == ("no_slot", 0, 3)


def test_S17_agents_that_hold_no_lease_or_were_not_heard_from_say_so() -> None:
    world = World()
    world.fleet(a=(10, 10))
    world.beat("a", suspended=True)
    world.tick()
    world.job("j")
    world.tick()
    found = why(world, "j")
    assert (found.why, found.agents[0].state) == ("none_eligible", "suspended")
    world.lead()
    found = why(world, "j")
    assert (found.why, found.agents[0].state) == ("none_eligible", "not heard from yet")


def test_S17_a_job_that_memory_has_no_room_for() -> None:
    world = World(Rules(read_ahead=1))
    world.fleet(a=(10, 1))
    world.job("f", 10)
    world.tick()
    world.job("first")
    world.tick()
    world.finish("f", Outcome.FAILED, delay_s=0.0)  # due again at once, while nothing of its size class stands in memory
    assert why(world, "f").why == "unread"
    world.job("second")
    world.tick()
    assert why(world, "second").why == "unread"


def test_S17_who_asks_much_is_answered_by_and_by_and_the_lane_goes_on_ticking() -> None:
    world = World()
    world.fleet(a=(10, 1))
    world.job("j")
    world.tick()
    numbers = [world.tables.command("explain", world.ids["j"]) for _ in range(45)]

    def answered() -> int:
        return sum(1 for number in numbers if world.tables.commands[number].answer is not None)

    for so_many, left in ((20, True), (40, True), (45, False)):
        world.tick()
        assert (answered(), world.lane.busy) == (so_many, left)
        assert (world.lane.next_at(T0 + world.now) == T0 + world.now) is left


def test_S17_explaining_changes_nothing() -> None:
    world = World(Rules(reserve_after_s=0.0))
    world.fleet(a=(10, 10))
    for name, size in (("f", 6), ("big", 8), ("s", 1)):
        world.job(name, size)
    world.submit("later", due=100, kind="never met")
    world.tick()
    before = world.lane.picture()
    for name in world.ids:
        number = world.tables.command("explain", world.ids[name])
        events = world.tick()
        assert [type(event).__name__ for event in events] == ["Answered"]
        assert world.tables.commands[number].answer is not None
    assert world.lane.picture() == before


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


def test_S16_a_take_over_loses_only_what_was_learned_since_it_was_last_written() -> None:
    rules = Rules()
    world = World(rules)
    world.fleet(a=(10, 10))
    learned: list[int] = []
    for second in range(1, 14):
        for i in range(3):
            world.job(f"{second}.{i}")
        world.tick(float(second))
        for i in range(3):
            world.finish(f"{second}.{i}", took=0.25)
        world.tick()
        learned.append(3 * second)
        known = world.loaded()
        kept = sum(mean.ends for mean in world.store.snapshot().durations)
        unwritten = int(rules.learned_every_s)
        assert learned[-1] - 3 * unwritten <= kept <= learned[-1]
        assert known.picture() == world.lane.picture()
    world.lead()
    world.submit("later", due=1000)
    found = why(world, "later")
    assert found.mean_s == 0.25
    assert learned[-1] - 15 <= found.ends < learned[-1]  # the last few seconds' are not known


def test_S16_what_was_learned_is_written_seldom_and_an_idle_lane_writes_nothing() -> None:
    world = World()
    world.fleet(a=(10, 10))
    written = 0
    for tick in range(1, 2001):  # 20 s of ticks
        world.job(f"j{tick}")
        world.tick(tick / 100)
        world.finish(f"j{tick}", took=0.001)
        written += len(of(world.tick(), Learned))
    assert written <= 5
    world.tick(30.0)
    assert of(world.tick(60.0), Learned) == []
