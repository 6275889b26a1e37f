"""What the audit says of one job: the public views, read for a JobHandle."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec
import psycopg
from psycopg.rows import DictRow, dict_row

from jobyard.client.connections import Async, Sync, sorted_errors
from jobyard.contracts.priority import PriorityName
from jobyard.contracts.states import FINAL, Outcome, State

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_STATUS: Final = b"""
select job_id, kind, version, lane, priority, size, args::text as args, tags::text as tags, state::text as state,
  attempts, max_attempts, submitter, submitted_via, parent_id, submitted_at, run_at, started_at, finished_at, agent,
  progress_done, progress_total, progress_message, error_type, error_message, result::text as result
from jobyard.job_status where job_id = %s"""
_HISTORY: Final = b"""
select attempt, fence, agent, bucket, placed_at, started_at, finished_at, outcome::text as outcome, is_final,
  error_type, error_message, error_traceback, result::text as result
from jobyard.attempt_history where job_id = %s order by attempt"""


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """Where a job stands: a row of the view job_status. `attempts`: those that count. `raw_result`: the result as JSON text."""

    job_id: UUID
    kind: str
    version: int
    lane: str
    priority: PriorityName
    size: float
    args: dict[str, Json]
    tags: dict[str, str] | None
    state: State
    attempts: int
    max_attempts: int
    submitter: str | None
    submitted_via: str
    parent_id: UUID | None
    submitted_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    agent: str | None
    progress_done: float | None
    progress_total: float | None
    progress_message: str | None
    error_type: str | None
    error_message: str | None
    raw_result: str | None

    @property
    def result(self) -> Json:
        """The result as plain JSON; None if there is none (yet)."""
        found: Json = _json(self.raw_result)
        return found

    @property
    def is_final(self) -> bool:
        """Whether the job has ended. Only a retry by hand opens it again."""
        return self.state in FINAL


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """One attempt that has ended: a row of the view attempt_history. `is_final`: it ended its job."""

    attempt: int
    fence: int
    agent: str | None
    bucket: int
    placed_at: datetime
    started_at: datetime | None
    finished_at: datetime
    outcome: Outcome
    is_final: bool
    error_type: str | None
    error_message: str | None
    error_traceback: str | None
    result: Json


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def _status(row: Mapping[str, Any]) -> JobStatus:
    fields = dict(row)
    fields["args"], fields["tags"], fields["state"] = _json(row["args"]), _json(row["tags"]), State(row["state"])
    fields["raw_result"] = fields.pop("result")
    return JobStatus(**fields)


def _attempt(row: Mapping[str, Any]) -> AttemptRecord:
    fields = dict(row)
    fields["outcome"], fields["result"] = Outcome(row["outcome"]), _json(row["result"])
    return AttemptRecord(**fields)


def _run(connection: Sync, statement: bytes, job_id: str) -> list[DictRow]:
    with sorted_errors("jobyard_auditor"), psycopg.Cursor(connection, row_factory=dict_row) as cursor:
        return cursor.execute(statement, [UUID(job_id)]).fetchall()


async def _run_async(connection: Async, statement: bytes, job_id: str) -> list[DictRow]:
    with sorted_errors("jobyard_auditor"):
        async with psycopg.AsyncCursor(connection, row_factory=dict_row) as cursor:
            await cursor.execute(statement, [UUID(job_id)])
            return await cursor.fetchall()


def status(connection: Sync, job_id: str) -> JobStatus | None:
    """Where the job stands; None if no such job is known (yet)."""
    rows = _run(connection, _STATUS, job_id)
    return _status(rows[0]) if rows else None


async def status_async(connection: Async, job_id: str) -> JobStatus | None:
    """status() on an async connection."""
    rows = await _run_async(connection, _STATUS, job_id)
    return _status(rows[0]) if rows else None


def history(connection: Sync, job_id: str) -> list[AttemptRecord]:
    """All attempts of the job that have ended, in order."""
    return [_attempt(row) for row in _run(connection, _HISTORY, job_id)]


async def history_async(connection: Async, job_id: str) -> list[AttemptRecord]:
    """history() on an async connection."""
    return [_attempt(row) for row in await _run_async(connection, _HISTORY, job_id)]
