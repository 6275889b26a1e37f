"""When an agent may start a job: A6, A7, A9; and what it says while jobs run."""

import pytest
from agent_world import World, a_job

from jobyard.contracts.control import Welcome
from jobyard.contracts.reports import Finished
from jobyard.contracts.states import Outcome

CANCELLED = Outcome.CANCELLED


def test_A6_welcome_makes_the_lease_from_its_stamp() -> None:
    world = World()
    world.turn()
    world.now += 5.0
    world.welcome(stamp=100.0)
    assert world.agent.life.lease.until == 100.0 + 15.0 - 1.0


def test_A6_an_acknowledged_heartbeat_prolongs_the_lease_from_its_stamp() -> None:
    world = World().welcome()
    world.turn(1.0)
    stamp = world.heartbeats()[-1].stamp
    world.now += 3.0
    world.acknowledge()
    assert world.agent.life.lease.until == stamp + 14.0


def test_A6_a_heartbeat_acknowledged_after_the_lease_does_not_revive_it() -> None:
    world = World(acknowledging=False).welcome()
    world.acknowledge()
    world.turn(1.0)
    world.now += 14.0
    world.acknowledge()
    assert not world.agent.life.lease.holds(world.now)


def test_A6_without_a_lease_nothing_starts_and_suspended_is_said_until_confirm() -> None:
    world = World(slots=2).welcome()
    world.bundle(1, [1])
    world.turn()
    world.acknowledging = False
    world.turn(20.0)
    world.bundle(2, [2])
    world.turn()
    assert world.names() == ["job-1"]  # goes on
    world.acknowledge()
    world.turn(1.0)
    beat = world.heartbeats()[-1]
    assert beat.suspended
    world.confirm(beat.stamp)
    world.acknowledge()
    world.turn()
    assert world.names() == ["job-1", "job-2"]
    world.turn(1.0)
    assert not world.heartbeats()[-1].suspended


def test_A6_a_suspended_agent_may_release_what_waits_too_long() -> None:
    world = World().welcome()
    world.acknowledging = False
    world.turn(20.0)
    world.bundle(1, [1])
    world.run_on(3)
    assert world.released() == [(1, "job-1")]


def test_A6_leases_go_on_without_a_leader() -> None:
    world = World().welcome()
    world.run_on(200, 1.0)
    assert world.agent.life.lease.holds(world.now)
    assert "suspended" not in world.notes


def test_A6_lost_after_is_what_welcome_said() -> None:
    world = World()
    world.turn()
    world.control(
        Welcome(v=1, epoch=1, agent="agent-1", incarnation=world.incarnation, stamp=100.0, buckets=[], lost_after_s=7.0),
    )
    assert world.agent.life.lease.until == 106.0


def test_A6_at_most_one_heartbeat_is_on_its_way() -> None:
    world = World(acknowledging=False).welcome()
    world.acknowledge()
    before = len(world.heartbeats())
    world.run_on(5, 1.0)
    assert len(world.heartbeats()) == before + 1
    world.acknowledge()
    world.turn(1.0)
    assert len(world.heartbeats()) == before + 2


def test_A6_what_the_executor_declined_is_queued_again_and_starts_with_a_new_lease() -> None:
    world = World().welcome()
    world.bundle(1, [1, 2])
    world.turn()
    first = world.running[0]
    world.agent.life.lease.until = world.now
    world.decline(first)
    world.turn()
    assert world.names() == ["job-2"]
    world.confirm(world.now)
    world.turn()
    assert world.names() == ["job-2", "job-1"]


def test_A6_what_was_declined_too_late_is_released() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    world.turn(30.0)
    world.decline(world.running[0])
    world.turn()
    assert world.released() == [(1, "job-1")]
    assert world.agent.slots.jobs == 0


def test_A7_a_careful_job_starts_only_after_started_was_acknowledged() -> None:
    world = World(slots=3, acknowledging=False).welcome()
    world.acknowledge()
    world.bundle(1, [1, 2], careful=True)
    world.bundle(2, [3])
    world.turn()
    assert world.names() == ["job-3"]
    assert world.starteds() == ["job-1", "job-2"]
    world.turn(0.1)
    assert world.starteds() == ["job-1", "job-2"]
    world.acknowledge()
    world.turn()
    assert world.names() == ["job-3", "job-1", "job-2"]
    assert world.starteds() == ["job-1", "job-2"]


