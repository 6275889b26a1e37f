"""Which messages an agent takes, and what it remembers of them: A1 to A5, A8, A10."""

from agent_world import BUCKETS, World, a_job

from jobyard.contracts.control import Bucket
from jobyard.contracts.states import Outcome

SUCCEEDED, CANCELLED = Outcome.SUCCEEDED, Outcome.CANCELLED


def test_A1_a_bundle_for_another_agent_or_incarnation_is_dropped() -> None:
    world = World().welcome()
    world.bundle(1, [1], agent="agent-2")
    world.bundle(2, [2], incarnation="incarnation-0")
    world.turn()
    assert world.started == []
    assert len(world.agent.fences) == 0


def test_A1_a_control_message_for_another_incarnation_is_dropped() -> None:
    world = World().welcome()
    world.run_on(20, 20)
    world.confirm(world.now, incarnation="incarnation-0")
    assert not world.agent.life.lease.holds(world.now)


def test_A1_only_another_topic_id_or_partition_makes_a_welcome_assign_again() -> None:
    world = World().welcome()
    world.welcome(buckets=[Bucket(b.priority, b.partition, b.topic_id, 99) for b in BUCKETS])
    assert world.assigned == [BUCKETS]
    again = [Bucket(b.priority, b.partition, "id-2", 0) for b in BUCKETS]
    world.welcome(buckets=again)
    assert world.assigned == [BUCKETS, again]


def test_A2_a_message_of_a_lower_epoch_is_dropped_over_all_topics() -> None:
    world = World().welcome(epoch=3)
    world.bundle(1, [1], epoch=5)
    world.bundle(2, [2], epoch=4)
    world.cancel(1, 1, epoch=4)
    world.fence_off("lost", epoch=4)
    world.turn()
    assert world.names() == ["job-1"]
    assert world.stops == []
    assert world.agent.epoch == 5
    assert world.incarnation == "incarnation-1"


def test_A2_heartbeats_name_the_highest_epoch() -> None:
    world = World().welcome(epoch=3)
    world.bundle(1, [1], epoch=7)
    world.turn(1.0)
    assert world.heartbeats()[-1].epoch == 7


def test_A3_a_lower_fence_may_arrive_later() -> None:
    world = World().welcome()
    world.bundle(9, [1])
    world.bundle(4, [2])
    world.turn()
    assert world.names() == ["job-1", "job-2"]


def test_A4_a_known_fence_starts_nothing() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.bundle(1, [1, 2])
    world.turn()
    assert world.names() == ["job-1"]
    world.end(world.running[0])
    world.turn()
    world.end(world.running[0])
    world.turn()
    assert world.names() == ["job-1", "job-2"]


def test_A4_an_ended_job_listed_again_gets_the_same_report_again() -> None:
    world = World().welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.end(world.running[0], took=0.4)
    world.turn()
    world.bundle(1, [1, 2])
    world.turn()
    assert world.ends() == [(1, "job-1", SUCCEEDED), (1, "job-1", SUCCEEDED)]
    assert world.names() == ["job-1", "job-2"]


def test_A4_a_released_job_listed_again_is_released_again_and_never_starts() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1])
    world.bundle(2, [2])
    world.turn()
    world.run_on(3)
    assert world.released() == [(2, "job-2")]
    world.end(world.running[0])
    world.bundle(2, [2])
    world.turn()
    assert world.released() == [(2, "job-2"), (2, "job-2")]
    assert world.names() == ["job-1"]


def test_A4_a_job_no_longer_listed_is_dropped_if_queued_and_stopped_if_running() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2, 3])
    world.turn()
    world.bundle(1, [3])
    world.turn()
    assert [(stop.held.job.id, stop.why) for stop in world.stops] == [("job-1", "closed")]
    world.end(world.running[0], CANCELLED)
    world.turn()
    assert world.names() == ["job-1", "job-3"]
    assert world.ends() == []


