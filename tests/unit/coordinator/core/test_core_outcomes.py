"""What becomes of a job whose attempt ended: final, again, or late (L7 to L9, L13, L14)."""

import pytest
from lane_world import T0, World, a_job_id, of

from jobyard.contracts.control import Cancel
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End, Finished, Released, Started
from jobyard.contracts.retry import LONGEST_DELAY_S, Retrying
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as happened
from jobyard.coordinator.core.closing import MOST_PLACEMENTS


def with_job(max_attempts: int = 5, **agents: tuple[float, int]) -> World:
    world = World()
    world.fleet(**(agents or {"a": (100, 10)}))
    world.job("j", max_attempts=max_attempts)
    world.tick()
    return world


def run_at(world: World, name: str = "j") -> float:
    return world.tables.pending[world.ids[name]].run_at - T0


def test_success_is_final() -> None:
    world = with_job()
    world.finish("j")
    events = world.tick(1)
    assert world.state("j") == State.SUCCEEDED
    assert world.tables.bundles == {}
    (ended,) = of(events, happened.Ended)
    assert isinstance(ended, happened.Ended)
    assert (ended.used, ended.finals) == ([0], [State.SUCCEEDED])


def test_rows_that_the_reader_made_are_carried_unopened() -> None:
    world = with_job()
    world.now = 1.0
    world.finish("j")
    world.batch.reports[0].rows[0] = ["text"]
    (ended,) = of(world.tick(1), happened.Ended)
    assert isinstance(ended, happened.Ended)
    assert ended.rows == ["text"]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED])
def test_a_failure_uses_an_attempt_and_waits_for_the_proposed_delay(outcome: Outcome) -> None:
    world = with_job()
    world.finish("j", outcome, delay_s=7.0)
    world.tick(1)
    row = world.tables.pending[world.ids["j"]]
    assert (row.used, row.attempt, row.why, run_at(world)) == (1, 1, "r", 8.0)


def test_without_a_proposal_the_jobs_policy_decides() -> None:
    world = World()
    world.fleet(a=(100, 10))
    policy = Retrying(backoff="constant", base_s=10.0, jitter=0.0)
    world.tables.submit(Job(id=world.id("j"), kind="k", run_at=T0, retry=policy))
    world.tick()
    world.tick()
    world.finish("j", Outcome.FAILED)
    world.tick(1)
    assert run_at(world) == 11.0


def test_a_retry_runs_when_its_delay_is_over() -> None:
    world = with_job()
    world.finish("j", Outcome.FAILED, delay_s=3.0)
    world.tick(1)
    assert world.lane.next_at(T0 + 1) == T0 + 4.0
    assert world.placed(world.tick(3.9)) == ""
    assert world.placed(world.tick(4.0)) == "j>a"
    assert world.bundle("j").attempts == [2]
    assert world.bundle("j").used == [1]


def test_the_last_failure_is_final() -> None:
    world = with_job(max_attempts=2)
    for at in (1.0, 3.0):
        world.finish("j", Outcome.FAILED, delay_s=0.0)
        world.tick(at)
        world.tick(at + 1)
    assert world.state("j") == State.FAILED
    assert [row.used for row in world.attempts("j")] == [1, 2]


def test_not_retryable_is_final_at_once() -> None:
    world = with_job()
    world.finish("j", Outcome.FAILED, retryable=False)
    world.tick(1)
    assert world.state("j") == State.FAILED


def test_a_snooze_uses_nothing_and_is_bounded() -> None:
    world = with_job(max_attempts=1)
    world.finish("j", Outcome.SNOOZED, delay_s=1e12)
    world.tick(1)
    row = world.tables.pending[world.ids["j"]]
    assert (row.used, row.why, run_at(world)) == (0, "s", 1.0 + LONGEST_DELAY_S)


def test_released_waits_in_its_old_place_and_uses_nothing() -> None:
    world = with_job()
    world.beat("a", draining=True)
    world.release("j")
    world.tick(1)
    row = world.tables.pending[world.ids["j"]]
    assert (row.used, row.attempt, row.why, run_at(world)) == (0, 1, "l", 0.0)
    assert world.outcomes("j") == ["released"]


