"""Cancels (L13)."""

import pytest
from lane_world import T0, World

from jobyard.contracts.control import Cancel
from jobyard.contracts.states import Outcome, State


def with_job(max_attempts: int = 5, **agents: tuple[float, int]) -> World:
    world = World()
    world.fleet(**(agents or {"a": (100, 10)}))
    world.job("j", max_attempts=max_attempts)
    world.tick()
    return world


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
