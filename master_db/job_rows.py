"""Jobs by id: in as few statements as there are stretches of time in their ids, so that each prunes to one or two partitions."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from jobyard.contracts.job import Job
from jobyard.contracts.retry import Retrying
from jobyard.master_db.connection import Connection
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.queries import Query
from jobyard.master_db.rows import array

MOST_A_STATEMENT = 20_000


class JobRow(NamedTuple):
    """A row of `jobs`, as the leader needs it."""

    id: str
    kind_id: int
    run_at: float
    priority: int
    size: float
    max_attempts: int
    version: int
    timeout_s: float | None
    retry: str | None
    submitter: str | None
    tags: str | None
    parent_id: str | None
    traceparent: str | None
    args: str
    lane_id: int


JOBS_OF = Query("jobs_of", JobRow)


class Stretch(NamedTuple):
    """Ids that lie close together in time, as the text of an array, with their bounds."""

    ids: str
    low: str
    high: str


def stretches(ids: Collection[str]) -> Iterator[Stretch]:
    """The ids in groups of about three days (2^28 ms): such a group lies in one or two partitions, or a few if they are of one day."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for job_id in ids:
        groups[job_id[:5]].append(job_id)
    for group in groups.values():
        for first in range(0, len(group), MOST_A_STATEMENT):
            part = group[first : first + MOST_A_STATEMENT]
            yield Stretch(array(part), min(part), max(part))


def load_jobs(connection: Connection, ids: Collection[str]) -> dict[str, JobRow]:
    """The rows of these jobs; one that is not there is missing."""
    with connection.pipeline():
        cursors = [JOBS_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in stretches(ids)]
    return {row.id: row for cursor in cursors for row in cursor.fetchall()}


def name_kinds(connection: Connection, rows: Iterable[JobRow], kinds: KindNumbers) -> None:
    """Make sure that the kinds of these rows have names."""
    kinds.name(connection, {row.kind_id for row in rows})


def job_of(row: JobRow, kinds: KindNumbers, run_at: float | None = None, priority: int | None = None) -> Job:
    """The job, due and urgent as its pending row says, if it has one."""
    return Job(
        id=row.id,
        kind=kinds.names[row.kind_id],
        args=msgspec.Raw(row.args.encode()),
        run_at=row.run_at if run_at is None else run_at,
        priority=row.priority if priority is None else priority,
        size=row.size,
        max_attempts=row.max_attempts,
        version=row.version,
        timeout_s=row.timeout_s,
        retry=None if row.retry is None else msgspec.json.decode(row.retry, type=Retrying),
        submitter=row.submitter,
        tags=None if row.tags is None else msgspec.json.decode(row.tags, type=dict[str, str]),
        parent=row.parent_id,
        traceparent=row.traceparent,
    )