def test_A7_the_lease_is_checked_after_the_acknowledgement() -> None:
    world = World(acknowledging=False).welcome()
    world.acknowledge()
    world.bundle(1, [1], careful=True)
    world.turn()
    world.now += 1.5
    world.agent.life.lease.until = world.now
    world.acknowledge()
    world.turn()
    assert world.started == []
    assert world.agent.slots.jobs == 0
    world.confirm(world.now)
    world.turn()
    assert world.names() == ["job-1"]
    assert world.starteds() == ["job-1"]  # said once is enough


def test_A7_a_careful_job_on_its_way_is_not_released() -> None:
    world = World(acknowledging=False).welcome()
    world.acknowledge()
    world.bundle(1, [1], careful=True)
    world.run_on(5)
    assert world.released() == []
    world.acknowledge()
    world.turn()
    assert world.names() == ["job-1"]


def test_A7_a_careful_job_holds_its_slot_while_it_waits() -> None:
    world = World(slots=1, acknowledging=False).welcome()
    world.acknowledge()
    world.bundle(1, [1], careful=True)
    world.bundle(2, [2])
    world.turn()
    assert world.started == []


def test_A7_a_careful_job_cancelled_while_it_waits_never_starts() -> None:
    world = World(acknowledging=False).welcome()
    world.acknowledge()
    world.bundle(1, [1], careful=True)
    world.turn()
    world.cancel(1, 1)
    world.acknowledge()
    world.turn()
    assert world.started == []
    assert world.ends() == [(1, "job-1", CANCELLED)]
    assert world.agent.slots.jobs == 0


def test_A7_a_job_that_lasts_is_reported_as_started_and_a_short_one_is_not() -> None:
    world = World().welcome()
    world.bundle(1, [1, 2])
    world.turn()
    for held in list(world.running):
        world.begin(held)
    world.turn(0.4)
    world.end(world.running[0])
    world.turn(0.05)
    assert world.starteds() == []
    world.turn(0.05)
    assert world.starteds() == ["job-2"]
    world.run_on(2)
    assert world.starteds() == ["job-2"]


def test_A9_a_job_never_runs_twice_at_once_in_one_process() -> None:
    world = World(slots=3).welcome()
    world.bundle(1, [1])
    world.turn()
    old = world.running[0]
    world.fence_off("lost")
    world.welcome()
    world.bundle(2, [1, 2])
    world.turn()
    assert world.names() == ["job-1", "job-2"]
    world.run_on(10)
    assert world.released() == []  # waiting for the older execution is exempt
    world.end(old)
    world.turn()
    assert [(held.job.id, held.fence) for held in world.started] == [("job-1", 1), ("job-2", 2), ("job-1", 2)]


def test_A9_a_placement_that_waits_can_be_cancelled() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    old = world.running[0]
    world.fence_off("lost")
    world.welcome()
    world.bundle(2, [1])
    world.turn()
    world.cancel(2, 1)
    world.end(old)
    world.turn()
    assert len(world.started) == 1
    assert (2, "job-1", CANCELLED) in world.ends()


def test_A9_a_careful_job_on_its_way_counts_as_an_execution() -> None:
    world = World(slots=3, acknowledging=False).welcome()
    world.acknowledge()
    world.bundle(1, [1], careful=True)
    world.bundle(2, [1])
    world.turn()
    world.acknowledge()
    world.turn()
    assert [held.fence for held in world.started] == [1]


def test_a_job_past_its_deadline_is_asked_to_stop_and_asked_again() -> None:
    world = World().welcome()
    world.bundle(1, [a_job(1, timeout_s=2.0)])
    world.turn()
    world.begin(world.running[0], deadline=world.now + 2.0)
    world.turn(1.9)
    assert world.stops == []
    world.turn(0.1)
    assert [stop.why for stop in world.stops] == ["timed_out"]
    world.run_on(5)
    assert [stop.why for stop in world.stops] == ["timed_out", "timed_out"]
    world.end(world.running[0], Outcome.TIMED_OUT)
    world.run_on(10)
    assert len(world.stops) == 2