def test_A4_a_cancel_mark_on_a_copy_stops_the_running_and_ends_the_queued() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.bundle(1, [1, 2], cancel=[1, 2])
    world.turn()
    assert [(stop.held.job.id, stop.why) for stop in world.stops] == [("job-1", "cancelled")]
    assert world.ends() == [(1, "job-2", CANCELLED)]


def test_A4_a_new_bundle_may_carry_cancel_marks() -> None:
    world = World().welcome()
    world.bundle(1, [1, 2], cancel=[1])
    world.turn()
    assert world.names() == ["job-2"]
    assert world.ends() == [(1, "job-1", CANCELLED)]


def test_A5_ended_jobs_are_remembered_until_their_own_bucket_no_longer_lists_the_fence() -> None:
    world = World(slots=9).welcome()
    world.bundle(1, [1])
    world.turn()
    world.end(world.running[0])
    world.turn()
    world.bundle(2, [2])  # without `open`: forgets nothing
    world.bundle(3, [3], bucket=1, still_open=[3])  # of another bucket
    assert world.agent.fences.get(1) is not None
    world.bundle(4, [4], still_open=[1, 2, 4])
    assert world.agent.fences.get(1) is not None
    world.bundle(5, [5], still_open=[2, 4, 5])
    assert world.agent.fences.get(1) is None
    assert all(world.agent.fences.get(fence) for fence in (2, 3, 4, 5))


def test_A5_what_a_later_message_does_not_list_is_dropped_or_stopped() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1])
    world.bundle(2, [2])
    world.turn()
    world.bundle(3, [3], still_open=[3])
    world.turn()
    assert [(stop.held.job.id, stop.why) for stop in world.stops] == [("job-1", "closed")]
    world.end(world.running[0])
    world.turn()
    assert world.names() == ["job-1", "job-3"]
    assert world.ends() == []


def test_A5_a_message_tells_nothing_of_fences_that_were_given_after_it() -> None:
    """Read in this order where a topic was made anew: on at the old offset first, then from the beginning."""
    world = World(slots=9).welcome()
    world.bundle(89, [9], still_open=[88, 89], as_of=89)
    world.turn()
    world.bundle(88, [8], still_open=[88], as_of=88)
    world.bundle(89, [9], still_open=[88, 89], as_of=89)  # a take-over sends it again
    world.turn()
    assert world.names() == ["job-9", "job-8"]
    assert world.stops == []
    world.bundle(88, [8], still_open=[88], as_of=90)  # sent again when 89 was over
    assert world.agent.fences.get(89) is None


def test_A5_the_message_of_a_fence_does_not_close_itself() -> None:
    world = World().welcome()
    world.bundle(1, [1], still_open=[])
    world.turn()
    assert world.names() == ["job-1"]


def test_A8_a_cancel_that_overtakes_its_bundle_is_remembered() -> None:
    world = World().welcome()
    world.cancel(2, 1)
    world.bundle(1, [3])
    world.bundle(2, [1, 2])
    world.turn()
    assert world.names() == ["job-3", "job-2"]
    assert world.ends() == [(2, "job-1", CANCELLED)]
    assert world.agent.fences.cancels == 0


def test_A8_a_remembered_cancel_is_forgotten_only_by_its_own_bucket() -> None:
    world = World().welcome()
    world.cancel(5, 1)
    world.bundle(6, [2], bucket=1, still_open=[6])
    assert world.agent.fences.cancels == 1
    world.bundle(7, [3], still_open=[7])
    assert world.agent.fences.cancels == 0


def test_A8_an_older_message_does_not_make_the_cancel_of_a_newer_fence_forgotten() -> None:
    world = World().welcome()
    world.cancel(5, 1)
    world.bundle(4, [2], still_open=[4])  # sent before fence 5 was placed
    world.bundle(5, [1], still_open=[4, 5])
    world.turn()
    assert world.names() == ["job-2"]
    assert world.ends() == [(5, "job-1", CANCELLED)]


