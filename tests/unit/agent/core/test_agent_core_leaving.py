"""The ends of an incarnation: A11, A12."""

import pytest
from agent_world import World

from jobyard.contracts.reports import Finished, Goodbye, Heartbeat, Hello, Released
from jobyard.contracts.states import Outcome

INTERRUPTED = Outcome.INTERRUPTED


def goodbyes(world: World) -> int:
    return len(world.reports(Goodbye))


def test_A11_sigterm_gives_back_what_is_unstarted_and_what_still_comes() -> None:
    """A bundle that was sent before the leader knew: it need not wait for the end of what runs."""
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.agent.terminate(world.now, 25.0)
    world.turn()
    assert world.released() == [(1, "job-2")]
    world.bundle(2, [3])
    world.turn()
    assert world.released() == [(1, "job-2"), (2, "job-3")]
    assert world.names() == ["job-1"]
    assert goodbyes(world) == 0
    world.end(world.running[0])
    world.turn()
    assert world.ends() == [(1, "job-1", Outcome.SUCCEEDED)]
    assert world.names() == ["job-1"]
    world.run_on(2)
    assert isinstance(world.said[-1].report, Goodbye)


def test_A11_what_comes_while_the_last_reports_are_on_their_way_is_given_back_before_goodbye() -> None:
    world = World(acknowledging=False).welcome()
    world.acknowledge()
    world.agent.terminate(world.now, 25.0)
    world.turn()
    world.bundle(1, [1])
    world.turn(0.1)
    assert (world.released(), goodbyes(world)) == ([(1, "job-1")], 0)
    for _ in range(3):
        world.acknowledge()
        world.turn(0.1)
    assert isinstance(world.said[-1].report, Goodbye)


def test_A11_what_comes_after_goodbye_is_the_leaders() -> None:
    world = World().welcome()
    world.agent.terminate(world.now, 25.0)
    world.run_on(1)
    assert goodbyes(world) == 1
    world.bundle(1, [1])
    world.run_on(1)
    assert world.released() == []
    assert isinstance(world.said[-1].report, Goodbye)


@pytest.mark.parametrize("how", ["told to end", "drained"])
def test_A11_that_nothing_new_is_taken_is_said_before_anything_comes_back(how: str) -> None:
    """Even while a heartbeat is on its way. Else the leader would place here again what was given back, and it would wait for goodbye."""
    world = World(slots=1, acknowledging=False).welcome()
    world.bundle(1, [1, 2])
    world.turn(1.0)
    assert not world.turn()  # a heartbeat is on its way, the next one is not due
    if how == "drained":
        world.drain()
    else:
        world.agent.terminate(world.now, 25.0)
    beat, released = world.turn()
    assert isinstance(beat, Heartbeat)
    assert beat.draining
    assert isinstance(released, Released)
    assert not world.turn()


def test_A11_what_runs_may_finish_until_the_grace_period_is_over() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    world.agent.terminate(world.now, 25.0)
    world.run_on(24.5)
    assert world.stops == []
    assert world.heartbeats()[-1].draining
    assert not world.heartbeats()[-1].suspended
    world.turn(0.5)
    assert [stop.why for stop in world.stops] == ["interrupted"]
    assert world.ends() == []  # not before its code has stopped
    world.end(world.running[0], INTERRUPTED)
    for _ in range(3):
        world.turn(0.1)
    assert world.ends() == [(1, "job-1", INTERRUPTED)]
    assert isinstance(world.said[-1].report, Goodbye)
    assert world.left is not None
    assert world.left.code == 0


def test_A11_no_goodbye_while_code_still_runs() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    world.agent.terminate(world.now, 1.0)
    world.run_on(5)
    assert goodbyes(world) == 0
    assert world.left is not None
    assert world.left.code == 5
    assert "1 jobs still run" in world.left.reason


def test_A11_no_goodbye_if_the_broker_does_not_acknowledge() -> None:
    world = World(acknowledging=False).welcome()
    world.agent.terminate(world.now, 2.0)
    world.run_on(6)
    assert goodbyes(world) == 0
    assert world.left is not None
    assert world.left.code == 5


def test_A11_goodbye_only_when_every_earlier_report_was_acknowledged() -> None:
    world = World(acknowledging=False).welcome()
    world.turn(1.0)
    world.agent.terminate(world.now, 25.0)
    world.turn(0.1)
    world.turn(0.1)
    assert goodbyes(world) == 0
    world.acknowledge()
    world.turn(0.1)
    assert goodbyes(world) == 1
    assert world.left is None
    world.acknowledge()
    world.turn()
    assert world.left is not None
    assert world.left.code == 0


def test_A11_a_second_signal_interrupts_at_once_and_leaves_soon() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    world.agent.terminate(world.now, 25.0)
    world.turn(1.0)
    world.agent.terminate(world.now, 25.0)
    world.turn()
    assert [stop.why for stop in world.stops] == ["interrupted"]
    world.turn(1.1)
    assert world.left is not None
    assert goodbyes(world) == 0


def test_A11_what_was_handed_but_not_begun_is_released() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    world.agent.terminate(world.now, 25.0)
    assert not world.agent.life.lease.holds(world.now)
    world.decline(world.running[0])
    world.turn()
    assert world.released() == [(1, "job-1")]


