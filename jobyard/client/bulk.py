"""Many jobs in bounded memory: batches of 1,000 by SQL, messages of 1 MiB by Kafka."""

import asyncio
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, TypeAlias, TypeVar

from jobyard.client import kafka, sql
from jobyard.client.client import Client, Way
from jobyard.client.connections import Async, Sync, async_one, savepoint, savepoint_async, sync_one, whole, whole_async
from jobyard.client.place import refuse_on_loop
from jobyard.contracts.errors import InvalidJob, Refused
from jobyard.contracts.job import NewJob

T = TypeVar("T")
BATCH: Final = 1000
_NUMBER: Final = re.compile(r"job (\d+): ")
OnInvalid: TypeAlias = Literal["raise", "skip"]


@dataclass(frozen=True)
class BulkResult:
    """What became of many jobs. `duplicates`: by SQL, those whose ids were jobs already. `invalid`: index in the input, and why."""

    accepted: int
    duplicates: int
    invalid: Sequence[tuple[int, str]]


@dataclass(frozen=True)
class BulkItem:
    """One job of many, or why it can't be one. `index`: its place in the input."""

    index: int
    job: NewJob | None
    via: Way | None = None
    problem: str = ""


@dataclass
class _Tally:
    on_invalid: OnInvalid
    on_duplicate: Callable[[int], None] | None = None
    accepted: int = 0
    duplicates: int = 0
    invalid: list[tuple[int, str]] = field(default_factory=list["tuple[int, str]"])

    def wrong(self, index: int, why: str) -> None:
        if self.on_invalid == "raise":
            raise InvalidJob(f"job {index}: {why}")
        self.invalid.append((index, why))

    def sent(self, jobs: int, known: int) -> None:
        self.accepted += jobs - known
        self.duplicates += known

    def same(self, jobs: Sequence[tuple[int, NewJob]], known: Collection[str | None]) -> None:
        """`known`: ids that were jobs already."""
        if self.on_duplicate is not None and known:
            for index, job in jobs:
                if job.id in known:
                    self.on_duplicate(index)

    def result(self) -> BulkResult:
        return BulkResult(self.accepted, self.duplicates, tuple(self.invalid))


class _Batch:
    """Up to 1,000 items, sorted by their way. An id that stands twice in it is a duplicate."""

    def __init__(self, client: Client, items: Sequence[BulkItem], tally: _Tally, *, on_connection: bool) -> None:
        self.sql: list[tuple[int, NewJob]] = []
        self.kafka: list[tuple[str, NewJob]] = []
        seen: set[str | None] = set()
        for item in items:
            if item.job is None:
                tally.wrong(item.index, item.problem)
                continue
            by_kafka = False if on_connection else client.way(item.via) == "kafka"
            if on_connection and item.via == "kafka":
                tally.wrong(item.index, "via 'kafka' and connection= exclude each other")
            elif item.job.id is not None and item.job.id in seen:
                tally.sent(1, 1)
                tally.same([(item.index, item.job)], [item.job.id])
            elif by_kafka:
                seen.add(item.job.id)
                self.kafka.append((client.lane_of(item.job), client.completed(item.job)))
            else:
                seen.add(item.job.id)
                self.sql.append((item.index, client.completed(item.job)))

    @property
    def jobs(self) -> list[NewJob]:
        return [job for _, job in self.sql]


def submit_many(
    client: Client,
    items: Iterable[BulkItem],
    connection: object,
    on_invalid: OnInvalid,
    on_duplicate: Callable[[int], None] | None = None,
) -> BulkResult:
    """Submit many jobs. With a connection all of them in its transaction, else a batch at a time. `on_duplicate` gets the index of each."""
    _check(on_invalid)
    tally = _Tally(on_invalid, on_duplicate)
    if connection is not None:
        given = sync_one(connection)
        if given is None:
            raise TypeError("connection is an AsyncConnection: use `await submit_many_async()`")
        with whole(given):
            for items_ in _batches(items):
                batch = _Batch(client, items_, tally, on_connection=True)
                _by_sql(given, batch, tally, inside=True)
        return tally.result()
    refuse_on_loop("submit_many")
    stream: kafka.Bulk | None = None
    for items_ in _batches(items):
        batch = _Batch(client, items_, tally, on_connection=False)
        if batch.sql:
            client.run(partial(_by_sql, batch=batch, tally=tally, inside=False))
        if batch.kafka:
            stream = stream or client.intake.bulk()
            _by_kafka(stream, batch)
            tally.sent(len(batch.kafka), 0)
    if stream is not None:
        stream.finish()
    return tally.result()