def test_A10_hello_is_repeated_in_place_of_the_heartbeat_until_welcome() -> None:
    world = World()
    for _ in range(4):
        world.turn(1.0)
    assert [hello.stamp for hello in world.hellos()] == [101.0, 102.0, 103.0, 104.0]
    assert world.heartbeats() == []
    world.welcome()
    world.turn(1.0)
    assert len(world.hellos()) == 4
    assert world.heartbeats()


def test_A10_before_welcome_nothing_else_is_taken() -> None:
    world = World()
    world.turn()
    world.bundle(1, [1], epoch=9)
    world.drain()
    world.confirm(world.now)
    world.cancel(1, 1)
    world.turn()
    assert world.started == []
    assert world.agent.epoch == 0
    assert not world.agent.life.lease.holds(world.now)
    assert world.agent.fences.cancels == 0


def test_A10_fenced_is_taken_before_welcome() -> None:
    world = World()
    world.turn()
    world.fence_off("unknown")
    world.turn()
    assert world.incarnation == "incarnation-2"
    assert len(world.hellos()) == 2


def test_priority_decides_before_arrival() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1], bucket=4)
    world.bundle(2, [2], bucket=2)
    world.bundle(3, [3], bucket=2)
    world.bundle(4, [4], bucket=0)
    for _ in range(4):
        world.turn()
        world.end(world.running[0])
    assert world.names() == ["job-4", "job-2", "job-3", "job-1"]


def test_the_head_starts_while_size_and_slots_allow() -> None:
    world = World(slots=3, capacity=10).welcome()
    world.bundle(1, [a_job(1, size=6), a_job(2, size=5), a_job(3, size=1)])
    world.turn()
    assert world.names() == ["job-1"]  # the second does not fit; nobody passes it
    world.end(world.running[0])
    world.turn()
    assert world.names() == ["job-1", "job-2", "job-3"]


def test_a_job_larger_than_the_agent_runs_alone() -> None:
    world = World(slots=3, capacity=10).welcome()
    world.bundle(1, [a_job(1, size=1), a_job(2, size=40), a_job(3, size=1)])
    world.turn()
    assert world.names() == ["job-1"]
    world.end(world.running[0])
    world.turn()
    assert world.names() == ["job-1", "job-2"]
    world.end(world.running[0])
    world.turn()
    assert world.names() == ["job-1", "job-2", "job-3"]


def test_sizes_that_are_fractions_add_up() -> None:
    world = World(slots=10, capacity=1.0).welcome()
    world.bundle(1, [a_job(n, size=0.1) for n in range(10)])
    world.turn()
    assert len(world.started) == 10


def test_S9_what_was_not_started_in_time_is_released() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.turn(1.9)
    assert world.released() == []
    assert world.agent.next_due(world.now) <= world.now + 0.1 + 1e-9
    world.turn(0.1)
    assert world.released() == [(1, "job-2")]


def test_a_drained_agent_gives_back_the_unstarted_and_takes_nothing() -> None:
    world = World(slots=1).welcome()
    world.bundle(1, [1, 2])
    world.turn()
    world.drain()
    world.bundle(2, [3])
    world.turn(1.0)
    assert world.released() == [(1, "job-2"), (2, "job-3")]
    assert world.heartbeats()[-1].draining
    world.resume()
    world.end(world.running[0])
    world.bundle(3, [4])
    world.turn(1.0)
    assert world.names() == ["job-1", "job-4"]
    assert not world.heartbeats()[-1].draining


def test_a_welcome_tells_whether_to_drain() -> None:
    world = World().welcome(draining=True)
    world.bundle(1, [1])
    world.turn()
    assert world.released() == [(1, "job-1")]
    world.welcome(draining=False)
    world.bundle(2, [2])
    world.turn()
    assert world.names() == ["job-2"]
