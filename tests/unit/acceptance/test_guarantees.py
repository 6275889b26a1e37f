"""The guarantees of the acceptance tests tell what they are there to tell: a run that broke a promise is never taken for a good one."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from promises import guarantees
from promises.guarantees import CANCELLED, EITHER, Evidence, Execution, Expected, InterruptedOnlyOf, Lease, LostOnlyOf, Row, read_journal

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def attempt(number: int, outcome: str, *, fence: int | None = None, agent: str = "anna", used: int | None = None, **more: object) -> Row:
    return {
        "attempt": number,
        "fence": fence or number * 10,
        "outcome": outcome,
        "agent": agent,
        "agent_state": "lost" if outcome == "lost" else "active",
        "is_final": outcome == "succeeded",
        "used": number - (outcome == "succeeded") if used is None else used,
        "placed_at": BEGAN + timedelta(seconds=number),
        "started_at": BEGAN + timedelta(seconds=number + 0.1),
        **more,
    }


def ran(job: str, number: int, started: float, ended: float | None, *, returned: bool = True, fence: int | None = None) -> Execution:
    return Execution(job, number, fence or number * 10, 1, started, ended, returned and ended is not None)


def status(state: str, result: object = None, *, error_type: str | None = None, max_attempts: int = 5) -> list[Row]:
    return [{"kind": "k", "state": state, "result": result, "error_type": error_type, "max_attempts": max_attempts}]


def good() -> Evidence:
    """Job a succeeded at once; b was lost, ran again, and its late success came when it had ended; c, with a single attempt, was lost; d failed,
    snoozed and succeeded; e was cancelled while it ran."""
    succeeded = {"final": "succeeded", "by": "attempt", "at": BEGAN}
    return Evidence(
        submitted={
            "a": Expected(result=1, args={"n": 1}),
            "b": Expected(result=2),
            "c": Expected(EITHER, 3),
            "d": Expected(result=4, snooze_s=3.0),
            "e": Expected(CANCELLED),
        },
        status={
            "a": status("succeeded", 1),
            "b": status("succeeded", 2),
            "c": status("failed", error_type="Lost", max_attempts=1),
            "d": status("succeeded", 4),
            "e": status("cancelled"),
        },
        jobs={
            "a": {"max_attempts": 5, "args": {"n": 1}, "retry": None},
            "b": {"max_attempts": 5, "args": {}, "retry": None},
            "c": {"max_attempts": 1, "args": {}, "retry": None},
            "d": {"max_attempts": 5, "args": {}, "retry": {"base_s": 10.0, "backoff": "constant", "jitter": 0.5}},
            "e": {"max_attempts": 5, "args": {}, "retry": None},
        },
        attempts={
            "a": [attempt(1, "succeeded")],
            "b": [attempt(1, "lost"), attempt(2, "succeeded", agent="bert")],
            "c": [attempt(1, "lost", is_final=True)],
            "d": [attempt(1, "failed"), attempt(2, "snoozed", used=1), attempt(3, "succeeded", used=1)],
            "e": [attempt(1, "cancelled", used=0, is_final=True)],
        },
        finals={
            **{job: [succeeded] for job in ("a", "b", "d")},
            "c": [{"final": "failed", "by": "attempt", "at": BEGAN}],
            "e": [{"final": "cancelled", "by": "attempt", "at": BEGAN}],
        },
        reopened={},
        late={"b": [{"fence": 10, "outcome": "succeeded", "closed_job": False, "at": BEGAN + timedelta(seconds=1), "result": 2}]},
        executions={
            "a": [ran("a", 1, 0.0, 1.0)],
            "b": [ran("b", 1, 0.0, 9.0), ran("b", 2, 5.0, 6.0)],
            "c": [ran("c", 1, 0.0, None)],
            "d": [ran("d", 1, 0.0, 1.0, returned=False), ran("d", 2, 6.0, 7.0, returned=False), ran("d", 3, 10.0, 11.0)],
            "e": [ran("e", 1, 0.0, 1.0, returned=False)],
        },
        cancels={"e": [{"at": BEGAN + timedelta(seconds=9)}]},
        quarantine=[{"topic": "intake", "offset": 7, "reason": "id x is 30 days old", "body": "{}"}],
        bad=["x is 30 days old"],
        leases=[Lease(1, 20, {"intake": ("t", 1)}), Lease(2, 30, {"intake": ("t", 1)}), Lease(2, 31, {"intake": ("u", 0)})],
        living=[1],
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
        lambda e: with_(e, "status", "a", status("failed", error_type="X")),
        "NothingLost: k job a is failed",
    ),
    "another job's result": (
        lambda e: with_(e, "status", "a", status("succeeded", 2)),
        "NothingLost: k job a gave 2",
    ),
    "a job that nobody sent ran": (lambda e: with_(e, "executions", "x", []), "NothingLost: job x was never submitted"),
    "something is left open": (
        lambda e: replace(e, left_open=[{"job_id": "a", "place": "placed"}]),
        "NothingLeftOpen: job a is still placed",
    ),
    "two ends": (lambda e: with_(e, "finals", "a", e.finals["a"] * 2), "EachEndsOnce: job a has 2 final rows"),
    "a gap": (lambda e: with_(e, "attempts", "a", [attempt(2, "succeeded", fence=10)]), "EachAttemptIsTold: job a has attempts [2]"),
    "a fence twice": (
        lambda e: with_(e, "attempts", "b", [attempt(1, "lost"), attempt(2, "succeeded", fence=10)]),
        "EachAttemptIsTold: job b has fences [10, 10]",
    ),
    "a run without a row": (
        lambda e: with_(e, "executions", "a", [*e.executions["a"], ran("a", 1, 2.0, 3.0, fence=11)]),
        "EachAttemptIsTold: job a ran as attempt 1 under fence 11, which has no row",
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
    "told as another state than the final one": (
        lambda e: with_(e, "finals", "a", [{"final": "failed", "by": "attempt", "at": BEGAN}]),
        "EachEndsOnce: job a ended as failed, and is told to be ['succeeded']",
    ),
    "an attempt after the end": (
        lambda e: with_(e, "attempts", "b", [attempt(1, "succeeded"), attempt(2, "succeeded")]),
        "EachEndsOnce: job b has an attempt after its final one",
    ),
    "again after success, by the rows": (
        lambda e: with_(e, "attempts", "b", [attempt(1, "succeeded"), attempt(2, "succeeded")]),
        "RunsAgainOnlyForAReason: attempt 2 of job b was made though attempt 1 succeeded",
    ),
    "an attempt that is not counted": (
        lambda e: with_(e, "attempts", "b", [attempt(1, "lost", used=0), attempt(2, "succeeded", used=1)]),
        "RunsAgainOnlyForAReason: attempt 1 of job b says that 0 attempts are used, not 1",
    ),
    "a snooze that is counted": (
        lambda e: with_(e, "attempts", "d", [attempt(1, "failed"), attempt(2, "snoozed"), attempt(3, "succeeded")]),
        "RunsAgainOnlyForAReason: attempt 2 of job d says that 2 attempts are used, not 1",
    ),
    "an interruption of a single attempt that is not counted": (
        lambda e: with_(e, "attempts", "c", [attempt(1, "interrupted", used=0)]),
        "RunsAgainOnlyForAReason: attempt 1 of job c says that 0 attempts are used, not 1",
    ),
    "more attempts than are allowed": (
        lambda e: with_(e, "status", "b", status("succeeded", 2, max_attempts=0)),
        "RunsAgainOnlyForAReason: job b has used 1 attempts of 0",
    ),
    "given up too early": (
        lambda e: with_(e, "status", "c", status("failed", max_attempts=2)),
        "RunsAgainOnlyForAReason: job c failed after 1 attempts of 2",
    ),
    "again before its time": (
        lambda e: with_(e, "executions", "d", [ran("d", 1, 0.0, 1.0, returned=False), ran("d", 2, 5.5, 6.0), ran("d", 3, 10.0, 11.0)]),
        "RunsAgainOnlyForAReason: attempt 2 of job d started 4.500 s after attempt 1 failed, not 5.000 s",
    ),
    "woken before its time": (
        lambda e: with_(e, "executions", "d", [*e.executions["d"][:2], ran("d", 3, 9.0, 11.0)]),
        "RunsAgainOnlyForAReason: attempt 3 of job d started 2.000 s after attempt 2 snoozed, not 3.000 s",
    ),
    "lost, but of an agent that was never given up": (
        lambda e: with_(e, "attempts", "b", [attempt(1, "lost", agent_state="active"), attempt(2, "succeeded")]),
        "DoubledOnlyWhereLost: job b was started as attempt 2 beside or after attempt 1, which is lost of an agent that is active",
    ),
    "an older fence later": (
        lambda e: with_(e, "executions", "d", [ran("d", 2, 0.0, 1.0, returned=False), ran("d", 1, 5.0, 9.0), *e.executions["d"][2:]]),
        "DoubledOnlyWhereLost: job d was started under fence 10 after fence 20",
    ),
    "placed after a cancel": (
        lambda e: with_(e, "cancels", "e", [{"at": BEGAN}]),
        "CancelledStaysStopped: attempt 1 of job e was placed after the job was cancelled",
    ),
    "placed though cancelled while it waited": (
        lambda e: with_(e, "finals", "e", [{"final": "cancelled", "by": "event", "at": BEGAN}]),
        "CancelledStaysStopped: attempt 1 of job e was placed after the job was cancelled",
    ),
    "ran though it was cancelled before": (
        lambda e: with_(e, "attempts", "e", [attempt(1, "cancelled", used=0, started_at=None)]),
        "CancelledStaysStopped: attempt 1 of job e ran, though it is said to have been cancelled before",
    ),
    "cancelled though it had succeeded": (
        lambda e: with_(e, "executions", "e", [ran("e", 1, 0.0, 1.0)]),
        "CancelledStaysStopped: attempt 1 of job e is cancelled, though its handler did its work",
    ),
    "the second content": (
        lambda e: with_(e, "jobs", "a", {"max_attempts": 5, "args": {"n": -1}, "retry": None}),
        "FirstContentCounts: job a has the arguments {'n': -1}, not {'n': 1}",
    ),
    "an old id that was accepted": (lambda e: replace(e, quarantine=[]), "FirstContentCounts: x is 30 days old is 0 times in quarantine"),
    "quarantined twice": (
        lambda e: replace(e, quarantine=e.quarantine * 2),
        "FirstContentCounts: x is 30 days old is 2 times in quarantine",
    ),
    "something else in quarantine": (
        lambda e: replace(e, bad=[]),
        "FirstContentCounts: in quarantine is offset 7 of intake: id x is 30 days old",
    ),
    "a late end that is not told": (
        lambda e: without(e, "late", "b"),
        "EachAttemptIsTold: attempt 1 of job b was lost, ended after all, and no late report tells it",
    ),
    "an epoch that falls": (
        lambda e: replace(e, leases=[Lease(2, 30, {}), Lease(1, 30, {})]),
        "OnlyGrows: epoch 2 was followed by 1",
    ),
    "a fence that falls": (
        lambda e: replace(e, leases=[Lease(1, 30, {}), Lease(2, 29, {})]),
        "OnlyGrows: fence 30 was followed by 29",
    ),
    "an offset that falls": (
        lambda e: replace(e, leases=[Lease(1, 30, {"intake": ("t", 2)}), Lease(1, 30, {"intake": ("t", 1)})]),
        "OnlyGrows: offset 2 of intake was followed by 1",
    ),
    "a fence that nobody gave": (
        lambda e: replace(e, leases=[Lease(1, 9, {})]),
        "OnlyGrows: attempt 1 of job a has fence 10, above 9",
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


def test_each_guarantee_is_shown_to_fail() -> None:
    assert {type(one).__name__ for one in guarantees.ALWAYS} == {said.partition(":")[0] for _, said in WRONG.values() if ":" in said}


def test_the_shortest_backoff_is_that_of_the_policy_with_its_jitter_down() -> None:
    policy = {"backoff": "exponential", "base_s": 2.0, "cap_s": 7.0, "jitter": 0.1}
    assert [guarantees.shortest_wait_s(policy, used) for used in (1, 2, 3)] == pytest.approx([1.8, 3.6, 6.3])
    assert guarantees.shortest_wait_s({**policy, "backoff": "linear"}, 3) == pytest.approx(5.4)
    assert guarantees.shortest_wait_s(None, 1) == pytest.approx(1.8)


def test_who_was_touched_is_told() -> None:
    with pytest.raises(AssertionError, match="was lost with agent anna, which nobody touched"):
        guarantees.check(good(), LostOnlyOf(("bert",)))
    with pytest.raises(AssertionError, match="was interrupted by agent anna"):
        guarantees.check(with_(good(), "attempts", "a", [attempt(1, "interrupted")]), InterruptedOnlyOf())


def test_a_lost_attempt_may_start_late_if_its_process_was_paused_at_the_call() -> None:
    """I6: between the look at the lease and the call. Never one that was not given up."""
    evidence = good()
    late = [ran("b", 2, 5.0, 6.0), ran("b", 1, 8.0, 9.0)]
    evidence = replace(evidence, executions={**evidence.executions, "b": late})
    assert not list(guarantees.DoubledOnlyWhereLost().broken(evidence))
    evidence = replace(evidence, executions={**evidence.executions, "a": [ran("a", 2, 1.0, 2.0), ran("a", 1, 3.0, 4.0)]})
    assert list(guarantees.DoubledOnlyWhereLost().broken(evidence))


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
