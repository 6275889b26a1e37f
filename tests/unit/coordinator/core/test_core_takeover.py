"""What a take-over says first, and lost topics (L5, L17, T2 to T6), and the `open` list (A5)."""

from lane_world import T0, TOPICS, World, of

from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Fenced, Welcome
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as happened


def with_jobs(count: int, max_attempts: int = 5) -> World:
    world = World()
    world.join("a", 100, 50)
    for number in range(count):
        world.job(f"j{number}", max_attempts=max_attempts)
    world.tick()
    return world


def messages(world: World) -> list[BundleMessage]:
    return [outgoing.body for outgoing in world.sent if isinstance(outgoing.body, BundleMessage)]


def test_T6_every_open_bundle_is_sent_again_in_order_of_fences_with_its_unfinished_jobs() -> None:
    world = with_jobs(3)
    world.finish("j1")
    world.tables.command("cancel", world.ids["j2"])
    world.tick(1)
    world.sent.clear()
    opening = world.lead()
    assert [event.fence for event in of(opening, happened.Resent) if isinstance(event, happened.Resent)] == [1, 3]
    assert [(message.fence, message.epoch, message.cancel) for message in messages(world)] == [(1, 2, []), (3, 2, [world.ids["j2"]])]
    assert [message.open for message in messages(world)] == [[1, 3], [1, 3]]
    assert len(of(opening, happened.CancelSent)) == 1
    assert len(world.said(Welcome)) == 1


def test_T2_a_lane_that_was_loaded_is_the_one_that_wrote() -> None:
    world = with_jobs(3)
    world.finish("j1", Outcome.FAILED)
    world.started("j2")
    world.tables.command("cancel", world.ids["j2"], {"reason": "enough"})
    world.tick(1)
    assert world.loaded().picture() == world.lane.picture()


def test_C9_a_take_over_that_fails_begins_anew() -> None:
    world = with_jobs(3)
    world.lead()
    before = world.lane.picture()
    world.lead()
    assert world.lane.picture() == before


def test_L17_a_new_reports_topic_marks_every_open_attempt_as_perhaps_started() -> None:
    world = with_jobs(2, max_attempts=1)
    world.topic_ids[TOPICS.reports.name] = "two"
    opening = world.lead()
    assert len(of(opening, happened.Started)) == 2
    world.silent_until(15)
    assert world.outcomes("j0") == ["lost"]
    assert world.state("j0") == State.FAILED


def test_L17_a_lost_tail_of_the_reports_marks_them_too() -> None:
    world = with_jobs(1, max_attempts=1)
    assert of(world.lead(reports_lost=True), happened.Started)
    assert not of(world.lead(), happened.Started)


def test_L15_the_mark_counts_at_goodbye() -> None:
    world = with_jobs(1)
    world.topic_ids[TOPICS.reports.name] = "two"
    world.lead()
    world.goodbye("a")
    world.tick(1)
    assert world.outcomes("j0") == ["lost"]


def test_L17_a_new_buckets_topic_is_read_from_its_beginning() -> None:
    world = World()
    told = world.new_incarnation("a")
    world.hello(told)
    world.batch.buckets_ready = [(part, 1_000) for part in range(5)]
    world.tick()
    world.topic_ids[TOPICS.buckets.name] = "two"
    opening = world.lead()
    assert of(opening, happened.BucketsMoved)
    welcome = world.said(Welcome)[-1].body
    assert isinstance(welcome, Welcome)
    assert {(bucket.topic_id, bucket.start_offset) for bucket in welcome.buckets} == {("two", 0)}
    assert world.loaded().picture() == world.lane.picture()
    assert not of(world.lead(), happened.BucketsMoved)


def test_L17_nothing_is_moved_while_the_topics_are_the_same() -> None:
    world = with_jobs(2)
    opening = world.lead()
    assert not of(opening, happened.Started)
    assert not of(opening, happened.BucketsMoved)


def test_A5_open_goes_along_at_the_latest_after_an_eighth_of_the_list() -> None:
    world = World()
    world.join("a", 1_000, 200)
    since = 0
    gaps: list[tuple[int, int]] = []
    for number in range(100):
        world.job(f"j{number}")
        world.tick(number / 100)
        message = messages(world)[-1]
        if message.open is None:
            since += 1
        else:
            assert message.open == sorted(world.tables.bundles)
            gaps.append((since, len(message.open)))
            since = 0
    assert all(without + 1 <= max(1, length / 8 + 1) for without, length in gaps)
    assert max(without for without, _ in gaps) >= 8  # and not each time: it costs


def test_I7_fences_only_grow() -> None:
    world = with_jobs(3)
    last = world.lane.fence
    for step in range(1, 4):
        world.lead()
        assert world.lane.fence == last
        world.beat("a")
        world.job(f"k{step}")
        world.tick(float(step))
        assert world.lane.fence == last + 1
        last = world.lane.fence
        assert world.tables.fence == last


