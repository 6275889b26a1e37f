"""What a take-over says first, and lost topics (L5, L17, T2 to T6), and the `open` list (A5)."""

from lane_world import TOPICS, World, of

from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Welcome
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
