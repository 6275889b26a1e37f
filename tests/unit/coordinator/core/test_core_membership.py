"""Who is there: hello, heartbeat, inventory, partitions (L4 to L6, L12, L22, T5)."""

import pytest
from lane_world import World, of

from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Cancel, Confirm, Welcome
from jobyard.contracts.reports import Finished, Goodbye, Heartbeat, Hello, Released
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core import events as happened


def with_job(max_attempts: int = 5, agent: str = "a") -> World:
    world = World()
    world.join(agent)
    world.job("j", max_attempts=max_attempts)
    world.tick()
    return world


def test_hello_gets_five_buckets_and_a_welcome() -> None:
    world = World()
    told = world.new_incarnation("a")
    world.hello(told, stamp=12.5)
    events = world.tick()
    (wanted,) = of(events, happened.BucketsWanted)
    assert wanted == happened.BucketsWanted([0, 1, 2, 3, 4], False)
    assert not world.said(Welcome)
    world.batch.buckets_ready = [(part, 100 + part) for part in range(5)]
    world.tick(0.1)
    (welcome,) = world.said(Welcome)
    assert isinstance(welcome.body, Welcome)
    assert welcome.body.stamp == 12.5
    assert [(one.priority, one.partition, one.start_offset) for one in welcome.body.buckets] == [(n, n, 100 + n) for n in range(5)]
    world.hello(told, stamp=13.5)
    world.tick(1)
    again = world.said(Welcome)[-1].body
    assert isinstance(again, Welcome)
    assert again.stamp == 13.5


@pytest.mark.parametrize("together", [True, False])
def test_L15_one_that_comes_and_goes_within_a_tick_never_joins(together: bool) -> None:
    """Told to end before its welcome. As a ghost it would be given jobs until it is lost."""
    world = World()
    old = world.join("a")
    told = world.new_incarnation("a")
    hello = Hello(stamp=1.0, kinds=told.kinds, capacity=told.capacity, slots=told.slots)
    if together:
        world.say(told, hello, Goodbye())
    else:
        world.say(told, hello)
        world.say(told, Goodbye())
    events = world.tick()
    assert not of(events, happened.AgentJoined)
    assert not of(events, happened.AgentEnded)  # nor does it replace anybody
    assert not of(events, happened.FencedOff)
    world.hello(told)  # nothing follows a goodbye; should something be said again all the same, it is over
    assert of(world.tick(1), happened.FencedOff) == [happened.FencedOff("a", told.incarnation, "unknown")]
    world.job("j")
    world.tick(2)
    assert world.bundle("j").incarnation == old.incarnation


def test_A11_what_an_ending_agent_gives_back_is_not_placed_on_it_again() -> None:
    world = World()
    ending = world.join("a")
    for name in ("given back", "interrupted"):
        world.job(name)
    world.tick()
    ends = {name: world.bundle(name) for name in ("given back", "interrupted")}
    world.join("b")
    beat = Heartbeat(stamp=1.0, epoch=1, draining=True, capacity=ending.capacity, slots=ending.slots)
    back = Released(fence=ends["given back"].fence, jobs=[(world.id("given back"), 1)], reason="the agent shuts down")
    fence, end = world.an_end("interrupted", Outcome.INTERRUPTED)
    world.say(ending, beat, back, Finished(fence=fence, ends=[end]))
    world.tick(1)
    assert [world.where(name) for name in ends] == ["b", "b"]


def test_L22_a_partition_is_given_away_only_with_its_end_offset() -> None:
    world = World()
    told = world.new_incarnation("a")
    world.hello(told)
    world.tick()
    world.batch.buckets_ready = [(part, 0) for part in range(4)]
    world.tick(0.1)
    assert not world.said(Welcome)
    world.batch.buckets_ready = [(9, 7)]
    world.tick(0.2)
    assert len(world.said(Welcome)) == 1
    assert world.tables.buckets[9][1].start_offset == 7


def test_L22_a_lost_agents_buckets_are_free_at_once() -> None:
    world = World()
    world.join("a")
    world.silent_until(16)
    told = world.new_incarnation("b")
    world.hello(told)
    (wanted,) = of(world.tick(17), happened.BucketsWanted)
    assert wanted == happened.BucketsWanted([0, 1, 2, 3, 4], False)


def test_the_topic_grows_when_no_partition_is_free_but_not_every_second() -> None:
    world = World()
    for number in range(10):
        world.join(f"a{number}")
    told = world.new_incarnation("b")
    world.hello(told)
    (wanted,) = of(world.tick(1), happened.BucketsWanted)
    assert wanted == happened.BucketsWanted([], True)
    world.hello(told)
    assert not of(world.tick(2), happened.BucketsWanted)
    world.batch.partitions = 100
    world.hello(told)
    (wanted,) = of(world.tick(3), happened.BucketsWanted)
    assert wanted == happened.BucketsWanted([50, 51, 52, 53, 54], False)