def test_L8_everything_that_leaves_a_bundle_writes_its_attempt() -> None:
    world = with_job(a=(100, 10), b=(100, 10))
    world.release("j")
    world.tick(1)
    world.silent_until(30)
    assert world.outcomes("j") == ["released", "lost"]
    assert [row.attempt for row in world.attempts("j")] == [1, 2]


def test_L7_started_of_a_careful_job_writes_its_row_in_the_tick_that_reads_it() -> None:
    world = with_job(max_attempts=1)
    world.started("j")
    assert of(world.tick(1), happened.Started)
    assert world.state("j") == State.RUNNING


def test_L7_no_row_if_the_same_tick_ends_it() -> None:
    world = with_job(max_attempts=1)
    world.started("j")
    world.finish("j")
    assert not of(world.tick(1), happened.Started)
    assert world.state("j") == State.SUCCEEDED


def test_progress_is_told_once_a_tick_and_never_goes_back() -> None:
    world = with_job()
    world.progress("j", 1.0)
    world.progress("j", 2.0)
    (told,) = of(world.tick(1), happened.Progressed)
    assert isinstance(told, happened.Progressed)
    assert told.done == 2.0
    world.progress("j", 1.0, seq=1)  # a repeated message
    assert not of(world.tick(2), happened.Progressed)


def test_L9_an_interruption_uses_nothing_but_with_one_attempt_it_ends_the_job() -> None:
    world = with_job(max_attempts=2)
    world.finish("j", Outcome.INTERRUPTED)
    world.tick(1)
    assert [row.used for row in world.attempts("j")] == [0]
    assert world.attempts("j")[0].final is None
    once = with_job(max_attempts=1)
    once.finish("j", Outcome.INTERRUPTED)
    once.tick(1)
    assert once.state("j") == State.FAILED
    assert once.outcomes("j") == ["interrupted"]


def test_L9_one_attempt_stays_one_after_a_retry_by_hand() -> None:
    world = with_job(max_attempts=1)
    world.finish("j", Outcome.FAILED)
    world.tick(1)
    world.tables.command("retry", world.ids["j"])
    world.tick(2)
    assert world.state("j") == State.PLACED
    world.finish("j", Outcome.INTERRUPTED)
    world.tick(3)
    assert world.state("j") == State.FAILED


def test_L9_interruptions_have_a_bound_of_their_own() -> None:
    world = with_job(max_attempts=2)
    for step in range(1, 13):
        world.finish("j", Outcome.INTERRUPTED)
        world.tick(float(step))
    assert [row.used for row in world.attempts("j")] == [0] * 10 + [1, 2]
    assert world.state("j") == State.FAILED


def test_a_stop_that_nobody_asked_for_is_an_interruption() -> None:
    world = with_job(max_attempts=2)
    world.finish("j", Outcome.CANCELLED)
    world.tick(1)
    assert world.state("j") == State.PLACED  # again
    assert [row.used for row in world.attempts("j")] == [0]


def test_a_job_that_never_gets_on_ends_as_failed() -> None:
    world = with_job()
    bundle = world.lane.message(happened.Resent(world.bundle("j").fence))
    assert bundle is not None
    world.bundle("j").attempts[0] = MOST_PLACEMENTS
    world.release("j")
    world.tick(1)
    (row,) = world.attempts("j")
    assert (row.outcome, row.final) == (Outcome.RELEASED, State.FAILED)
    assert row.error is not None
    assert "32000" in row.error.message


def test_wrong_clocks_are_mended() -> None:
    world = with_job()
    world.finish("j", ended_at=-90_000.0)
    world.batch.reports[0].rows[0] = ["text"]
    (ended,) = of(world.tick(1), happened.Ended)
    assert isinstance(ended, happened.Ended)
    assert ended.rows is None
    assert world.attempts("j")[0].ended_at == T0 + 1.0


def test_a_retry_by_hand_is_never_hidden_by_a_fast_or_slow_clock() -> None:
    world = with_job(max_attempts=1)
    world.finish("j", Outcome.FAILED, ended_at=500.0)  # its clock is ahead
    world.tick(1)
    assert world.attempts("j")[0].ended_at <= T0 + 1.0
    world.tables.command("retry", world.ids["j"])
    world.tick(2)
    world.finish("j", Outcome.FAILED, ended_at=-500.0)  # another's is behind
    world.tick(3)
    assert world.attempts("j")[1].ended_at > world.tables.reopened[world.ids["j"]][0][1].at


