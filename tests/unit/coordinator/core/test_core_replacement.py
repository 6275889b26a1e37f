"""Incarnations that are over: replaced, gone, or unknown (L11, L15, L16, C7, T1)."""

from lane_world import World, of

from jobyard.contracts.control import Fenced
from jobyard.contracts.reports import Finished
from jobyard.contracts.states import State
from jobyard.coordinator.core import events as happened


def with_job(max_attempts: int = 5, agent: str = "a") -> World:
    world = World()
    world.join(agent)
    world.job("j", max_attempts=max_attempts)
    world.tick()
    return world


def fenced(world: World) -> list[tuple[str, str]]:
    return [(out.body.incarnation[-2:], out.body.reason) for out in world.said(Fenced) if isinstance(out.body, Fenced)]


def test_L11_a_new_incarnation_ends_the_old_one() -> None:
    world = with_job()
    world.join("a")
    assert world.outcomes("j") == ["lost"]
    assert fenced(world) == [("01", "replaced")]
    assert world.where("j") == "a"


def test_L11_a_careful_job_waits_for_the_old_ones_own_lease() -> None:
    world = with_job(max_attempts=1)
    old = world.agents["a"]
    world.now = 1.0
    world.join("a")
    assert world.outcomes("j") == []
    world.now = 10.0
    world.say(old)  # whatever the old one says prolongs that
    world.beat("a")
    world.tick()
    world.now = 24.0
    world.beat("a")
    world.silent_until(24.9)
    assert world.outcomes("j") == []
    world.silent_until(25.0)
    assert world.outcomes("j") == ["released"]
    assert world.where("j") == "a"


def test_L11_also_after_a_take_over() -> None:
    world = with_job(max_attempts=1)
    world.join("a")
    world.lead()
    assert world.loaded().picture() == world.lane.picture()
    world.now = 10.0
    world.beat("a")
    world.tick()
    world.silent_until(14.9)
    assert world.outcomes("j") == []
    world.silent_until(15.0)
    assert world.outcomes("j") == ["released"]


def test_L11_a_report_of_the_replaced_one_counts_under_its_fence() -> None:
    world = with_job(max_attempts=1)
    old = world.agents["a"]
    world.join("a")
    world.finish("j", agent=old)
    world.tick(1)
    assert world.state("j") == State.SUCCEEDED


def test_L11_heartbeats_count_for_their_incarnation_not_for_the_name() -> None:
    world = with_job(max_attempts=1)
    world.join("a")
    for second in range(1, 15):
        world.now = float(second)
        world.beat("a")
        world.tick()
    world.silent_until(15.0)
    assert world.outcomes("j") == ["released"]


def test_L11_two_hellos_of_one_name_in_one_tick() -> None:
    world = World()
    first = world.new_incarnation("a")
    second = world.new_incarnation("a")
    world.hello(first)
    world.hello(second)
    world.batch.buckets_ready = [(part, 0) for part in range(5)]
    world.tick()
    assert fenced(world) == [("01", "replaced")]
    assert [row.incarnation for row in world.tables.agents.values() if not row.ended] == [second.incarnation]
    world.hello(first)
    world.tick(1)
    assert fenced(world) == [("01", "replaced")] * 2


def test_L11_hello_of_an_ended_incarnation_is_fenced() -> None:
    world = World()
    old = world.join("a")
    world.join("a")
    world.hello(old)
    world.tick(1)
    assert fenced(world) == [("01", "replaced")] * 2
    assert len(world.tables.agents) == 2


def test_L11_hello_of_one_that_ended_long_ago_ends_nobody() -> None:
    world = World()
    old = world.join("a")
    world.join("a")
    world.now = 2 * 3_600.0
    current = world.agents["a"]
    world.beat("a")
    world.job("j")
    world.tick()
    world.lead()  # the old one is remembered by the tables only
    world.beat("a")
    world.tick(world.now + 1)
    world.sent.clear()
    world.hello(old)
    events = world.tick(world.now + 1)
    assert not of(events, happened.AgentEnded)
    assert not of(events, happened.Ended)
    assert fenced(world) == [("01", "unknown")]
    assert world.bundle("j").incarnation == current.incarnation
    assert world.loaded().picture() == world.lane.picture()


def test_L11_of_two_hellos_in_one_tick_the_one_that_ended_long_ago_ends_nobody() -> None:
    world = World()
    old = world.join("a")
    world.goodbye("a")
    world.tick(1)
    world.now = 2 * 3_600.0
    world.lead()
    new = world.new_incarnation("a")
    world.hello(new)
    world.hello(old)
    world.batch.buckets_ready = [(part, 0) for part in range(5)]
    world.tick()
    assert fenced(world) == [("01", "unknown")]
    assert [row.incarnation for row in world.tables.agents.values() if not row.ended] == [new.incarnation]