async def submit_many_async(
    client: Client, items: Iterable[BulkItem] | AsyncIterable[BulkItem], connection: object, on_invalid: OnInvalid
) -> BulkResult:
    """submit_many() for the event loop."""
    _check(on_invalid)
    tally = _Tally(on_invalid)
    if connection is not None:
        given = async_one(connection)
        if given is None:
            raise TypeError("connection is a sync one: use submit_many()")
        async with whole_async(given):
            async for items_ in _batches_async(items):
                batch = _Batch(client, items_, tally, on_connection=True)
                await _by_sql_async(given, batch, tally, inside=True)
        return tally.result()
    stream: kafka.Bulk | None = None
    async for items_ in _batches_async(items):
        batch = _Batch(client, items_, tally, on_connection=False)
        if batch.sql:
            await client.run_async(partial(_by_sql_async, batch=batch, tally=tally, inside=False))
        if batch.kafka:
            if stream is None:
                stream = await asyncio.to_thread(client.intake.bulk)
            await asyncio.to_thread(_by_kafka, stream, batch)
            tally.sent(len(batch.kafka), 0)
    if stream is not None:
        await asyncio.to_thread(stream.finish)
    return tally.result()


@contextmanager
def _numbered(batch: _Batch) -> Generator[None]:
    """The database counts from 1 within a batch; callers count from 0 in all they gave."""
    try:
        yield
    except (InvalidJob, Refused) as error:
        found = _NUMBER.match(str(error))
        if found is None:
            raise
        message = f"job {batch.sql[int(found[1]) - 1][0]}: {str(error)[found.end() :]}"
        if isinstance(error, Refused):
            raise Refused(message, code=error.code) from error
        raise InvalidJob(message, field=error.field, code=error.code) from error


def _check(on_invalid: str) -> None:
    if on_invalid not in ("raise", "skip"):
        raise ValueError(f"on_invalid={on_invalid!r} must be 'raise' or 'skip'")


def _by_kafka(stream: kafka.Bulk, batch: _Batch) -> None:
    for lane, job in batch.kafka:
        stream.add(lane, job)


def _by_sql(connection: Sync, batch: _Batch, tally: _Tally, *, inside: bool) -> None:
    """One batch, all or none; if it is refused and wrong ones are to be skipped, one by one. `inside` a caller's transaction: under savepoints."""
    if not batch.sql:
        return
    if tally.on_invalid == "raise":
        with _numbered(batch):
            known = sql.submit_many(connection, batch.jobs)
        tally.sent(len(batch.sql), len(known))
        tally.same(batch.sql, known)
        return
    try:
        if inside:
            with savepoint(connection):
                known = sql.submit_many(connection, batch.jobs)
        else:
            known = sql.submit_many(connection, batch.jobs)
        tally.sent(len(batch.sql), len(known))
        tally.same(batch.sql, known)
        return
    except (InvalidJob, Refused):
        pass  # at least one of them is wrong: each by itself
    same, wrong = set[str](), list[tuple[int, str]]()  # told at the end: this may be run again, on another connection
    for index, job in batch.sql:
        try:
            if inside:
                with savepoint(connection):
                    known_one = sql.submit(connection, job)
            else:
                known_one = sql.submit(connection, job)
            if known_one and job.id is not None:
                same.add(job.id)
        except (InvalidJob, Refused) as error:
            wrong.append((index, str(error)))
    tally.sent(len(batch.sql) - len(wrong), len(same))
    tally.same(batch.sql, same)
    tally.invalid.extend(wrong)


async def _by_sql_async(connection: Async, batch: _Batch, tally: _Tally, *, inside: bool) -> None:
    """_by_sql() for an async connection."""
    if not batch.sql:
        return
    if tally.on_invalid == "raise":
        with _numbered(batch):
            known = len(await sql.submit_many_async(connection, batch.jobs))
        tally.sent(len(batch.sql), known)
        return
    try:
        if inside:
            async with savepoint_async(connection):
                known = len(await sql.submit_many_async(connection, batch.jobs))
        else:
            known = len(await sql.submit_many_async(connection, batch.jobs))
        tally.sent(len(batch.sql), known)
        return
    except (InvalidJob, Refused):
        pass
    duplicates, wrong = 0, list[tuple[int, str]]()  # told at the end: this may be run again, on another connection
    for index, job in batch.sql:
        try:
            if inside:
                async with savepoint_async(connection):
                    duplicates += await sql.submit_async(connection, job)
            else:
                duplicates += await sql.submit_async(connection, job)
        except (InvalidJob, Refused) as error:
            wrong.append((index, str(error)))
    tally.sent(len(batch.sql) - len(wrong), duplicates)
    tally.invalid.extend(wrong)


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _batches_async(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[list[T]]:
    if not isinstance(items, AsyncIterable):
        for ready in _batches(items):
            yield ready
        return
    batch: list[T] = []
    async for item in items:
        batch.append(item)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