# -- L14


def test_L14_a_forged_report_goes_to_quarantine() -> None:
    world = with_job(a=(100, 10), b=(100, 10))
    world.finish("j", agent=world.agents["b"])
    world.tick(1)
    assert world.state("j") == State.PLACED
    assert "belongs to" in world.tables.quarantine[0].message.reason


def test_L14_a_wrong_attempt_or_outcome_is_forged_too() -> None:
    world = with_job()
    fence, end = world.an_end("j")
    world.say(world.agents["a"], Finished(fence=fence, ends=[End(end.job, 2, end.outcome, None, end.ended_at)]))
    world.say(world.agents["a"], Finished(fence=fence, ends=[End(end.job, 1, Outcome.LOST, None, end.ended_at)]))
    world.say(world.agents["a"], Released(fence=fence, jobs=[(end.job, 9)]))
    world.say(world.agents["a"], Started(fence=fence, job=end.job, attempt=9, at=T0))
    world.tick(1)
    assert world.state("j") == State.PLACED
    assert len(world.tables.quarantine) == 4


def test_L14_a_duplicate_leaves_no_trace() -> None:
    world = with_job()
    fence, end = world.finish("j")
    world.say(world.agents["a"], Finished(fence=fence, ends=[end, end]))
    world.tick(1)
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    events = world.tick(2)
    assert not of(events, happened.LateReported)
    assert not of(events, happened.Quarantined)
    assert len(world.attempts("j")) == 1


def test_L14_a_report_of_a_fence_that_never_was_is_dropped() -> None:
    world = with_job()
    world.say(world.agents["a"], Finished(fence=77, ends=[End(a_job_id(99), 1, Outcome.SUCCEEDED, None, T0)]))
    assert not of(world.tick(1), happened.LateReported)


def lost_elsewhere() -> tuple[World, int, End]:
    """j was on a, which was lost; now it is placed on b."""
    world = with_job(a=(100, 10), b=(200, 20))
    fence, end = world.an_end("j")
    assert world.where("j") == "a"
    world.now = 14.0
    world.beat("b")
    world.silent_until(15.0)
    assert world.where("j") == "b"
    return world, fence, end


def test_L14_late_success_closes_the_job() -> None:
    world, fence, end = lost_elsewhere()
    newer = world.bundle("j").fence
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    world.tick(16)
    assert world.state("j") == State.SUCCEEDED
    assert world.outcomes("j") == ["lost", "superseded"]
    assert world.tables.late[world.ids["j"], fence].closed_job
    (cancel,) = world.said(Cancel)
    assert isinstance(cancel.body, Cancel)
    assert (cancel.body.fence, cancel.body.agent) == (newer, "b")
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    world.tick(17)  # told twice: kept once
    assert len(world.tables.late) == 1


def test_L14_late_success_takes_a_waiting_job() -> None:
    world, fence, end = lost_elsewhere()
    world.finish("j", Outcome.FAILED, delay_s=100.0)
    world.tick(16)
    assert world.state("j") == State.PENDING
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    world.tick(17)
    assert world.state("j") == State.SUCCEEDED
    assert world.tables.pending == {}
    assert world.placed(world.tick(200)) == ""


def test_L14_late_success_of_a_job_that_waits_since_this_very_tick() -> None:
    world, fence, end = lost_elsewhere()
    world.finish("j", Outcome.FAILED, delay_s=100.0)
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    world.tick(16)
    assert world.state("j") == State.SUCCEEDED
    assert world.tables.pending == {}


def test_L14_a_final_job_never_changes() -> None:
    world, fence, end = lost_elsewhere()
    world.finish("j", Outcome.FAILED, retryable=False)
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    world.tick(16)
    assert world.state("j") == State.FAILED
    assert not world.tables.late[world.ids["j"], fence].closed_job


