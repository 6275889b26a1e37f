"""Waiting while the database comes and goes. The client is a real one whose answers are prepared."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

from jobyard import JobStatus, ServiceUnavailable, WaitTimeout
from jobyard.api.handle import JobHandle
from jobyard.client.client import Client, Overrides
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.states import State

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def status(state: State, result: str | None = None) -> JobStatus:
    return JobStatus(
        job_id=UUID(new_job_id()),
        kind="any",
        version=1,
        lane="default",
        priority="medium",
        size=1.0,
        args={},
        tags=None,
        state=state,
        attempts=1,
        max_attempts=5,
        submitter=None,
        submitted_via="sql",
        parent_id=None,
        submitted_at=NOW,
        run_at=NOW,
        started_at=None,
        finished_at=None,
        agent=None,
        progress_done=None,
        progress_total=None,
        progress_message=None,
        error_type=None,
        error_message=None,
        raw_result=result,
    )


class Prepared(Client):
    def __init__(self, *answers: JobStatus | Exception) -> None:
        super().__init__(Overrides())
        self.answers: Iterator[JobStatus | Exception] = iter(answers)

    def status(self, job_id: str) -> JobStatus | None:
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def status_async(self, job_id: str) -> JobStatus | None:
        return self.status(job_id)


def handle(*answers: JobStatus | Exception) -> JobHandle[object]:
    return JobHandle(Prepared(*answers), new_job_id(), None)


GONE = ServiceUnavailable("Postgres restarts")


def test_a_wait_outlives_a_restart_of_the_database() -> None:
    answers = (status(State.RUNNING), GONE, GONE, status(State.SUCCEEDED, "5"))
    assert handle(*answers).result(20) == 5
    assert asyncio.run(handle(*answers).result_async(20)) == 5


def test_a_database_that_never_answered_is_told_at_once() -> None:
    with pytest.raises(ServiceUnavailable, match="restarts"):
        handle(GONE, status(State.SUCCEEDED)).wait(20)


def test_a_database_that_stays_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobyard.api.handle.UNANSWERED_S", 0.05)
    with pytest.raises(ServiceUnavailable, match="restarts"):
        handle(status(State.RUNNING), *[GONE] * 50).wait()


def test_time_runs_out_while_it_is_away() -> None:
    with pytest.raises(WaitTimeout):
        handle(status(State.RUNNING), *[GONE] * 50).wait(0.1)
