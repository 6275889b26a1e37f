"""Silence: unreachable, lost, and what becomes of the jobs (L10, T4, S12)."""

from lane_world import T0, World, of

from jobyard.contracts.control import Fenced
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


def test_S12_unreachable_keeps_all_and_is_eligible_at_once_when_heard() -> None:
    world = with_job()
    events = world.silent_until(5)
    (changed,) = of(events, happened.AgentChanged)
    assert isinstance(changed, happened.AgentChanged)
    assert changed.state == "unreachable"
    assert world.held("a") == ["j"]
    world.job("k")
    assert world.placed(world.tick(6)) == ""
    world.beat("a")
    assert world.placed(world.tick(7)) == "k>a"


def test_L10_nobody_is_lost_before_reports_are_read_to_their_end() -> None:
    world = with_job()
    world.tick(100)
    assert world.lane.wants_reports_end(T0 + 100)
    assert world.held("a") == ["j"]
    world.batch.reports_read_at = T0 + 14.9  # asked for long ago
    world.tick(101)
    assert world.held("a") == ["j"]
    world.batch.reports_read_at = T0 + 15.0
    world.tick(102)
    assert world.outcomes("j") == ["lost"]
    assert fenced(world) == [("01", "lost")]


def test_L10_reports_come_before_silence() -> None:
    world = with_job()
    world.now = 20.0
    world.finish("j")
    world.batch.reports_read_at = T0 + 20.0
    world.tick()
    assert world.outcomes("j") == ["succeeded"]
    assert fenced(world) == []


def test_L10_heard_is_when_the_report_was_fetched() -> None:
    world = with_job()
    world.say(world.agents["a"], fetched=3.0)
    world.now = 10.0
    world.tick()
    world.silent_until(17.9)
    assert world.held("a") == ["j"]
    world.silent_until(18.0)
    assert world.outcomes("j") == ["lost"]


def test_L10_by_the_lost_after_that_this_agent_was_told() -> None:
    world = with_job()
    for row in world.tables.agents.values():
        row.lost_after_s = 60.0
    world.lead()
    world.silent_until(59.0)
    assert world.held("a") == ["j"]
    world.silent_until(60.0)
    assert world.outcomes("j") == ["lost"]


def test_L10_careful_jobs_are_released_if_they_were_not_started() -> None:
    world = with_job(max_attempts=1)
    world.silent_until(15)
    assert world.outcomes("j") == ["released"]
    assert world.state("j") == State.PENDING


def test_L10_careful_jobs_are_lost_if_they_were_started() -> None:
    world = with_job(max_attempts=1)
    world.started("j")
    world.tick(1)
    world.silent_until(16)
    assert world.outcomes("j") == ["lost"]
    assert world.state("j") == State.FAILED


def test_T4_heard_is_now_after_a_take_over() -> None:
    world = with_job()
    world.now = 100.0
    world.lead()
    world.silent_until(114.9)
    assert world.held("a") == ["j"]
    world.silent_until(115.0)
    assert world.outcomes("j") == ["lost"]


def test_the_lane_wakes_itself_for_silence() -> None:
    world = with_job()
    assert world.lane.next_at(T0 + 1) == T0 + 5.0
    assert not world.lane.wants_reports_end(T0 + 4.9)
    assert world.lane.wants_reports_end(T0 + 5.0)
    world.silent_until(5.0)
    assert world.lane.next_at(T0 + 5.0) == T0 + 15.0
    assert not world.lane.wants_reports_end(T0 + 6.0)


def test_heard_at_is_written_now_and_then() -> None:
    world = World()
    world.join("a")
    heard = 0
    for second in range(1, 21):
        world.now = float(second)
        world.beat("a")
        heard += len(of(world.tick(), happened.AgentsHeard))
    assert heard == 4
