"""The guarantees of the acceptance tests tell what they are there to tell: a run that broke a promise is never taken for a good one."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import guarantees
import pytest
from guarantees import EITHER, Evidence, Execution, Expected, InterruptedOnlyOf, LostOnlyOf, Row, read_journal

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def attempt(number: int, outcome: str, *, fence: int | None = None, agent: str = "anna") -> Row:
    return {"attempt": number, "fence": fence or number * 10, "outcome": outcome, "agent": agent, "is_final": outcome == "succeeded"}


def ran(job: str, number: int, started: float, ended: float | None, *, returned: bool = True, fence: int | None = None) -> Execution:
    return Execution(job, number, fence or number * 10, 1, started, ended, returned and ended is not None)


def good() -> Evidence:
    """Job a succeeded at once; b was lost, ran again, and its late success came when it had ended; c, with a single attempt, was lost."""
    return Evidence(
        submitted={"a": Expected(result=1), "b": Expected(result=2), "c": Expected(EITHER, 3)},
        status={
            "a": [{"kind": "k", "state": "succeeded", "result": 1, "error_type": None}],
            "b": [{"kind": "k", "state": "succeeded", "result": 2, "error_type": None}],
            "c": [{"kind": "k", "state": "failed", "result": None, "error_type": "Lost"}],
        },
        jobs={"a": {"max_attempts": 5}, "b": {"max_attempts": 5}, "c": {"max_attempts": 1}},
        attempts={
            "a": [attempt(1, "succeeded")],
            "b": [attempt(1, "lost"), attempt(2, "succeeded", agent="bert")],
            "c": [attempt(1, "lost")],
        },
        finals={job: [{"final": "succeeded", "by": "attempt", "at": BEGAN}] for job in ("a", "b", "c")},
        reopened={},
        late={"b": [{"fence": 10, "outcome": "succeeded", "closed_job": False, "at": BEGAN + timedelta(seconds=1), "result": 2}]},
        executions={"a": [ran("a", 1, 0.0, 1.0)], "b": [ran("b", 1, 0.0, 9.0), ran("b", 2, 5.0, 6.0)], "c": [ran("c", 1, 0.0, None)]},
    )


def with_(evidence: Evidence, what: str, job: str, value: object) -> Evidence:
    """The same evidence with another entry for one job."""
    changes: dict[str, Any] = {what: {**getattr(evidence, what), job: value}}
    return replace(evidence, **changes)


def without(evidence: Evidence, what: str, job: str) -> Evidence:
    changes: dict[str, Any] = {what: {key: value for key, value in getattr(evidence, what).items() if key != job}}
    return replace(evidence, **changes)


WRONG: dict[str, tuple[Callable[[Evidence], Evidence], str]] = {
    "a job is not there": (lambda e: without(e, "status", "a"), "NothingLost: job a stands in 0 states"),
    "a job stands in two places": (lambda e: with_(e, "status", "a", e.status["a"] * 2), "NothingLost: job a stands in 2 states"),
    "a job failed that can't": (
        lambda e: with_(e, "status", "a", [{"kind": "k", "state": "failed", "result": None, "error_type": "X"}]),
        "NothingLost: k job a is failed",
    ),
    "another job's result": (
        lambda e: with_(e, "status", "a", [{"kind": "k", "state": "succeeded", "result": 2, "error_type": None}]),
        "NothingLost: k job a gave 2",
    ),
    "a job that nobody sent ran": (lambda e: with_(e, "executions", "x", []), "NothingLost: job x was never submitted"),
    "something is left open": (lambda e: replace(e, left_open=[{"job_id": "a", "place": "placed"}]), "NothingLost: job a is still placed"),
    "two ends": (lambda e: with_(e, "finals", "a", e.finals["a"] * 2), "EachEndsOnce: job a has 2 final rows"),
    "a gap": (lambda e: with_(e, "attempts", "a", [attempt(2, "succeeded", fence=10)]), "AttemptsComplete: job a has attempts [2]"),
    "a fence twice": (
        lambda e: with_(e, "attempts", "b", [attempt(1, "lost"), attempt(2, "succeeded", fence=10)]),
        "AttemptsComplete: job b has fences [10, 10]",
    ),
    "a run without a row": (
        lambda e: with_(e, "executions", "a", [*e.executions["a"], ran("a", 1, 2.0, 3.0, fence=11)]),
        "AttemptsComplete: job a ran as attempt 1 under fence 11, which has no row",
    ),
    "a released attempt ran": (lambda e: with_(e, "attempts", "a", [attempt(1, "released")]), "which is said not to have started"),
    "an end without a run": (lambda e: without(e, "executions", "a"), "attempt 1 of job a succeeded, but no handler ended"),
    "again after success": (
        lambda e: with_(
            with_(e, "executions", "a", [ran("a", 1, 0, 1), ran("a", 2, 2, 3)]),
            "attempts",
            "a",
            [attempt(1, "failed"), attempt(2, "succeeded")],
        ),
        "DoubledOnlyWhereLost: job a was started as attempt 2",
    ),
    "beside another": (
        lambda e: with_(
            with_(e, "executions", "a", [ran("a", 1, 0, 9, returned=False), ran("a", 2, 2, 3)]),
            "attempts",
            "a",
            [attempt(1, "failed"), attempt(2, "succeeded")],
        ),
        "DoubledOnlyWhereLost: job a was started as attempt 2",
    ),
    "the same attempt twice": (
        lambda e: with_(e, "executions", "b", [ran("b", 1, 0, 1), ran("b", 1, 5, 6)]),
        "DoubledOnlyWhereLost: job b was started as attempt 1 beside or after attempt 1",
    ),
    "a single attempt twice": (
        lambda e: with_(
            with_(e, "executions", "c", [ran("c", 1, 0, None), ran("c", 2, 5, 6)]),
            "attempts",
            "c",
            [attempt(1, "lost"), attempt(2, "succeeded")],
        ),
        "AtMostOnce: job c",
    ),
    "late for what was not lost": (
        lambda e: with_(e, "late", "a", [{**e.late["b"][0]}]),
        "LateChangesNothing: job a has a late report under fence 10, which was not lost",
    ),
    "closed by a late failure": (
        lambda e: with_(e, "late", "b", [{**e.late["b"][0], "outcome": "failed", "closed_job": True}]),
        "LateChangesNothing: job b was closed by a late report that it failed",
    ),
    "a late success that should have counted": (
        lambda e: with_(e, "late", "b", [{**e.late["b"][0], "at": BEGAN - timedelta(seconds=1)}]),
        "LateChangesNothing: job b had not ended when its late success came",
    ),
    "closed late, though ended": (
        lambda e: with_(e, "late", "b", [{**e.late["b"][0], "closed_job": True}]),
        "LateChangesNothing: job b was closed by a late report, and ended so",
    ),
}


def test_a_good_run_passes() -> None:
    guarantees.check(good(), LostOnlyOf(("anna",)), InterruptedOnlyOf())


@pytest.mark.parametrize("what", WRONG)
def test_a_broken_promise_is_told(what: str) -> None:
    change, said = WRONG[what]
    with pytest.raises(AssertionError) as caught:
        guarantees.check(change(good()))
    assert said in str(caught.value)


def test_who_was_touched_is_told() -> None:
    with pytest.raises(AssertionError, match="was lost with agent anna, which nobody touched"):
        guarantees.check(good(), LostOnlyOf(("bert",)))
    with pytest.raises(AssertionError, match="was interrupted by agent anna"):
        guarantees.check(with_(good(), "attempts", "a", [attempt(1, "interrupted")]), InterruptedOnlyOf())


def test_a_journal_is_read_in_order_of_starts_and_two_starts_under_one_fence_are_wrong(tmp_path: Path) -> None:
    def line(event: str, at: float, fence: int) -> str:
        return json.dumps({"job": "a", "attempt": fence, "fence": fence, "pid": 7, "event": event, "at": at}) + "\n"

    journal = tmp_path / "journal"
    assert read_journal(journal) == []
    journal.write_text(line("start", 2.0, 2) + line("start", 1.0, 1) + line("raised", 3.0, 1))
    assert read_journal(journal) == [Execution("a", 1, 1, 7, 1.0, 3.0, False), Execution("a", 2, 2, 7, 2.0, None, False)]
    journal.write_text(line("start", 2.0, 2) + line("start", 3.0, 2))
    with pytest.raises(AssertionError, match="started twice"):
        read_journal(journal)