def test_L4_nothing_is_said_of_a_tick_that_was_not_committed() -> None:
    world = World()
    world.join("a")
    world.beat("a", suspended=True)
    said = len(world.sent)
    events = world.tick(1, commit=False)
    assert of(events, happened.Confirmed)
    assert len(world.sent) == said


def test_a_suspended_agent_is_confirmed_by_its_own_stamp() -> None:
    world = World()
    world.join("a")
    world.now = 3.0
    world.beat("a", suspended=True)
    world.tick()
    (confirm,) = world.said(Confirm)
    assert isinstance(confirm.body, Confirm)
    assert confirm.body.stamp == 3.0


def test_L5_a_closed_bundle_is_not_sent_and_an_open_one_as_it_is_now() -> None:
    world = World()
    world.join("a")
    world.job("j")
    (placed,) = of(world.tick(), happened.Placed)
    assert world.lane.message(placed) is not None
    world.finish("j")
    world.tick(1)
    assert world.lane.message(placed) is None


def test_L6_only_agents_heard_from_under_this_epoch_get_work() -> None:
    world = World()
    world.join("a")
    world.lead()
    world.job("j")
    assert world.placed(world.tick(1)) == ""
    world.beat("a")
    assert world.placed(world.tick(2)) == "j>a"


def test_T5_welcome_again_while_heartbeats_name_an_older_epoch() -> None:
    world = World()
    world.join("a")
    world.lead()
    assert len(world.said(Welcome)) == 2  # at once
    world.beat("a", epoch=1)
    world.tick(1)
    assert len(world.said(Welcome)) == 3
    world.beat("a")
    world.tick(2)
    assert len(world.said(Welcome)) == 3


def test_T1_a_higher_epoch_in_a_heartbeat_is_told() -> None:
    world = World()
    world.join("a")
    assert world.lane.outranked_by is None
    world.beat("a", epoch=9)
    world.tick(1)
    assert world.lane.outranked_by == 9
    fence = world.tables.fence
    world.lead(at_least=9)
    assert world.term.epoch == 10
    assert world.tables.fence == fence + 10**9


@pytest.mark.parametrize("over", [False, True])
def test_T1_a_higher_epoch_is_told_by_one_that_the_master_db_does_not_know(over: bool) -> None:
    """It joined after the backup was made, or was fenced under an epoch below its own: it hears no leader before there is one above it."""
    world = World()
    told = world.join("a")
    if over:
        world.silent_until(20)
    else:
        told = world.new_incarnation("b")
    world.say(told, Heartbeat(stamp=1.0, epoch=9, capacity=1.0, slots=1))
    world.tick(21)
    assert world.lane.outranked_by == 9


def test_a_heartbeat_changes_capacity_and_slots() -> None:
    world = World()
    world.join("a", 10, 4)
    world.beat("a", capacity=20.0)
    (changed,) = of(world.tick(1), happened.AgentChanged)
    assert isinstance(changed, happened.AgentChanged)
    assert changed.capacity == 20.0
    assert world.loaded().picture() == world.lane.picture()


def test_L12_what_an_inventory_lacks_is_sent_again_under_the_same_fence() -> None:
    world = with_job()
    fence = world.bundle("j").fence
    world.now = 9.0
    world.beat("a", held=[])
    world.tick()
    assert len(world.said(BundleMessage)) == 1  # sent not long enough ago
    world.now = 11.0
    world.beat("a", held=[])
    world.tick()
    again = world.said(BundleMessage)[-1].body
    assert isinstance(again, BundleMessage)
    assert again.fence == fence
    assert len(world.said(BundleMessage)) == 2
    assert world.outcomes("j") == []
    world.now = 12.0
    world.beat("a", held=[])
    world.tick()
    assert len(world.said(BundleMessage)) == 2


def test_L12_nothing_is_sent_again_if_the_agent_has_it() -> None:
    world = with_job()
    world.now = 11.0
    world.beat("a", held=[(world.bundle("j").fence, world.ids["j"])])
    world.tick()
    assert len(world.said(BundleMessage)) == 1
    assert not world.said(Cancel)


def test_L12_what_ends_in_the_tick_that_reads_the_inventory_is_no_repair() -> None:
    """The inventory was said before the end, and both are read in one tick."""
    world = with_job()
    world.beat("a", held=[(world.bundle("j").fence, world.ids["j"])])
    world.finish("j")
    events = world.tick()
    assert world.outcomes("j") == [Outcome.SUCCEEDED]
    assert not of(events, happened.CancelSent)
    assert not of(events, happened.Repaired)


def test_L12_what_it_should_not_hold_is_cancelled_for_that_fence() -> None:
    world = with_job()
    world.beat("a", held=[(77, world.ids["j"])])
    world.tick(1)
    (cancel,) = world.said(Cancel)
    assert isinstance(cancel.body, Cancel)
    assert (cancel.body.fence, cancel.body.job) == (77, world.ids["j"])
