"""current_job(): inside and outside of an agent."""

import asyncio
import logging
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from jobyard import JobContext, current_job
from jobyard.api.context import bound, running_job

ID = "01a22dcd-a6b8-767c-809c-7dd958532c65"


def unheard(done: float, total: float | None, message: str) -> None: ...


def make(**more: Any) -> JobContext:
    facts: dict[str, Any] = {
        "id": ID,
        "kind": "transcribe",
        "version": 3,
        "lane": "media",
        "attempt": 2,
        "attempts_used": 1,
        "max_attempts": 5,
        "fence": 9,
        "submitter": None,
        "tags": {"a": "b"},
        "parent_id": ID,
        "deadline": datetime(2026, 1, 1, tzinfo=UTC),
        "on_progress": unheard,
        "cancelled": threading.Event(),
    }
    return JobContext(**{**facts, **more})


def test_the_facts() -> None:
    context = make()
    assert context.id == context.parent_id == UUID(ID)
    assert (context.kind, context.version, context.lane, context.attempt, context.attempts_used) == ("transcribe", 3, "media", 2, 1)
    assert context.tags == {"a": "b"}
    with pytest.raises(TypeError):
        context.tags["a"] = "c"  # type: ignore[index]  # pyright: ignore[reportIndexIssue] - that is what is tested
    assert make(tags=None, parent_id=None).tags == {}
    assert make(parent_id=None).parent_id is None


def test_bound_is_for_the_block_and_what_copies_its_context() -> None:
    context, seen = make(), list[JobContext | None]()

    async def inside() -> JobContext | None:
        return running_job()

    async def main() -> None:
        with bound(context):
            seen.append(await asyncio.create_task(inside()))
            seen.append(await asyncio.to_thread(running_job))

    asyncio.run(main())
    assert seen == [context, context]
    assert running_job() is None
    with bound(context):
        thread = threading.Thread(target=lambda: seen.append(running_job()))
        thread.start()
        thread.join()
    assert seen[-1] is None


def test_progress_is_passed_on_as_numbers() -> None:
    told: list[tuple[float, float | None, str]] = []

    def hear(done: float, total: float | None, message: str) -> None:
        told.append((done, total, message))

    context = make(on_progress=hear)
    context.progress(3, 10, "decoding")
    context.progress(0.5)
    assert told == [(3.0, 10.0, "decoding"), (0.5, None, "")]
    with pytest.raises(ValueError, match="total=nan must be a finite number"):
        context.progress(1, float("nan"))


def test_cancelling() -> None:
    asked = threading.Event()
    context = make(cancelled=asked)
    context.raise_if_cancelled()
    assert not context.cancel_requested
    asked.set()
    assert context.cancel_requested
    with pytest.raises(asyncio.CancelledError):
        context.raise_if_cancelled()


def test_log_records_name_the_job(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jobyard.job"):
        make().log.info("hello")
    record = caplog.records[0]
    assert (record.__dict__["job_id"], record.__dict__["kind"], record.__dict__["attempt"]) == (ID, "transcribe", 2)


def test_outside_an_agent_a_stand_in_logs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jobyard.job"):
        job = current_job()
        job.progress(1, 2, "half")
    assert "progress: 1 of 2 half" in caplog.text
    assert not job.cancel_requested
    assert job.id.version == 7
    assert running_job() is None