def test_L11_a_report_of_the_replaced_one_in_the_same_tick_counts_first() -> None:
    world = with_job()
    old = world.agents["a"]
    new = world.new_incarnation("a")
    world.hello(new)
    world.finish("j", agent=old)
    world.tick(1)
    assert world.state("j") == State.SUCCEEDED
    assert fenced(world) == [("01", "replaced")]


def test_L11_goodbye_of_the_replaced_one_releases_at_once() -> None:
    world = with_job(max_attempts=1)
    old = world.agents["a"]
    world.join("a")
    world.agents["old"] = old
    world.goodbye("old")
    world.tick(1)
    assert world.outcomes("j") == ["released"]


def test_L15_goodbye_releases_what_was_not_started_and_loses_what_runs() -> None:
    world = World()
    world.join("a")
    world.job("j")
    world.job("k")
    world.tick()
    world.started("j")
    world.tick(1)
    world.goodbye("a")
    world.tick(2)
    assert world.outcomes("j") == ["lost"]
    assert world.outcomes("k") == ["released"]
    assert [row.state for row in world.tables.agents.values()] == ["gone"]
    assert world.tables.buckets == {}


def test_L16_whoever_is_not_current_is_told_so_and_its_reports_count() -> None:
    world = with_job()
    fence, end = world.an_end("j")
    world.silent_until(15)
    said = len(fenced(world))
    world.beat("a")
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    world.tick(16)
    assert fenced(world)[said:] == [("01", "lost")]
    assert world.state("j") == State.SUCCEEDED


def test_L16_an_incarnation_that_nobody_knows_is_fenced_as_unknown() -> None:
    world = World()
    world.new_incarnation("ghost")
    world.beat("ghost")
    world.beat("ghost")
    world.tick(1)
    assert fenced(world) == [("01", "unknown")]


def test_C7_fenced_that_was_never_sent_is_sent_by_the_next_leader() -> None:
    world = with_job()
    world.silent_until(15)
    world.sent.clear()
    world.lead()
    assert fenced(world) == [("01", "lost")]


def test_T1_on_a_restored_database_every_incarnation_is_fenced_and_all_it_held_is_lost() -> None:
    world = World()
    world.join("a")
    world.join("b", 100, 10, {"l": 1})
    world.job("plain")
    world.job("careful", kind="l", max_attempts=1)
    world.job("cancelled")
    world.tick(1)
    world.tables.command("cancel", world.ids["cancelled"])
    world.tick(2)
    world.beat("a", epoch=9)
    world.tick(3)
    assert world.lane.outranked_by == 9
    before = world.lane.fence
    world.sent.clear()
    opening = world.lead(at_least=9, fence_all=True)
    assert world.term.epoch == 10
    assert world.lane.fence >= before + 10**9
    assert len(of(opening, happened.AgentEnded)) == 2
    assert not of(opening, happened.Resent)
    assert not of(opening, happened.Welcomed)
    assert sorted(fenced(world)) == [("01", "lost"), ("02", "lost")]
    assert world.outcomes("plain") == world.outcomes("careful") == world.outcomes("cancelled") == ["lost"]
    # the careful one may have been started after the backup was made: it is never started again
    assert [world.state(name) for name in ("plain", "careful", "cancelled")] == [State.PENDING, State.FAILED, State.CANCELLED]
    assert not world.tables.bundles
    assert not world.tables.buckets
    assert world.loaded().picture() == world.lane.picture()
    world.join("c")
    world.tick(4)
    assert world.where("plain") == "c"
    assert not of(world.lead(), happened.AgentEnded)


def test_T1_the_fenced_of_a_restored_database_may_still_report() -> None:
    world = with_job()
    fence, end = world.an_end("j")
    world.lead(at_least=9, fence_all=True)
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    world.tick(1)
    assert world.state("j") == State.SUCCEEDED  # late


def test_T1_those_that_wait_for_the_end_of_a_lease_are_over_too() -> None:
    world = with_job(max_attempts=1)
    world.join("a")
    assert world.outcomes("j") == []
    world.lead(at_least=9, fence_all=True)
    assert world.outcomes("j") == ["lost"]
    assert world.state("j") == State.FAILED
    assert world.loaded().picture() == world.lane.picture()
