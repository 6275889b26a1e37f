"""The public SQL functions, called on a connection of one's own or of the caller."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import msgspec
import psycopg
from psycopg.rows import TupleRow, tuple_row

from jobyard.client.connections import Async, Sync, sorted_errors
from jobyard.contracts.job import NewJob

_TYPES: Final[dict[str, str]] = {
    "kind": "text",
    "args": "jsonb",
    "id": "uuid",
    "lane": "text",
    "priority": "text",
    "size": "float8",
    "run_at": "timestamptz",
    "timeout_s": "float8",
    "max_attempts": "int",
    "retry": "jsonb",
    "version": "int",
    "submitter": "text",
    "tags": "jsonb",
    "parent": "uuid",
    "traceparent": "text",
}
# The functions say by this setting, local to the transaction, which of the ids they were given were jobs already.
_ONE: Final = "select id::text, current_setting('jobyard.duplicates', true) from jobyard.submit({}) as id"
_MANY: Final = (
    b"select n, current_setting('jobyard.duplicates', true) from (select count(*) as n from jobyard.submit_many(%s::text::jsonb)) sent"
)
_COMMANDS: Final[dict[str, bytes]] = {
    "cancel": b"select jobyard.cancel(%s::uuid, %s::text)",
    "retry": b"select jobyard.retry(%s::uuid, %s::text)",
}
_ANSWER: Final = b"select answered_at, code, answer from jobyard.command_answer(%s)"


@lru_cache(maxsize=256)
def _statement(fields: tuple[str, ...]) -> bytes:
    # "args" and the like go as text and are cast: numbers stay as exact as they were written
    given = ", ".join(
        f"{name} => %s::text::{_TYPES[name]}" if _TYPES[name] == "jsonb" else f"{name} => %s::{_TYPES[name]}" for name in fields
    )
    return _ONE.format(given).encode()


def _one(job: NewJob) -> tuple[bytes, list[object]]:
    fields: list[str] = []
    values: list[object] = []
    for name in _TYPES:
        value: Any = getattr(job, name)
        if value is None:
            continue
        fields.append(name)
        if isinstance(value, msgspec.Raw):
            value = bytes(value).decode()
        elif isinstance(value, dict | msgspec.Struct):
            value = msgspec.json.encode(value).decode()
        values.append(value)
    return _statement(tuple(fields)), values


def _duplicates(rows: Sequence[tuple[Any, ...]]) -> set[str]:
    """The ids that were jobs already."""
    named: str = rows[0][1]
    return set(named.split(",")) if named else set()


def _run(connection: Sync, statement: bytes, values: Sequence[object]) -> list[TupleRow]:
    # not connection.cursor(): the caller's connection may have a row or cursor factory of its own
    with sorted_errors("jobyard_client"), psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        return cursor.execute(statement, values).fetchall()


async def _run_async(connection: Async, statement: bytes, values: Sequence[object]) -> list[TupleRow]:
    with sorted_errors("jobyard_client"):
        async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
            await cursor.execute(statement, values)
            return await cursor.fetchall()


def submit(connection: Sync, job: NewJob) -> bool:
    """Submit one job in the connection's transaction. Whether its id was a job already."""
    return job.id in _duplicates(_run(connection, *_one(job)))


async def submit_async(connection: Async, job: NewJob) -> bool:
    """submit() on an async connection."""
    return job.id in _duplicates(await _run_async(connection, *_one(job)))


def submit_many(connection: Sync, jobs: Sequence[NewJob]) -> set[str]:
    """Submit jobs, all or none, in the connection's transaction. The ids that were jobs already."""
    return _duplicates(_run(connection, _MANY, [msgspec.json.encode(jobs).decode()]))


async def submit_many_async(connection: Async, jobs: Sequence[NewJob]) -> set[str]:
    """submit_many() on an async connection."""
    return _duplicates(await _run_async(connection, _MANY, [msgspec.json.encode(jobs).decode()]))


def command(connection: Sync, verb: str, job_id: str, reason: str | None) -> int:
    """Record a command about a job: its number. The leader answers."""
    return int(_run(connection, _COMMANDS[verb], [UUID(job_id), reason])[0][0])


async def command_async(connection: Async, verb: str, job_id: str, reason: str | None) -> int:
    """command() on an async connection."""
    return int((await _run_async(connection, _COMMANDS[verb], [UUID(job_id), reason]))[0][0])


Answer = tuple[datetime, str | None, str | None]
"""When a command was answered, its code (None: done) and the leader's words."""


def answer(connection: Sync, number: int) -> Answer | None:
    """The leader's answer to a command, or None while it has none."""
    rows = _run(connection, _ANSWER, [number])
    return (rows[0][0], rows[0][1], rows[0][2]) if rows else None


async def answer_async(connection: Async, number: int) -> Answer | None:
    """answer() on an async connection."""
    rows = await _run_async(connection, _ANSWER, [number])
    return (rows[0][0], rows[0][1], rows[0][2]) if rows else None
