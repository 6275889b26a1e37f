"""Handles: waiting, results, commands. The test plays the leader: it writes what a leader would write."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from jobyard import App, Handler, InvalidResult, JobCancelled, JobFailed, NotFound, Refused, WaitTimeout
from jobyard.client import waiting
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.states import State


@pytest.fixture
def app(database_url: str) -> Iterator[App]:
    with App(database_url=database_url) as made:
        yield made


@pytest.fixture
def when(app: App) -> Handler[[int], datetime]:
    @app.job
    def when(x: int) -> datetime:
        raise AssertionError(x)

    return when


class Leader:
    """Ends jobs and answers commands, by SQL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def end(self, job_id: UUID, final: str, result: str | None = None, error: tuple[str, str] | None = None) -> None:
        kind, message = error or (None, None)
        with psycopg.connect(self._url) as connection:
            connection.execute("set local search_path = jobyard")
            agent = connection.execute(
                """insert into agents (incarnation, capacity, lost_after_s, slots, lane_id, name, kinds, versions)
                   values (%s, 1, 15, 1, 1, %s, '{}', '{}') returning agent_id""",
                [uuid4(), f"agent-{uuid4()}"],
            ).fetchone()
            assert agent is not None
            connection.execute("delete from pending where id = %s", [job_id])
            connection.execute(
                """insert into attempts (job_id, fence, placed_at, started_at, finished_at, agent_id, bucket, kind_id, outcome, final, lane_id, attempt,
                     used, error_type, error_message, result)
                   select id, 7, now(), now(), now(), %s, 0, kind_id, %s::text::outcome, %s::text::job_state, lane_id, 1, 1, %s, %s, %s::text::json
                   from jobs where id = %s""",
                [agent[0], final, final, kind, message, result, job_id],
            )

    def answer(self, code: str | None, text: str) -> threading.Thread:
        """Answers the next command, whenever it comes."""

        def work() -> None:
            deadline = time.monotonic() + 20
            with psycopg.connect(self._url, autocommit=True) as connection:
                while time.monotonic() < deadline:
                    done = connection.execute(
                        "update jobyard.commands set answered_at = now(), code = %s, answer = %s where answered_at is null", [code, text]
                    )
                    if done.rowcount:
                        return
                    time.sleep(0.02)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def commands(self) -> list[Any]:
        with psycopg.connect(self._url) as connection:
            return connection.execute("select job_id, verb, args from jobyard.commands order by command_id").fetchall()


@pytest.fixture
def leader(database_url: str) -> Leader:
    return Leader(database_url)