def test_T5_welcome_goes_to_every_current_incarnation_and_fenced_to_those_ended_lately() -> None:
    world = World()
    for name in ("lost", "gone", "stays"):
        world.join(name)
    world.goodbye("gone")
    world.tick(1)
    world.now = 14.0
    world.beat("stays")
    world.silent_until(16)
    world.sent.clear()
    world.lead()
    assert [out.body.agent for out in world.said(Welcome) if isinstance(out.body, Welcome)] == ["stays"]
    assert [(out.body.agent, out.body.reason) for out in world.said(Fenced) if isinstance(out.body, Fenced)] == [("lost", "lost")]


def test_T5_who_has_no_buckets_yet_gets_its_welcome_with_them() -> None:
    world = World()
    told = world.new_incarnation("a")
    world.hello(told)
    world.tick()
    assert not of(world.lead(), happened.Welcomed)
    world.hello(told)
    world.batch.buckets_ready = [(part, 0) for part in range(5)]
    world.tick(1)
    assert len(world.said(Welcome)) == 1


def test_T6_also_for_one_that_was_replaced_and_may_hold_a_careful_job() -> None:
    world = with_jobs(2, max_attempts=1)
    old = world.agents["a"].incarnation
    world.join("a")
    world.sent.clear()
    world.lead()
    assert {(message.incarnation, message.careful[0]) for message in messages(world)} == {(old, True)}
    assert {message.fence for message in messages(world)} == set(world.tables.bundles)


def test_T6_nothing_is_sent_of_a_bundle_whose_jobs_have_all_ended() -> None:
    world = with_jobs(2)
    world.finish("j0")
    world.finish("j1")
    world.tick(1)
    world.sent.clear()
    assert not of(world.lead(), happened.Resent)
    assert not messages(world)


def test_T3_a_buckets_topic_made_anew_is_told_by_its_new_id_to_old_and_new_agents() -> None:
    world = with_jobs(1)
    world.topic_ids[TOPICS.buckets.name] = "two"
    world.sent.clear()
    world.lead()
    world.join("b")
    ids = {bucket.topic_id for out in world.said(Welcome) if isinstance(out.body, Welcome) for bucket in out.body.buckets}
    assert ids == {"two"}
    assert {bucket.topic_id for _, bucket in world.tables.buckets.values()} == {"two"}
    assert [message.fence for message in messages(world)] == [1]  # and what is open goes there again


def test_T3_ids_are_compared_not_offsets_alone() -> None:
    world = with_jobs(1)
    same = dict(world.topic_ids)
    assert not of(world.lead(), happened.Started)
    world.topic_ids[TOPICS.reports.name] = "two"
    assert of(world.lead(), happened.Started)
    assert not of(world.lead(), happened.Started)  # the new one's id was stored with the marks
    world.topic_ids = same
    world.lead()
    assert world.ids["j0"] in world.tables.running


def test_T8_placing_need_not_wait_until_reports_are_read() -> None:
    """L6 and L10 hold: who was heard from gets work, and nobody is judged."""
    world = World()
    world.join("a")
    world.join("silent")
    world.lead()
    world.beat("a")
    for number in range(4):
        world.job(f"j{number}")
    events = world.tick(1_000)  # reports_read_at is not known yet (T7)
    assert world.placed(events) == "j0>a j1>a j2>a j3>a"
    assert not of(events, happened.AgentEnded)
    assert not of(events, happened.AgentChanged)


def test_T7_until_the_reports_are_read_to_their_end_nobody_is_lost() -> None:
    world = with_jobs(1)
    world.lead()
    world.now = 500.0
    assert world.lane.wants_reports_end(T0 + 500.0)
    world.tick()
    assert world.outcomes("j0") == []
    world.finish("j0", ended_at=1.0)  # it lay in the topic all the time
    world.silent_until(501)
    assert world.state("j0") == State.SUCCEEDED


def test_L5_a_send_that_failed_is_looked_up_again_under_the_same_fence() -> None:
    world = World()
    world.join("a", 100, 1)
    world.job("j0")
    events = world.tick()
    (placed,) = [event for event in events if isinstance(event, happened.Placed)]
    first = world.lane.message(placed)
    world.tables.command("cancel", world.ids["j0"], {"reason": "enough"})
    world.tick(1)
    again = world.lane.message(placed)  # as the sender does when delivery failed
    assert first is not None
    assert again is not None
    assert isinstance(first.body, BundleMessage)
    assert isinstance(again.body, BundleMessage)
    assert (first.body.fence, first.body.cancel) == (1, [])
    assert (again.body.fence, again.body.cancel) == (1, [world.ids["j0"]])
    assert again.body.open == [1]
    world.finish("j0", Outcome.CANCELLED)
    world.tick(2)
    assert world.lane.message(placed) is None  # closed by now: nothing is sent, and nothing is placed anew for it
    assert world.outcomes("j0") == ["cancelled"]