def test_L14_a_late_failure_is_kept_and_closes_nothing() -> None:
    world, fence, end = lost_elsewhere()
    world.say(world.agents["a"], Finished(fence=fence, ends=[End(end.job, 1, Outcome.FAILED, end.started_at, end.ended_at)]))
    world.tick(16)
    assert world.where("j") == "b"
    assert world.tables.late[world.ids["j"], fence].outcome == Outcome.FAILED


def test_L14_a_forged_late_report_goes_to_quarantine() -> None:
    world, fence, end = lost_elsewhere()
    world.say(world.agents["b"], Finished(fence=fence, ends=[end]))
    world.tick(16)
    assert world.where("j") == "b"
    assert world.tables.late == {}
    assert len(world.tables.quarantine) == 1


def test_L14_two_late_successes_close_once() -> None:
    world, first, end = lost_elsewhere()
    second, other = world.an_end("j")
    world.join("c", 300, 30)
    world.now = 29.5
    world.beat("c")
    world.silent_until(30.0)
    assert world.where("j") == "c"
    world.say(world.agents["a"], Finished(fence=first, ends=[end]))
    world.say(world.agents["b"], Finished(fence=second, ends=[other]))
    world.tick(31)
    assert world.state("j") == State.SUCCEEDED
    assert [world.tables.late[world.ids["j"], fence].closed_job for fence in (first, second)] == [True, False]


# -- L13


def test_L13_cancel_of_a_waiting_job_is_final_at_once() -> None:
    world = World()
    world.job("j")
    world.tick()
    world.tables.command("cancel", world.ids["j"], {"reason": "enough"})
    world.tick(1)
    assert world.state("j") == State.CANCELLED
    assert world.tables.pending == {}


def test_L13_cancel_of_a_job_that_only_the_tables_hold() -> None:
    world = World()
    world.fleet(a=(100, 10))
    world.submit("j", due=1_000.0)
    number = world.tables.command("cancel", world.ids["j"])
    world.tick(1)
    assert world.state("j") == State.CANCELLED
    assert world.tables.commands[number].answer == (None, "cancelled")


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.SUCCEEDED, State.SUCCEEDED),
        (Outcome.CANCELLED, State.CANCELLED),
        (Outcome.FAILED, State.CANCELLED),
        (Outcome.SNOOZED, State.CANCELLED),
        (Outcome.INTERRUPTED, State.CANCELLED),
    ],
)
def test_L13_the_agents_answer_decides(outcome: Outcome, state: State) -> None:
    world = with_job()
    number = world.tables.command("cancel", world.ids["j"], {"reason": "enough"})
    world.tick(1)
    answer = world.tables.commands[number].answer
    assert answer is not None
    assert answer[0] is None
    assert len(world.said(Cancel)) == 1
    world.finish("j", outcome)
    world.tick(2)
    assert world.state("j") == state


def test_L13_a_lost_or_released_one_is_cancelled_without_retry() -> None:
    world = with_job()
    world.tables.command("cancel", world.ids["j"])
    world.tick(1)
    world.silent_until(16)
    assert world.state("j") == State.CANCELLED
    other = with_job()
    other.tables.command("cancel", other.ids["j"])
    other.tick(1)
    other.release("j")
    other.tick(2)
    assert other.state("j") == State.CANCELLED


def test_L13_cancel_is_sent_again_until_the_agent_answers() -> None:
    world = with_job()
    world.tables.command("cancel", world.ids["j"])
    world.tick(1)
    assert world.lane.next_at(T0 + 1) == T0 + 5.0  # the agent's silence
    world.beat("a")
    world.tick(4)
    assert len(world.said(Cancel)) == 1
    world.tick(6)
    world.tick(7)
    assert len(world.said(Cancel)) == 2
    world.finish("j", Outcome.CANCELLED)
    world.tick(8)
    world.tick(20)
    assert len(world.said(Cancel)) == 2


def test_L13_a_cancel_survives_a_take_over() -> None:
    world = with_job()
    world.tables.command("cancel", world.ids["j"], {"reason": "enough"})
    world.tick(1)
    world.lead()
    assert len(world.said(Cancel)) == 2
    world.finish("j", Outcome.FAILED)
    world.tick(2)
    assert world.state("j") == State.CANCELLED
