"""An agent that hears nothing though it must: it reads on by another consumer, says at once that it may start again, and ends when it was asked to."""

from agent_world import NAME, World

from jobyard.contracts.control import Drain
from jobyard.contracts.reports import Heartbeat, Released


def test_A6_without_an_answer_for_lost_after_it_reads_on_by_another_consumer() -> None:
    world = World().welcome()
    world.acknowledging = False
    world.turn(20.0)  # the lease is over
    assert world.notes[-1] == "suspended"
    assert world.rereads == 1
    world.acknowledging = True
    for _ in range(14):
        world.turn(1.0)
    assert world.rereads == 1
    world.turn(1.0)
    assert world.rereads == 2


def test_A6_while_the_lease_holds_nothing_is_read_anew() -> None:
    world = World().welcome()
    for _ in range(100):
        world.turn(1.0)
    assert world.rereads == 0
    assert "suspended" not in world.notes


def test_A6_confirmed_it_says_at_once_that_it_may_start() -> None:
    world = World().welcome()
    world.acknowledging = False
    world.turn(20.0)
    world.acknowledging = True
    world.turn(0.5)
    (said,) = [say.report for say in world.said[-1:]]
    assert isinstance(said, Heartbeat)
    assert said.suspended
    world.confirm(said.stamp)
    (said,) = [report for report in world.turn(0.1) if isinstance(report, Heartbeat)]
    assert not said.suspended


def test_drain_with_stop_ends_the_agent_when_nothing_runs_any_more() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.begin(world.running[0])
    world.control(Drain(v=1, epoch=1, agent=NAME, incarnation=world.incarnation, stop=True))
    assert any(isinstance(report, Released) for report in world.turn())
    for _ in range(60):
        world.turn(1.0)
    assert world.left is None  # one still runs, for as long as it takes
    world.end(world.running[0])
    for _ in range(3):
        world.turn(0.1)
    assert world.left is not None
    assert world.left.code == 0


def test_drain_without_stop_does_not_end_it_and_resume_takes_stop_back() -> None:
    world = World(slots=1).welcome()
    world.drain()
    for _ in range(5):
        world.turn(1.0)
    assert world.left is None
