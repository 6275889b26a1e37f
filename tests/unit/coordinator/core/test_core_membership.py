"""Who is there: hello, heartbeat, inventory, replacement, goodbye, silence (L4 to L6, L10 to L12, L15, L16, L22, S12)."""

from lane_world import T0, World, of

from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Cancel, Confirm, Fenced, Welcome
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


# -- silence


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


def test_a_heartbeat_changes_capacity_and_slots() -> None:
    world = World()
    world.join("a", 10, 4)
    world.beat("a", capacity=20.0)
    (changed,) = of(world.tick(1), happened.AgentChanged)
    assert isinstance(changed, happened.AgentChanged)
    assert changed.capacity == 20.0
    assert world.loaded().picture() == world.lane.picture()


# -- replacement


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
    assert [row.incarnation for row in world.tables.agents.values()] == [second.incarnation]
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


def test_L11_goodbye_of_the_replaced_one_releases_at_once() -> None:
    world = with_job(max_attempts=1)
    old = world.agents["a"]
    world.join("a")
    world.agents["old"] = old
    world.goodbye("old")
    world.tick(1)
    assert world.outcomes("j") == ["released"]


# -- inventory


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


def test_L12_what_it_should_not_hold_is_cancelled_for_that_fence() -> None:
    world = with_job()
    world.beat("a", held=[(77, world.ids["j"])])
    world.tick(1)
    (cancel,) = world.said(Cancel)
    assert isinstance(cancel.body, Cancel)
    assert (cancel.body.fence, cancel.body.job) == (77, world.ids["j"])


# -- ends


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
