"""Jobs by id: in as few statements as there are stretches of time in their ids, so that each prunes to one or two partitions."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from jobyard.contracts.job import Job
from jobyard.contracts.retry import Retrying
from jobyard.contracts.rules import RULES
from jobyard.master_db.connection import Connection
from jobyard.master_db.id_arrays import IdArray
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.queries import Query

MOST_A_STATEMENT = 20_000
MOST_STRETCHES = 150
"""More statements than that for one question would take longer than looking into all partitions; about a year has so many."""
_retrying: Final = msgspec.json.Decoder(Retrying).decode
_tags: Final = msgspec.json.Decoder(dict[str, str]).decode


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


class DueJobRow(NamedTuple):
    """The same of one that is due: its row of `pending` tells the rest. `args`: None = large, not loaded yet; they have at most `args_bound` bytes."""

    id: str
    args: str | None
    args_bound: int
    size: float
    max_attempts: int
    version: int
    timeout_s: float | None
    retry: str | None
    submitter: str | None
    tags: str | None
    parent_id: str | None
    traceparent: str | None


JOBS_OF = Query("jobs_of", JobRow)


class DueArgsRow(NamedTuple):
    """The large arguments of one that is due."""

    id: str
    args: str


DUE_JOBS_OF = Query("due_jobs_of", DueJobRow)
DUE_ARGS_OF = Query("due_args_of", DueArgsRow)


class Stretch(NamedTuple):
    """Ids that lie close together in time, with their bounds."""

    ids: IdArray
    low: str
    high: str


def stretches(ids: Collection[str]) -> Iterator[Stretch]:
    """The ids in groups of about three days (2^28 ms): such a group lies in one or two partitions, or a few if they are of one day."""
    if not ids:
        return
    low, high = min(ids), max(ids)
    if low[:5] == high[:5] and len(ids) <= MOST_A_STATEMENT:
        yield Stretch(IdArray(ids), low, high)
        return
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for job_id in ids:
        groups[job_id[:5]].append(job_id)
    if len(groups) > MOST_STRETCHES:  # nobody's history is that long: most are of no job, as forged ones are
        newest = sorted(groups)[-MOST_STRETCHES:]
        rest = [job_id for key, group in groups.items() if key < newest[0] for job_id in group]
        groups = defaultdict(list, {key: groups[key] for key in newest})
        groups[""] = rest
    for group in groups.values():
        for first in range(0, len(group), MOST_A_STATEMENT):
            part = group[first : first + MOST_A_STATEMENT]
            yield Stretch(IdArray(part), min(part), max(part))


def load_due_jobs(connection: Connection, ids: Collection[str]) -> dict[str, DueJobRow]:
    """The rows of these jobs, without large arguments; one that is not there is missing."""
    with connection.pipeline():
        cursors = [DUE_JOBS_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in stretches(ids)]
    return {row[0]: row for cursor in cursors for row in cursor.fetchall()}


def load_due_args(connection: Connection, ids: Sequence[str], jobs: dict[str, DueJobRow], most_bytes: int | None) -> int:
    """Load the large arguments of these jobs, in order, until all have `most_bytes` together; how many of the jobs that is, one at least.

    Never asks for more at a time than may be missing: what is large was not read before it is known to fit, but for one job.
    """
    total = done = 0
    while done < len(ids):
        possible, behind = total, done
        large: list[str] = []
        while behind < len(ids) and (behind == done or most_bytes is None or possible < most_bytes):
            row = jobs[ids[behind]]
            if row.args is None:
                large.append(row.id)
                possible += min(row.args_bound, RULES.max_args_bytes)
            else:
                possible += len(row.args)
            behind += 1
        if large:
            with connection.pipeline():
                cursors = [DUE_ARGS_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in stretches(large)]
            for cursor in cursors:
                for job_id, args in cursor.fetchall():
                    jobs[job_id] = jobs[job_id]._replace(args=args)
        if most_bytes is None:
            return len(ids)
        for position in range(done, behind):
            args = jobs[ids[position]].args or ""
            total += len(args) if args.isascii() else len(args.encode())
            if total > most_bytes and position:
                return position
        done = behind
    return len(ids)


def name_kinds(connection: Connection, rows: Iterable[JobRow], kinds: KindNumbers) -> None:
    """Make sure that the kinds of these rows have names."""
    kinds.name(connection, {row.kind_id for row in rows})


def job_of(row: JobRow, kinds: KindNumbers, run_at: float | None = None, priority: int | None = None) -> Job:
    """The job, due and urgent as its pending row says, if it has one."""
    return Job(
        id=row.id,
        kind=kinds.names[row.kind_id],
        args=msgspec.Raw(row.args),
        run_at=row.run_at if run_at is None else run_at,
        priority=row.priority if priority is None else priority,
        size=row.size,
        max_attempts=row.max_attempts,
        version=row.version,
        timeout_s=row.timeout_s,
        retry=None if row.retry is None else _retrying(row.retry),
        submitter=row.submitter,
        tags=None if row.tags is None else _tags(row.tags),
        parent=row.parent_id,
        traceparent=row.traceparent,
    )


def due_job_of(row: DueJobRow, kind: str, run_at: float, priority: int) -> Job:
    """A job that is due. Called for each job of a drain: it takes the row apart in one step."""
    job_id, args, _, size, max_attempts, version, timeout_s, retry, submitter, tags, parent, traceparent = row
    if args is None:
        raise RuntimeError(f"the arguments of job {job_id} have not been loaded")
    return Job(
        id=job_id,
        kind=kind,
        args=msgspec.Raw(args),
        run_at=run_at,
        priority=priority,
        size=size,
        max_attempts=max_attempts,
        version=version,
        timeout_s=timeout_s,
        retry=None if retry is None else _retrying(retry),
        submitter=submitter,
        tags=None if tags is None else _tags(tags),
        parent=parent,
        traceparent=traceparent,
    )
