"""Pauses of lanes and kinds, drains of agents (S15): at once, for what is placed never, and over a take-over."""

from collections.abc import Mapping

from lane_world import World, of

from jobyard.contracts.control import Drain, Resume, Welcome
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as happened
from jobyard.coordinator.core.questions import Modes


def told(
    world: World,
    verb: str,
    *,
    paused: bool = False,
    kinds: frozenset[str] = frozenset(),
    drained: Mapping[str, bool] | None = None,
) -> int:
    """As an operator's transaction leaves it: the modes are written, and a command tells of it."""
    world.tables.modes = Modes(paused, kinds, drained or {})
    return world.tables.command(verb)


def acts(world: World, number: int) -> None:
    """The leader reads the command in one tick, and the modes in the next, with its answer."""
    world.tick()
    assert world.tables.commands[number].answer is None
    world.tick()
    code, _ = world.tables.commands[number].answer or ("none", "")
    assert code is None


def test_S15_a_paused_lane_places_nothing_and_what_is_placed_goes_on() -> None:
    world = World()
    world.join("a", slots=2)
    world.job("one")
    world.tick()
    acts(world, told(world, "pause_lane", paused=True))
    world.job("two")
    world.tick()
    assert (world.state("one"), world.state("two")) == (State.PLACED, State.PENDING)
    world.finish("one")
    world.tick()
    assert (world.state("one"), world.state("two")) == (State.SUCCEEDED, State.PENDING)
    world.lead()
    world.beat("a")
    world.tick()
    assert world.state("two") is State.PENDING
    number = told(world, "resume_lane")
    world.tick()
    events = world.tick()
    assert world.placed(events) == "two>a"  # in the very tick in which it is told
    assert world.tables.commands[number].answer is not None


def test_S15_a_paused_kind_places_nothing_and_holds_up_nobody() -> None:
    world = World()
    world.join("a", slots=3, kinds={"k": 1, "other": 1})
    acts(world, told(world, "pause_kind", kinds=frozenset({"k"})))
    world.job("held", priority=0)
    world.job("goes", kind="other", priority=4)
    assert world.placed(world.tick()) == "goes>a"
    world.lead()
    world.beat("a")
    assert world.placed(world.tick()) == ""
    told(world, "resume_kind")
    world.tick()
    assert world.placed(world.tick()) == "held>a"


def test_S15_S3_an_aged_job_of_a_paused_kind_takes_no_share_of_the_others() -> None:
    world = World()
    world.join("a", slots=100, capacity=100, kinds={"k": 1, "other": 1})
    acts(world, told(world, "pause_kind", kinds=frozenset({"k"})))
    world.job("held", priority=4)
    world.tick()
    world.now = 100.0
    world.beat("a")
    world.tick()
    for n in range(30):
        world.job(f"o{n}", kind="other", priority=0)
    world.tick()
    assert len(world.held("a")) == 30
    assert world.state("held") is State.PENDING


def test_S15_S7_nothing_is_kept_free_for_a_large_job_of_a_paused_kind() -> None:
    world = World()
    world.join("a", capacity=10, slots=10, kinds={"k": 1, "other": 1})
    for n in range(10):
        world.job(f"s{n}", kind="other")
    world.tick()
    world.job("large", size=8)
    world.tick()
    for n in range(10, 13):
        world.job(f"s{n}", kind="other")
    world.now = 40.0
    world.beat("a")
    world.finish("s0")
    world.tick()  # an agent is kept for the large one, which has waited long enough
    acts(world, told(world, "pause_kind", kinds=frozenset({"k"})))
    world.finish("s1")
    world.finish("s2")
    world.tick()
    assert [world.state(f"s{n}") for n in range(10, 13)] == [State.PLACED] * 3


