"""An agent that hears nothing though it must: it reads on by another consumer, and says at once that it may start again."""

from agent_world import World

from jobyard.contracts.reports import Heartbeat


def test_A6_without_an_answer_for_lost_after_it_reads_on_by_another_consumer() -> None:
    world = World().welcome()
    world.acknowledging = False
    world.turn(3_600.0)  # the lease is over; a clock that jumps is no silence
    assert world.notes[-1] == "suspended"
    assert world.rereads == 0
    world.acknowledging = True
    for _ in range(14):
        world.turn(1.0)
    assert world.rereads == 0
    for _ in range(4):
        world.turn(1.0)
    assert world.rereads == 1
    for _ in range(16):
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
