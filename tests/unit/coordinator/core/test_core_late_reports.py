"""Reports that are late, twice there, or forged (L14)."""

import pytest
from lane_world import T0, World, a_job_id, of

from jobyard.contracts.control import Cancel
from jobyard.contracts.reports import End, Finished, Released, Started
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as happened


def with_job(max_attempts: int = 5, **agents: tuple[float, int]) -> World:
    world = World()
    world.fleet(**(agents or {"a": (100, 10)}))
    world.job("j", max_attempts=max_attempts)
    world.tick()
    return world


def test_L14_a_forged_report_goes_to_quarantine() -> None:
    world = with_job(a=(100, 10), b=(100, 10))
    world.finish("j", agent=world.agents["b"])
    world.tick(1)
    assert world.state("j") == State.PLACED
    assert "belongs to" in world.tables.quarantine[0].message.reason
    assert world.tables.quarantine[0].message.offset == world.agents["b"].seq  # as the world numbers what it says


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


@pytest.mark.parametrize("fence", [0, 1, 77, 2**62 - 1])
def test_L14_a_report_of_what_was_never_placed_is_forged(fence: int) -> None:
    world = with_job()
    world.say(world.agents["a"], Finished(fence=fence, ends=[End(a_job_id(99), 1, Outcome.SUCCEEDED, None, T0)]))
    world.say(world.agents["a"], Released(fence=fence, jobs=[(a_job_id(98), 1)]))
    events = world.tick(1)
    assert not of(events, happened.LateReported)
    kept = [event.message for event in events if isinstance(event, happened.Quarantined)]
    assert [one.offset for one in kept] == [2, 3]
    assert all(f"under fence {fence}: no attempt of the job was ever placed under it" in one.reason for one in kept)


def test_L14_an_end_that_comes_twice_in_one_tick_is_no_forgery() -> None:
    world = with_job()
    _, end = world.finish("j")
    fence = world.bundle("j").fence
    world.say(world.agents["a"], Finished(fence=fence, ends=[end]))
    assert not of(world.tick(1), happened.Quarantined)


def test_L14_a_late_report_of_another_incarnation_is_quarantined_by_its_offset() -> None:
    world, fence, end = lost_elsewhere()
    world.say(world.agents["b"], Finished(fence=fence, ends=[end]))
    (kept,) = [event.message for event in world.tick() if isinstance(event, happened.Quarantined)]
    assert kept.offset == world.agents["b"].seq
    assert "it belonged to" in kept.reason


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