def test_a_drained_agent_gets_nothing_new_from_the_tick_on_in_which_that_is_read_and_is_told_until_it_agrees() -> None:
    world = World()
    world.join("a", slots=5)
    world.job("one")
    world.tick()
    acts(world, told(world, "drain_agent", drained={"a": False}))
    assert len(world.said(Drain)) == 1
    world.job("two")
    world.tick()
    assert (world.held("a"), world.state("two")) == (["one"], State.PENDING)
    world.beat("a")  # it has not heard yet
    world.tick()
    assert len(world.said(Drain)) == 2
    world.beat("a", draining=True)
    world.tick()
    assert len(world.said(Drain)) == 2
    world.finish("one", Outcome.SUCCEEDED)
    world.tick()
    assert world.held("a") == []
    assert world.tables.agents[1].state == "draining"


def test_a_drain_outlives_the_leader_and_the_incarnation_and_ends_with_resume() -> None:
    world = World()
    world.join("a")
    acts(world, told(world, "drain_agent", drained={"a": False}))
    world.lead()
    assert world.lane.picture()["drained"] == {"a": False}
    (again,) = [out.body for out in world.said(Welcome)][-1:]
    assert isinstance(again, Welcome)
    assert again.draining
    world.beat("a")
    world.job("j")
    world.tick()
    assert world.state("j") is State.PENDING
    world.silent_until(20.0)
    assert world.tables.agents[1].state == "lost"
    world.join("a")
    world.tick()
    assert (world.state("j"), world.tables.agents[2].state) == (State.PENDING, "draining")
    told(world, "resume_agent")
    world.tick()
    world.tick()
    assert len(world.said(Resume)) == 1
    world.beat("a", draining=True)  # it has not heard yet
    world.tick()
    assert (len(world.said(Resume)), world.state("j")) == (2, State.PENDING)
    world.beat("a")
    assert world.placed(world.tick()) == "j>a"


def test_a_drain_ends_with_the_agent_s_goodbye_so_that_a_new_process_works() -> None:
    world = World()
    world.join("a")
    acts(world, told(world, "drain_agent", drained={"a": True}))
    (drain,) = [out.body for out in world.said(Drain)]
    assert isinstance(drain, Drain)
    assert drain.stop
    world.beat("a", draining=True)  # says that it drains, but not that it is to end: told again
    world.tick()
    assert len(world.said(Drain)) == 2
    world.goodbye("a")
    events = world.tick()
    assert of(events, happened.DrainEnded)
    assert world.tables.modes.drained == {}
    world.job("j")
    world.join("a")
    world.tick()
    assert world.where("j") == "a"


def test_an_agent_that_leaves_by_itself_is_told_to_resume_and_stays_out() -> None:
    """Its heartbeat says draining on the way out: that is no drain of an operator's, and whatever it is told changes nothing."""
    world = World()
    world.join("a")
    world.beat("a", draining=True)
    world.job("j")
    world.tick()
    assert (world.state("j"), len(world.said(Resume))) == (State.PENDING, 1)


def test_L12_each_repair_is_written_down_once() -> None:
    world = World()
    world.join("a", slots=5)
    world.job("lacking")
    world.tick()
    fence = world.bundle("lacking").fence
    for now in (11.0, 22.0):
        world.now = now
        world.beat("a", held=[(77, world.ids["lacking"])])
        world.tick()
    found = [(one.rule, one.action, one.fence, one.job_ids, one.agent) for one in world.tables.repairs]
    job = world.ids["lacking"]
    assert found == [("L12", "cancelled", 77, [job], "a"), ("L12", "sent_again", fence, [job], "a")]
    assert world.outcomes("lacking") == []  # never requeued by inventory


def test_L17_what_a_lost_topic_makes_doubtful_is_written_down() -> None:
    world = World()
    world.join("a", slots=5)
    world.job("j")
    world.tick()
    world.lead(reports_lost=True)
    assert [(one.rule, one.action, one.job_ids) for one in world.tables.repairs] == [("L17", "marked_started", [world.ids["j"]])]
    assert world.state("j") is State.RUNNING