def later(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Timer(0.3, act)
    thread.start()
    return thread


def test_results_are_of_the_handlers_type(app: App, when: Handler[[int], datetime], leader: Leader) -> None:
    handle = when.submit(1)
    thread = later(lambda: leader.end(handle.id, "succeeded", '"2026-01-02T03:04:05Z"'))
    assert handle.result(timeout=20) == datetime.fromisoformat("2026-01-02T03:04:05+00:00")
    thread.join()
    assert app.handle(handle.id).result(1) == "2026-01-02T03:04:05Z"
    status = handle.wait(0)
    assert (status.state, status.is_final, status.attempts, status.result) == (State.SUCCEEDED, True, 1, "2026-01-02T03:04:05Z")
    assert status.finished_at is not None
    attempts = handle.history()
    assert [(a.attempt, a.fence, a.outcome, a.is_final, a.result) for a in attempts] == [(1, 7, "succeeded", True, "2026-01-02T03:04:05Z")]


def test_the_async_twins_do_the_same(app: App, when: Handler[[int], datetime], leader: Leader) -> None:
    async def main() -> None:
        async with app:
            handle = await when.submit_async(1)
            with pytest.raises(WaitTimeout):
                await handle.wait_async(0.05)
            ended = asyncio.get_running_loop().run_in_executor(None, leader.end, handle.id, "succeeded", '"2026-01-02T03:04:05Z"')
            assert await handle.result_async(20) == datetime.fromisoformat("2026-01-02T03:04:05+00:00")
            await ended
            assert (await handle.wait_async(0)).state == "succeeded"
            assert len(await handle.history_async()) == 1
            with pytest.raises(Refused, match="has ended"):
                await handle.cancel_async("late")
            with pytest.raises(NotFound):
                await app.handle(new_job_id()).status_async()

    asyncio.run(main())


def test_a_job_that_failed(when: Handler[[int], datetime], leader: Leader) -> None:
    handle = when.submit(1)
    leader.end(handle.id, "failed", error=("ValueError", "no such file"))
    with pytest.raises(JobFailed, match="no such file") as found:
        handle.result(5)
    assert (found.value.error_type, found.value.error_message, found.value.job_id) == ("ValueError", "no such file", str(handle.id))
    with pytest.raises(JobFailed):
        handle.wait()


def test_a_job_that_was_cancelled(when: Handler[[int], datetime], leader: Leader) -> None:
    handle = when.submit(1)
    leader.end(handle.id, "cancelled")
    with pytest.raises(JobCancelled):
        handle.wait(5)


def test_a_result_that_does_not_fit(when: Handler[[int], datetime], leader: Leader) -> None:
    handle = when.submit(1)
    leader.end(handle.id, "succeeded", "5")
    with pytest.raises(InvalidResult, match="does not fit its annotation"):
        handle.result(5)


def test_no_result_is_none(app: App, leader: Leader) -> None:
    @app.job
    def nothing() -> None: ...

    handle = nothing.submit()
    leader.end(handle.id, "succeeded")
    handle.result(5)
    assert handle.wait(5).result is None


def test_time_runs_out(when: Handler[[int], datetime]) -> None:
    handle = when.submit(1)
    before = time.monotonic()
    with pytest.raises(WaitTimeout, match=r"had not ended after 0\.3 s"):
        handle.wait(0.3)
    assert 0.3 <= time.monotonic() - before < 5


def test_a_job_may_still_be_on_its_way(when: Handler[[int], datetime], leader: Leader) -> None:
    request = when.request(1)

    def arrive() -> None:
        request.submit()
        leader.end(request.id, "succeeded", '"2026-01-02T03:04:05Z"')

    thread = later(arrive)
    assert when.handle(request.id).result(20).year == 2026
    thread.join()


def test_an_unknown_job_is_not_waited_for_for_ever(when: Handler[[int], datetime], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobyard.api.handle.ON_ITS_WAY_S", 0.2)
    with pytest.raises(NotFound, match="no job"):
        when.handle(new_job_id()).wait()
    assert waiting.ON_ITS_WAY_S == 10


def test_cancel_returns_when_the_leader_has_answered(when: Handler[[int], datetime], leader: Leader) -> None:
    handle = when.submit(1)
    thread = leader.answer(None, "cancelled")
    handle.cancel("not needed")
    thread.join()
    assert leader.commands() == [(handle.id, "cancel", {"reason": "not needed"})]


def test_answers_of_the_leader_are_errors(when: Handler[[int], datetime], leader: Leader) -> None:
    handle = when.submit(1)
    for code, sort in (("JY009", Refused), ("JY007", NotFound)):
        thread = leader.answer(code, "it says no")
        with pytest.raises(sort, match="it says no"):
            handle.retry()
        thread.join()


def test_commands_about_what_ended_or_never_was(when: Handler[[int], datetime], leader: Leader) -> None:
    handle = when.submit(1)
    leader.end(handle.id, "failed")
    with pytest.raises(Refused, match="has ended") as found:
        handle.cancel()
    assert found.value.code == "JY009"
    old = "00000000-0000-7000-8000-000000000000"
    with pytest.raises(NotFound, match=old):
        when.handle(old).cancel()


def test_no_leader_answers(when: Handler[[int], datetime], leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobyard.client.client.ON_ITS_WAY_S", 0.2)
    handle = when.submit(1)
    with pytest.raises(WaitTimeout, match="the cancel is recorded"):
        handle.cancel()
    assert len(leader.commands()) == 1