def test_A11_a_careful_job_on_its_way_is_released_and_never_starts() -> None:
    world = World(acknowledging=False).welcome()
    world.acknowledge()
    world.bundle(1, [1], careful=True)
    world.turn()
    world.agent.terminate(world.now, 25.0)
    world.acknowledge()
    world.turn()
    assert world.started == []
    assert world.released() == [(1, "job-1")]


def test_A11_nothing_is_said_after_goodbye() -> None:
    world = World().welcome()
    world.agent.terminate(world.now, 25.0)
    world.turn()
    world.acknowledge()
    world.acknowledging = False
    world.turn(0.1)
    assert isinstance(world.said[-1].report, Goodbye)
    world.run_on(3)
    assert isinstance(world.said[-1].report, Goodbye)


def test_A11_an_agent_that_was_never_welcomed_leaves_at_once() -> None:
    world = World()
    world.turn()
    world.agent.terminate(world.now, 25.0)
    for _ in range(3):
        world.turn(0.1)
    assert world.left is not None
    assert world.left.code == 0
    assert world.agent.next_due(world.now) > world.now


def test_A12_fenced_drops_the_queued_and_says_hello_as_a_new_incarnation() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.fence_off("lost")
    world.turn()
    assert world.incarnation == "incarnation-2"
    assert [say.incarnation for say in world.said if isinstance(say.report, Hello)] == ["incarnation-1", "incarnation-2"]
    assert world.assigned[-1] == []
    assert world.released() == []
    world.welcome()
    world.turn()
    assert world.names() == ["job-1"]


def test_A12_what_runs_goes_on_counts_as_load_and_reports_under_its_old_incarnation() -> None:
    world = World(slots=2).welcome()
    world.bundle(1, [1])
    world.turn()
    old = world.running[0]
    world.begin(old)
    world.fence_off("lost")
    world.welcome()
    world.turn(1.0)
    assert world.heartbeats()[-1].others == (1, 1.0)
    assert world.starteds() == []
    world.bundle(2, [2, 3])
    world.turn()
    assert world.names() == ["job-1", "job-2"]  # one of the two slots is taken
    world.end(old)
    world.turn(1.0)
    finished = [(say.incarnation, say.report.fence) for say in world.said if isinstance(say.report, Finished)]
    assert finished == [("incarnation-1", 1)]
    assert world.heartbeats()[-1].others == (0, 0.0)
    assert world.names() == ["job-1", "job-2", "job-3"]


def test_A12_what_was_handed_to_an_executor_does_not_start_after_fenced() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    held = world.running[0]
    world.fence_off("lost")
    assert not held.life.lease.holds(world.now)
    world.decline(held)
    world.run_on(3)
    assert world.started == []
    assert world.released() == []
    assert world.agent.slots.jobs == 0
    assert world.agent.slots.others == 0


def test_A12_a_careful_job_on_its_way_is_dropped() -> None:
    world = World(acknowledging=False).welcome()
    world.acknowledge()
    world.bundle(1, [1], careful=True)
    world.turn()
    world.fence_off("lost")
    world.acknowledge()
    world.turn()
    assert world.started == []
    assert world.agent.slots.jobs == 0


def test_A12_the_epoch_outlives_the_incarnation() -> None:
    world = World().welcome(epoch=5)
    world.fence_off("lost", epoch=5)
    world.welcome(epoch=4)
    assert not world.agent.life.welcomed


def test_A12_replaced_interrupts_and_exits_with_the_clash_of_names() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.fence_off("replaced")
    hellos = len(world.hellos())
    said = len(world.said)
    world.turn(1.0)
    assert [stop.why for stop in world.stops] == ["interrupted"]
    world.end(world.running[0], INTERRUPTED)
    world.turn()
    world.turn()
    assert world.ends() == [(1, "job-1", INTERRUPTED)]
    assert world.left is not None
    assert world.left.code == 1
    assert "agent-1" in world.left.reason
    assert len(world.hellos()) == hellos
    assert not [say for say in world.said[said:] if isinstance(say.report, (Hello, Heartbeat, Goodbye))]


def test_A12_a_replaced_agent_leaves_though_its_code_does_not_stop() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    world.fence_off("replaced")
    world.run_on(5)
    assert world.left is not None
    assert world.left.code == 1


def test_a_drain_with_stop_ends_the_process_in_order_once_nothing_runs() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    assert len(world.running) == 1
    world.drain(stop=True)
    world.run_on(60.0)  # whatever runs may take its time: there is no grace period to be over
    assert (world.left, world.stops) == (None, [])
    assert [(report.fence, report.jobs) for report in world.reports(Released)] == [(1, [("job-2", 1)])]
    world.end(world.running[0])
    for _ in range(5):
        world.turn(0.1)
    assert isinstance(world.said[-1].report, Goodbye)
    assert world.left is not None
    assert world.left.code == 0


def test_resume_in_time_calls_the_end_off() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1])
    world.turn()
    world.drain(stop=True)
    world.turn()
    world.resume()
    world.end(world.running[0])
    world.run_on(2.0)
    assert world.left is None
    world.bundle(2, [2])
    world.turn()
    assert len(world.running) == 1
