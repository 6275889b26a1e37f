"""What becomes of a job whose attempt ended: final, or again (L7 to L9)."""

import pytest
from lane_world import T0, World, of

from jobyard.contracts.job import Job
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
