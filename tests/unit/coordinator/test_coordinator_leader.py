"""Leader, take-over, tick and sender together: what is sent when, what survives a failure, and who is to blame for one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from unittest.mock import Mock

import pytest
from leadership import INTAKE, REPORTS, TOPICS, Leadership, RealClock, a_job, until

from jobyard.contracts.control import Fenced, Welcome
from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.contracts.states import State
from jobyard.coordinator.core.events import Event, Placed
from jobyard.coordinator.core.questions import Questions
from jobyard.coordinator.inbox import Inbox
from jobyard.coordinator.seams import DataRefused, PendingMoved, Term
from jobyard.coordinator.tick import Tick
from jobyard.kafka.failures import KafkaFailure
from jobyard.process.clock import monotonic


@pytest.fixture
def lane() -> Iterator[Leadership]:
    made = Leadership()
    yield made
    made.close()


def _ids(questions: Questions) -> set[str]:
    return {job.id for job in questions.jobs} | {one.new.id or "" for one in questions.unresolved}


def test_L1_a_job_goes_its_way_and_offsets_are_committed_with_their_effect(lane: Leadership) -> None:
    lane.hello()
    lane.intake(job := a_job())
    lane.leader.start()
    until(lane.bundles)
    assert lane.tables.offsets[INTAKE] == (f"id-{INTAKE}", 1)
    lane.succeed(lane.bundles()[0])
    until(lambda: lane.tables.final(str(job.id)) is State.SUCCEEDED)
    until(lambda: lane.tables.offsets[REPORTS][1] >= 2)


def test_L4_nothing_is_sent_but_after_a_commit_that_followed_the_reading(lane: Leadership) -> None:
    sent_before: list[int] = []

    def before(events: Sequence[Event]) -> None:
        if any(isinstance(event, Placed) for event in events):
            sent_before.append(len(lane.bundles()))

    lane.script.before_write = before
    lane.hello()
    lane.intake(a_job())
    lane.leader.start()
    until(lane.bundles)
    assert sent_before == [0]
    happened = lane.script.happened
    assert happened[happened.index("send buckets") - 1] in ("write", "send control")


def test_L4_what_was_not_committed_is_never_sent(lane: Leadership) -> None:
    failed: list[Event] = []

    def before(events: Sequence[Event]) -> None:
        placed = [event for event in events if isinstance(event, Placed)]
        if placed and not failed:
            failed.extend(placed)
            raise ServiceUnavailable("the connection is gone, the outcome unknown")

    lane.script.before_write = before
    lane.hello()
    lane.intake(a_job())
    lane.leader.start()
    until(lane.bundles)
    assert {bundle.epoch for bundle in lane.bundles()} == {2}


def test_L3_after_a_failed_commit_it_takes_over_anew_and_reads_again(lane: Leadership) -> None:
    def before(events: Sequence[Event]) -> None:
        if any(isinstance(event, Placed) for event in events):
            lane.script.before_write = lambda _: None
            raise ServiceUnavailable("gone")

    lane.script.before_write = before
    lane.hello()
    lane.leader.start()
    until(lambda: lane.tables.offsets.get(REPORTS, ("", 0))[1] >= 1)
    lane.intake(job := a_job())
    until(lane.bundles)
    assert lane.script.happened.count("seize") == 2
    assert lane.sources[-1].assigned[0] == (INTAKE, 0, 0)
    assert [one.id for one in lane.bundles()[-1].jobs] == [job.id]
    assert all(source.closed for source in lane.sources[:-1])
    assert all(bus.closed for bus in lane.buses[:-1])


def test_L5_what_could_not_be_delivered_is_sent_again_under_the_same_fence(lane: Leadership) -> None:
    lane.hello()
    lane.intake(a_job())
    lane.leader.start()
    until(lane.bundles)
    lane.buses[0].deliver(KafkaFailure("unavailable", "_MSG_TIMED_OUT", "timed out"))
    until(lambda: len(lane.bundles()) >= 2)
    first, again = lane.bundles()[:2]
    assert first.fence == again.fence


def test_L5_a_bundle_that_is_closed_by_then_is_not_sent_again(lane: Leadership) -> None:
    lane.hello()
    lane.intake(job := a_job())
    lane.leader.start()
    until(lane.bundles)
    lane.succeed(lane.bundles()[0])
    until(lambda: lane.tables.final(str(job.id)))
    lane.buses[0].deliver(KafkaFailure("unavailable", "_MSG_TIMED_OUT", "timed out"))
    lane.intake(other := a_job())
    until(lambda: len(lane.bundles()) >= 2)
    assert [[one.id for one in bundle.jobs] for bundle in lane.bundles()] == [[job.id], [other.id]]


def test_L18_a_tick_that_fails_for_its_data_is_halved_until_the_guilty_message_is_alone(lane: Leadership) -> None:
    jobs = [a_job() for _ in range(9)]
    guilty = str(jobs[4].id)
    lane.script.refuse = lambda questions: DataRefused("a value") if guilty in _ids(questions) else None
    for job in jobs:
        lane.intake(job)
    lane.leader.start()
    until(lambda: len(lane.tables.jobs) == 8, 20)
    until(lambda: lane.tables.quarantine)
    assert [event.message.offset for event in lane.tables.quarantine] == [4]
    assert guilty not in lane.tables.jobs


def test_L18_no_message_is_blamed_for_what_fails_without_it(lane: Leadership) -> None:
    failures: list[int] = []

    def refuse(_: Questions) -> Exception | None:
        if len(failures) < 3:
            failures.append(1)
            return DataRefused("a command, say")
        return None

    lane.script.refuse = refuse
    lane.intake(job := a_job())
    lane.leader.start()
    until(lambda: str(job.id) in lane.tables.jobs, 20)
    assert not lane.tables.quarantine


@pytest.mark.parametrize("error", [PendingMoved("rewritten"), ServiceUnavailable("no partition")])
def test_L18_a_rewritten_table_or_a_missing_partition_blames_nobody(lane: Leadership, error: Exception) -> None:
    failures: list[int] = []

    def refuse(questions: Questions) -> Exception | None:
        if _ids(questions) and len(failures) < 3:
            failures.append(1)
            return error
        return None

    lane.script.refuse = refuse
    lane.intake(job := a_job())
    lane.leader.start()
    until(lambda: str(job.id) in lane.tables.jobs, 20)
    assert not lane.tables.quarantine


def test_C5_a_leader_that_slept_between_commit_and_sending_sends_nothing_and_takes_over(lane: Leadership) -> None:
    slept: list[bool] = []

    def after(term: Term) -> None:
        if not slept and lane.tables.bundles:
            slept.append(True)
            term.trusted_until = monotonic() - 1

    lane.script.after_write = after
    lane.hello()
    lane.intake(a_job())
    lane.leader.start()
    until(lane.bundles)
    assert {bundle.epoch for bundle in lane.bundles()} == {2}  # nothing was sent under the first


def test_T1_a_lane_that_somebody_else_leads_is_left_alone(lane: Leadership) -> None:
    lane.tables.leader, lane.tables.lease_until = "other", lane.tables.now() + 60
    lane.leader.start()
    assert lane.leader.join(10)
    assert lane.script.happened == ["not free"]


def test_T1_an_epoch_that_only_an_agent_knows_is_taken_over_above(lane: Leadership) -> None:
    lane.hello()
    lane.leader.start()
    until(lane.controls)
    lane.heartbeat(epoch=41)
    until(lambda: lane.tables.epoch > 41)
    until(lambda: [m for m in lane.controls() if isinstance(m, Fenced) and m.epoch > 41])  # it may have run what this database has not seen


@pytest.mark.parametrize("every_s", [60.0, 0.1])
def test_T1_whoever_claims_a_restored_backup_again_and_again_is_believed_now_and_then(every_s: float, lane: Leadership) -> None:
    """It costs every agent its jobs: so the lane has time to work between two claims."""
    lane.rules = replace(lane.rules, restored_every_s=every_s)
    lane.leader = lane.another("me")
    lane.hello()
    lane.leader.start()
    until(lane.controls)
    lane.heartbeat(epoch=41)
    until(lambda: lane.tables.epoch == 42)
    offset = lane.heartbeat(epoch=99)
    if every_s < 1:
        until(lambda: lane.tables.epoch == 100)
    else:
        until(lambda: lane.tables.offsets[REPORTS][1] > offset + 10)
        assert lane.tables.epoch == 42


def test_T3_with_a_new_intake_topic_reading_starts_at_its_beginning(lane: Leadership) -> None:
    lane.tables.offsets[INTAKE] = ("another id", 7)
    lane.intake(job := a_job())
    lane.leader.start()
    until(lambda: str(job.id) in lane.tables.jobs)


def test_T3_an_offset_beyond_the_end_is_a_lost_tail(lane: Leadership) -> None:
    lane.tables.offsets[INTAKE] = (f"id-{INTAKE}", 7)
    lane.intake(job := a_job())
    lane.leader.start()
    until(lambda: str(job.id) in lane.tables.jobs)


def test_T5_T6_a_new_leader_welcomes_again_and_sends_what_is_open(lane: Leadership) -> None:
    lane.hello()
    lane.intake(a_job())
    lane.leader.start()
    until(lane.bundles)
    lane.stop()
    assert lane.script.happened[-1] == "release"
    lane.script.happened.clear()
    lane.leader = lane.another("other")
    lane.leader.start()
    until(lambda: len(lane.bundles()) == 2)
    first, again = lane.bundles()
    assert (again.fence, again.epoch) == (first.fence, 2)
    assert [type(message) for message in lane.controls() if message.epoch == 2][:1] == [Welcome]
    assert lane.script.happened[:2] == ["seize", "write"]


def test_T7_a_silent_agent_is_lost_only_after_the_reports_were_read_to_their_end(lane: Leadership) -> None:
    lane.hello(lives=False)
    lane.leader.start()
    until(lane.controls)
    until(lambda: any(isinstance(message, Fenced) for message in lane.controls()), 20)
    assert next(message for message in lane.controls() if isinstance(message, Fenced)).reason == "lost"


def test_T8_placing_need_not_wait_for_silent_agents(lane: Leadership) -> None:
    lane.hello()
    lane.intake(a_job())
    lane.leader.start()
    until(lane.bundles, 0.6 + 5)


def test_L17_a_topic_made_again_while_it_leads_ends_in_a_new_epoch(lane: Leadership) -> None:
    lane.hello()
    lane.leader.start()
    until(lane.controls)
    lane.admin.ids[TOPICS.buckets.name] = "made again"
    until(lambda: lane.tables.epoch == 2)
    until(lambda: [m for m in lane.controls() if isinstance(m, Welcome) and m.epoch == 2])
    welcome = next(m for m in lane.controls() if isinstance(m, Welcome) and m.epoch == 2)
    assert {(bucket.topic_id, bucket.start_offset) for bucket in welcome.buckets} == {("made again", 0)}


def test_L17_a_buckets_topic_made_again_with_too_few_partitions_grows(lane: Leadership) -> None:
    lane.admin.count = 150
    lane.hello()
    lane.leader.start()
    until(lane.controls)
    lane.stop()
    lane.admin.ids[TOPICS.buckets.name] = "made again"
    lane.admin.count = 3
    lane.leader = lane.another("other")
    lane.leader.start()
    until(lambda: lane.tables.epoch == 2 and lane.admin.count == 50)


def test_L20_nothing_above_the_committed_offset_is_deleted(lane: Leadership) -> None:
    lane.intake(a_job())
    lane.leader.start()
    until(lambda: lane.admin.deleted.get(INTAKE) == 1)
    assert lane.tables.offsets[INTAKE][1] == 1


def test_L24_a_lane_whose_kafka_is_silent_is_given_up(lane: Leadership) -> None:
    lane.leader.start()
    until(lambda: "write" in lane.script.happened)
    lane.make_topics = lambda: lane.admin.topic_ids([INTAKE])
    lane.admin.silent = True
    until(lambda: lane.tables.lease_until <= lane.tables.now())
    lane.admin.silent = False
    lane.intake(job := a_job())
    until(lambda: str(job.id) in lane.tables.jobs)


def test_topics_that_are_not_as_they_must_be_keep_the_lane_unled_and_it_is_tried_again(lane: Leadership) -> None:
    tries: list[int] = []

    def make() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ConfigurationError("retention.ms of ns.default.intake is 1")

    lane.make_topics = make
    lane.leader.start()
    until(lambda: "write" in lane.script.happened)
    assert len(tries) == 3


def test_L18_no_message_is_suspected_of_what_a_thread_failed_of() -> None:
    inbox = Inbox(10)
    clock, parts = RealClock(), Mock()
    parts.wait_s.return_value = 0.0
    tick = Tick(parts, parts, inbox, parts, parts, parts, parts, clock, Term(1, 0.0, 0.0), {})
    tick.taken = [("in", 1)]  # of the tick before
    inbox.fail(KeyError("a bug in the reader"))
    with pytest.raises(KeyError):
        tick.run(10)
    assert tick.taken == []


def test_a_failed_thread_costs_a_take_over_and_no_job(lane: Leadership) -> None:
    lane.leader.start()
    until(lambda: lane.sources and lane.sources[-1].assigned)
    lane.sources[-1].broken = True
    until(lambda: lane.tables.epoch == 2)
    lane.intake(job := a_job())
    until(lambda: str(job.id) in lane.tables.jobs)
    assert not lane.tables.quarantine


def test_T4_a_database_clock_that_was_set_costs_a_take_over_and_no_agent(lane: Leadership) -> None:
    """What was heard before is not to be compared with times of now: else all agents would have been silent for an hour."""
    lane.hello()
    lane.leader.start()
    lane.intake(job := a_job())
    until(lane.bundles)
    lane.clocks[-1].set_s = 3600.0
    until(lambda: lane.tables.epoch == 2)
    until(lambda: len(lane.bundles()) >= 2)
    assert [one.id for one in lane.bundles()[-1].jobs] == [job.id]
    assert not lane.tables.agent_ended


def test_leaderships_that_the_services_fail_pause_though_small_ticks_go_through(lane: Leadership) -> None:
    """A full disk has room for a little: taking over ten times a second would be a load of its own."""
    took: list[float] = []

    def refuse(questions: Questions) -> Exception | None:
        return ServiceUnavailable("its disk is full") if _ids(questions) else None

    lane.script.refuse = refuse
    lane.script.seized = lambda: took.append(monotonic())
    lane.intake(a_job())
    lane.leader.start()
    until(lambda: len(took) >= 4, 20)
    assert took[3] - took[0] >= 0.1 + 0.3 + 1.0