def test_a_jump_of_the_wall_clock_is_no_running_time() -> None:
    """An hour that only the wall clock knows of ends the lease, and no job that has a minute."""
    world = World().welcome()
    world.bundle(1, [a_job(1, timeout_s=60.0)])
    world.turn()
    world.begin(world.running[0], deadline=world.now + 60.0)
    world.jumped_s = 3600.0
    world.turn(3600.0)
    assert not world.agent.life.lease.holds(world.now)
    world.turn(59.0)
    assert world.stops == []
    world.turn(1.0)
    assert [stop.why for stop in world.stops] == ["timed_out"]


def test_deadlines_of_ended_jobs_are_forgotten() -> None:
    world = World(slots=1).welcome()
    for number in range(1000):
        world.bundle(number, [number], still_open=[number])
        world.turn()
        world.begin(world.running[0], deadline=world.now + 3600)
        world.end(world.running[0])
    deadlines = world.agent._running._deadlines  # pyright: ignore[reportPrivateUsage] - memory is what is looked at here
    assert len(deadlines) < 200


def test_progress_is_said_at_most_once_a_second_after_started() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    held = world.running[0]
    world.begin(held)
    for step in range(20):
        world.agent.progressed(held, float(step), 20.0, "")
        world.turn(0.1)
    assert world.starteds() == ["job-1"]
    assert world.progress()[0] == 0.0
    assert len(world.progress()) in (2, 3)
    world.turn(1.0)
    assert world.progress()[-1] == 19.0
    said = [type(say.report).__name__ for say in world.said if type(say.report).__name__ in ("Started", "Progress")]
    assert said[0] == "Started"


def test_progress_is_kept_once_a_job_while_the_broker_is_away() -> None:
    world = World(slots=3).welcome()
    world.bundle(1, [1, 2, 3])
    world.turn()
    for held in world.running:
        world.begin(held)
    world.turn(1.0)
    world.acknowledge()
    world.acknowledging = False
    for second in range(60):
        for held in world.running:
            world.agent.progressed(held, float(second), 60.0, "")
        world.turn(1.0)
        assert world.agent.next_due(world.now) > world.now, "nothing is to be done before the broker answers"
    # one of each job, and one heartbeat: what waits for the broker does not grow with the time that it is away
    assert sorted(type(say.report).__name__ for say in world.waiting) == ["Heartbeat", "Progress", "Progress", "Progress"]
    assert world.progress() == [0.0, 0.0, 0.0]
    world.acknowledging = True
    world.turn(0.1)
    assert world.progress()[3:] == [59.0, 59.0, 59.0]
    for held in world.running:
        world.agent.progressed(held, 60.0, 60.0, "")
    world.turn(1.0)
    assert world.progress()[6:] == [60.0, 60.0, 60.0]


def test_progress_of_an_ended_job_is_not_said() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    held = world.running[0]
    world.begin(held)
    world.agent.progressed(held, 1.0, None, "")
    world.turn()
    world.agent.progressed(held, 2.0, None, "")
    world.end(held)
    world.run_on(2)
    assert world.progress() == [1.0]


def test_ends_of_a_bundle_go_in_one_report_with_the_time_worked_on_them() -> None:
    world = World(slots=3).welcome()
    world.bundle(1, [1, 2, 3])
    world.turn()
    world.now += 2.0
    a, b, c = list(world.running)
    world.end(a, took=1.0)
    world.end(b, took=2.0)
    world.turn()
    world.now += 1.0
    world.end(c, took=3.0)
    world.turn()
    reports = world.reports(Finished)
    assert [len(report.ends) for report in reports] == [2, 1]
    # the third worked all the time, of which two seconds are in the first report
    assert [report.busy_s for report in reports] == pytest.approx([2.0, 1.0])


def test_a_report_that_is_repeated_counts_no_work() -> None:
    world = World().welcome()
    world.bundle(1, [1])
    world.turn()
    world.end(world.running[0], took=5.0)
    world.turn()
    world.bundle(1, [1])
    world.turn()
    assert [report.busy_s for report in world.reports(Finished)] == [5.0, 0.0]


def test_the_inventory_names_what_is_held_for_long_every_ten_seconds() -> None:
    world = World(slots=2).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.end(world.running[1])
    world.run_on(30, 1.0)
    inventories = [beat.held for beat in world.heartbeats() if beat.held is not None]
    assert inventories == [[(1, "job-1")]] * 3
