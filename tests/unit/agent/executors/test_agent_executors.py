"""Handlers run: on the loop, in threads, with middleware; and how they end."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest
from executor_world import Machine, machine, wait_for

from jobyard import App, Fail, RetryPolicy, Snooze, current_job
from jobyard.agent.resources import Resources
from jobyard.api.context import JobContext
from jobyard.contracts.reports import NO_RESULT
from jobyard.contracts.states import Outcome

KINDS = ("coroutine", "plain")


def an_app() -> App:
    """Each handler twice: as a coroutine and as a plain function."""
    app = App()

    async def add_async(a: int, b: int = 1) -> int:
        return a + b

    def add(a: int, b: int = 1) -> int:
        return a + b

    async def fail_async(how: str) -> None:
        raise ERRORS[how]()

    def fail(how: str) -> None:
        raise ERRORS[how]()

    async def result_async(what: str) -> object:
        return RESULTS[what]

    def result(what: str) -> object:
        return RESULTS[what]

    async def who_async() -> dict[str, object]:
        return facts()

    def who() -> dict[str, object]:
        return facts()

    for name, coroutine, plain in (
        ("add", add_async, add),
        ("fail", fail_async, fail),
        ("result", result_async, result),
        ("who", who_async, who),
    ):
        policy = RetryPolicy(no_retry_for=(LookupError,), jitter=0, base=2)
        app.job(kind=f"{name}.coroutine", retry=policy)(coroutine)
        app.job(kind=f"{name}.plain", retry=policy)(plain)
    return app


def facts() -> dict[str, object]:
    job = current_job()
    job.progress(1, 2, "half\x00way")
    return {"attempt": job.attempt, "fence": job.fence, "lane": job.lane, "submitter": job.submitter, "tags": dict(job.tags)}


ERRORS: dict[str, Callable[[], BaseException]] = {
    "value": lambda: ValueError("no\x00 good"),
    "lookup": lambda: KeyError("x"),
    "fail": lambda: Fail("enough"),
    "snooze": lambda: Snooze(9),
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt(),
    "cancelled": lambda: asyncio.CancelledError(),
}
RESULTS: dict[str, object] = {"large": "x" * 2_000, "odd": threading.Lock(), "nul": "a\x00b", "good": {"a": [1, None]}}


@pytest.mark.parametrize("sort", KINDS)
def test_a_result_is_kept_as_json(sort: str) -> None:
    with machine(an_app()) as made:
        end = made.run(f"add.{sort}", b'{"a": 40, "b": 2}')
    assert (end.outcome, end.attempt, end.error) == (Outcome.SUCCEEDED, 1, None)
    assert bytes(end.result) == b"42"
    assert end.started_at is not None
    assert end.started_at <= end.ended_at


@pytest.mark.parametrize("sort", KINDS)
@pytest.mark.parametrize(
    ("how", "outcome", "retryable", "delay_s"),
    [
        ("value", Outcome.FAILED, True, 2.0),
        ("lookup", Outcome.FAILED, False, None),
        ("fail", Outcome.FAILED, False, None),
        ("snooze", Outcome.SNOOZED, True, 9.0),
        ("exit", Outcome.FAILED, True, 2.0),
        ("interrupt", Outcome.FAILED, True, 2.0),
        ("cancelled", Outcome.FAILED, True, 2.0),
    ],
)
def test_what_a_handler_raises_decides(sort: str, how: str, outcome: Outcome, retryable: bool, delay_s: float | None) -> None:
    with machine(an_app()) as made:
        end = made.run(f"fail.{sort}", b'{"how": "%s"}' % how.encode())
        assert (end.outcome, end.retryable, end.delay_s) == (outcome, retryable, delay_s)
        assert made.run(f"add.{sort}", b'{"a": 1}', name="job-2").outcome is Outcome.SUCCEEDED  # the agent lives


@pytest.mark.parametrize("sort", KINDS)
def test_A13_an_error_is_storable_and_its_traceback_begins_at_the_handler(sort: str) -> None:
    with machine(an_app()) as made:
        end = made.run(f"fail.{sort}", b'{"how": "value"}')
    assert end.error is not None
    assert end.error.type == "ValueError"
    assert end.error.message == "no\ufffd good"
    assert "raise ERRORS[how]()" in end.error.traceback
    assert not any(file in end.error.traceback for file in ("tasks.py", "threads.py", "attempt.py"))


@pytest.mark.parametrize("sort", KINDS)
@pytest.mark.parametrize("what", ["large", "odd", "nul"])
def test_a_result_that_cannot_be_kept_is_not_tried_again(sort: str, what: str) -> None:
    with machine(an_app()) as made:
        end = made.run(f"result.{sort}", b'{"what": "%s"}' % what.encode())
    assert (end.outcome, end.retryable) == (Outcome.FAILED, False)
    assert end.error is not None
    assert end.error.type.endswith("InvalidResult")


@pytest.mark.parametrize("sort", KINDS)
def test_arguments_that_do_not_fit_are_not_tried_again(sort: str) -> None:
    with machine(an_app()) as made:
        end = made.run(f"add.{sort}", b'{"a": "one"}')
    assert (end.outcome, end.retryable, end.started_at) == (Outcome.FAILED, False, None)
    assert end.error is not None
    assert end.error.type.endswith("InvalidArgs")


@pytest.mark.parametrize("sort", KINDS)
def test_a_handler_knows_its_job_and_says_progress(sort: str) -> None:
    with machine(an_app()) as made:
        end = made.run(f"who.{sort}")
    assert b'"fence":7' in bytes(end.result)
    assert b'"submitter":"me"' in bytes(end.result)
    assert made.facts.said == [(1.0, 2.0, "half\ufffdway")]


def test_a_kind_that_nobody_knows_fails_and_may_be_tried_elsewhere() -> None:
    with machine(an_app()) as made:
        end = made.run("nobody")
    assert (end.outcome, end.retryable, end.started_at) == (Outcome.FAILED, True, None)
    assert end.error is not None
    assert (end.error.type, end.error.message) == ("LookupError", "this agent has no handler for kind 'nobody'")


@pytest.mark.parametrize("sort", KINDS)
def test_a_job_of_a_newer_version_fails_and_may_be_tried_elsewhere(sort: str) -> None:
    app = App()
    called: list[str] = []

    async def newer() -> None:
        called.append("coroutine")

    def plain() -> None:
        called.append("plain")

    # an error of the handler's own of this type would end the job: this one is none of its own
    app.job(kind="work", version=2, retry=RetryPolicy(no_retry_for=(LookupError,)))(newer if sort == "coroutine" else plain)
    with machine(app) as made:
        for version in (1, 2, 3):
            held = made.held(f"job-{version}", "work")
            held.job = msgspec.structs.replace(held.job, version=version)
            made.executor.start([held])
        assert [made.facts.end(f"job-{version}").outcome for version in (1, 2)] == [Outcome.SUCCEEDED, Outcome.SUCCEEDED]
        end = made.facts.end("job-3")
    assert called == [sort, sort]
    assert (end.outcome, end.retryable, end.started_at) == (Outcome.FAILED, True, None)
    assert end.error is not None
    assert end.error.message == "this agent has kind 'work' in version 2, and the job needs 3"


@pytest.mark.parametrize("sort", KINDS)
def test_A6_without_a_lease_the_handler_is_not_called(sort: str) -> None:
    with machine(an_app()) as made:
        made.life.lease.end()
        made.executor.start([made.held("job-1", f"add.{sort}", b'{"a": 1}')])
        made.facts.until(lambda: made.facts.declines == ["job-1"])
    assert made.facts.ends == {}


def test_A6_the_lease_is_looked_at_last_though_the_loop_was_blocked() -> None:
    app = an_app()
    blocked, release = threading.Event(), threading.Event()

    @app.job
    async def block() -> None:
        blocked.set()
        release.wait(10)

    with machine(app) as made:
        made.executor.start([made.held("blocker", "block")])
        assert blocked.wait(10)
        made.executor.start([made.held("late", "add.coroutine", b'{"a": 1}')])
        made.life.lease.until = made.clock.now()  # ran out while the loop stood still
        release.set()
        made.facts.until(lambda: made.facts.declines == ["late"])


def test_A11_a_cancelled_coroutine_is_reported_only_when_it_has_really_ended() -> None:
    app = App()
    may_end = threading.Event()

    @app.job
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            while not may_end.is_set():  # tidies up for as long as it likes
                await asyncio.sleep(0.001)

    with machine(app) as made:
        held = made.held("job-1", "slow")
        made.executor.start([held])
        made.facts.until(lambda: made.facts.begins == ["job-1"])
        made.executor.stop(held, "cancelled")
        time.sleep(0.05)
        assert made.facts.ends == {}
        may_end.set()
        assert made.facts.end("job-1").outcome is Outcome.CANCELLED


def test_cancel_success_wins() -> None:
    app = App()

    @app.job
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done"
        return "never"

    with machine(app) as made:
        held = made.held("job-1", "stubborn")
        made.executor.start([held])
        made.facts.until(lambda: made.facts.begins == ["job-1"])
        made.executor.stop(held, "cancelled")
        assert made.facts.end("job-1").outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize("why", ["cancelled", "interrupted"])
def test_a_thread_is_asked_to_stop(why: str) -> None:
    app = App()

    @app.job
    def loop() -> None:
        while True:
            current_job().raise_if_cancelled()
            time.sleep(0.001)

    with machine(app) as made:
        held = made.held("job-1", "loop")
        made.executor.start([held])
        made.facts.until(lambda: made.facts.begins == ["job-1"])
        made.executor.stop(held, "cancelled" if why == "cancelled" else "interrupted")
        assert made.facts.end("job-1").outcome == why


def test_a_stop_before_the_beginning_means_that_it_does_not_begin() -> None:
    app = an_app()
    blocked, release = threading.Event(), threading.Event()

    @app.job
    async def block() -> None:
        blocked.set()
        release.wait(10)

    with machine(app) as made:
        made.executor.start([made.held("blocker", "block")])
        assert blocked.wait(10)
        held = made.held("job-1", "add.coroutine", b'{"a": 1}')
        made.executor.start([held])
        made.executor.stop(held, "cancelled")
        release.set()
        made.facts.until(lambda: made.facts.declines == ["job-1"])


@pytest.mark.parametrize("sort", KINDS)
def test_a_result_after_the_deadline_is_timed_out(sort: str) -> None:
    app = App()

    @app.job(kind="coroutine")
    async def blocks() -> int:
        time.sleep(0.05)
        return 1

    @app.job(kind="plain")
    def sleeps() -> int:
        time.sleep(0.05)
        return 1

    with machine(app) as made:
        end = made.run(sort, timeout_s=0.01)
    assert (end.outcome, end.retryable, end.result) == (Outcome.TIMED_OUT, True, NO_RESULT)
    assert end.error is not None
    assert end.error.type == "TimedOut"


@pytest.mark.parametrize("sort", KINDS)
def test_a_wall_clock_set_forward_while_a_handler_runs_is_no_timeout(sort: str) -> None:
    app = App()
    machines: list[Machine] = []

    @app.job(kind="coroutine")
    async def waits() -> int:
        machines[0].ahead_s = 3600.0
        return 1

    @app.job(kind="plain")
    def sleeps() -> int:
        machines[0].ahead_s = 3600.0
        return 1

    with machine(app) as made:
        machines.append(made)
        end = made.run(sort, timeout_s=60.0)
    assert end.outcome is Outcome.SUCCEEDED


def test_the_deadline_is_told_and_a_stop_for_it_is_timed_out() -> None:
    app = App()

    @app.job(timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(60)

    with machine(app) as made:
        held = made.held("job-1", "slow")
        made.executor.start([held])
        made.facts.until(lambda: bool(made.facts.deadlines))
        deadline = made.facts.deadlines[0]
        assert deadline is not None
        wait_for(lambda: made.clock.now() >= deadline)
        made.executor.stop(held, "timed_out")
        end = made.facts.end("job-1")
    assert end.outcome is Outcome.TIMED_OUT
    assert end.error is not None
    assert "asyncio.sleep(60)" in end.error.traceback


def test_jobs_of_one_turn_that_end_at_once_are_told_in_one_call() -> None:
    with machine(an_app()) as made:
        made.executor.start([made.held(f"job-{n}", "add.coroutine", b'{"a": 1}') for n in range(50)])
        made.facts.until(lambda: len(made.facts.ends) == 50)
    assert made.facts.calls == 1
    assert made.facts.begins == []


def test_plain_functions_run_side_by_side_in_at_most_as_many_threads_as_slots() -> None:
    app = App()
    together = threading.Barrier(3)
    names: set[str] = set()

    @app.job
    def meet() -> None:
        together.wait(10)
        names.add(threading.current_thread().name)

    with machine(app, slots=3) as made:
        made.executor.start([made.held(f"job-{n}", "meet") for n in range(6)])
        made.facts.until(lambda: len(made.facts.ends) == 6)
    assert {end.outcome for end in made.facts.ends.values()} == {Outcome.SUCCEEDED}
    assert len(names) == 3


@pytest.mark.parametrize("sort", KINDS)
def test_middleware_goes_around_each_attempt(sort: str) -> None:
    app = an_app()
    seen: list[str] = []

    @app.middleware
    async def outer(job: JobContext, call_next: Callable[[], Awaitable[object]]) -> object:
        seen.append(f"outer {current_job().kind}")
        return await call_next()

    @app.middleware
    async def inner(job: JobContext, call_next: Callable[[], Awaitable[object]]) -> object:
        seen.append("inner")
        value = await call_next()
        assert isinstance(value, int)
        return value * 10

    with machine(app) as made:
        end = made.run(f"add.{sort}", b'{"a": 1, "b": 3}')
        failed = made.run(f"fail.{sort}", b'{"how": "fail"}', name="job-2")
        assert made.run(f"who.{sort}", name="job-3").error is not None  # its result is no number
    assert bytes(end.result) == b"40"
    assert seen[:2] == [f"outer add.{sort}", "inner"]
    assert (failed.outcome, failed.retryable) == (Outcome.FAILED, False)


def test_A6_a_lease_that_ends_inside_middleware_keeps_the_handler_from_being_called() -> None:
    app = an_app()

    @app.middleware
    async def ends_it(job: JobContext, call_next: Callable[[], Awaitable[object]]) -> object:
        made.life.lease.end()
        return await call_next()

    with machine(app) as made:
        made.executor.start([made.held("job-1", "add.coroutine", b'{"a": 1}')])
        made.facts.until(lambda: made.facts.declines == ["job-1"])


def test_resources_are_opened_before_and_closed_after_in_one_task() -> None:
    app = an_app()
    seen: list[str] = []
    tasks: set[int] = set()

    @app.resource
    async def first() -> AsyncIterator[str]:
        tasks.add(id(asyncio.current_task()))
        seen.append("open")
        yield "value"
        tasks.add(id(asyncio.current_task()))
        seen.append("close")

    with machine(app) as made:
        resources = Resources(made.executor.tasks, app.resources)
        resources.open()
        assert seen == ["open"]
        resources.close(5.0)
    assert seen == ["open", "close"]
    assert len(tasks) == 1


def test_a_resource_that_cannot_be_opened_is_an_error() -> None:
    app = an_app()

    @app.resource
    async def broken() -> AsyncIterator[str]:
        raise OSError("no")
        yield "never"

    with machine(app) as made, pytest.raises(OSError, match="no"):
        Resources(made.executor.tasks, app.resources).open()
