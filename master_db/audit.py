"""The public views, typed: what happened to a job, what waits, who works. For the command line and the dashboard; a role with jobyard_auditor suffices.

Moments are aware datetimes in UTC; `args`, `result`, `tags`, `detail` are what their JSON holds.
All functions raise JobyardError as `connection.errors` sorts them.
"""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec
from psycopg.types.json import Jsonb

from jobyard.contracts.errors import ConfigurationError
from jobyard.contracts.states import State
from jobyard.master_db.connection import AUDITOR, Connection, errors
from jobyard.master_db.queries import Query

Json: TypeAlias = object


class JobStatus(msgspec.Struct, frozen=True):
    """A job as it stands: a row of the view job_status."""

    job_id: str
    kind: str
    version: int
    lane: str
    priority: str
    size: float
    args: Json
    tags: dict[str, str] | None
    state: str
    attempts: int
    max_attempts: int
    submitter: str | None
    submitted_via: str
    parent_id: str | None
    group_id: str | None
    schedule: str | None
    unique_key: str | None
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
    result: Json


class Attempt(msgspec.Struct, frozen=True):
    """An attempt that has ended: a row of the view attempt_history."""

    job_id: str
    kind: str
    lane: str
    attempt: int
    fence: int
    agent: str | None
    host: str | None
    bucket: int
    placed_at: datetime
    started_at: datetime | None
    finished_at: datetime
    outcome: str
    is_final: bool
    error_type: str | None
    error_message: str | None
    error_traceback: str | None
    result: Json
    reason: Json


class Happening(msgspec.Struct, frozen=True):
    """Something that happened to a job: a row of the view job_timeline."""

    job_id: str
    at: datetime
    event: str
    attempt: int | None
    agent: str | None
    actor: str | None
    detail: Json


class LateOutcome(msgspec.Struct, frozen=True):
    """What came in after its attempt was lost: a row of the view late_outcomes."""

    job_id: str
    kind: str | None
    lane: str | None
    fence: int
    at: datetime
    agent: str | None
    outcome: str
    closed_job: bool
    error_type: str | None
    error_message: str | None
    result: Json


class StuckJob(msgspec.Struct, frozen=True):
    """A job that will not move by itself: a row of the view stuck_jobs."""

    job_id: str
    kind: str
    lane: str
    state: str | None
    since: datetime
    reason: str


class LaneSummary(msgspec.Struct, frozen=True):
    """A lane: a row of the view lane_summary. `led`: whether a coordinator leads it now; `leader`: which one."""

    lane: str
    led: bool
    leader: str | None
    epoch: int
    paused: bool
    pending: int
    scheduled: int
    retrying: int
    blocked: int
    placed: int
    running: int
    oldest_pending_s: float | None
    finished_last_minute: int
    failed_last_minute: int
    paused_at: datetime | None = None
    paused_by: str | None = None
    paused_reason: str | None = None
    fair_share: bool = False


class KindSummary(msgspec.Struct, frozen=True):
    """A kind, with its defaults as last synced: a row of the view kind_summary. `waiting`: its jobs that are not placed; `agents`: live ones that know it."""

    kind: str
    declared: bool
    paused: bool
    version: int
    lane: str | None
    priority: str
    size: float
    size_arg: str | None
    timeout_s: float | None
    max_attempts: int
    retry: Json
    tags: dict[str, str] | None
    waiting: int
    running: int
    agents: int
    synced_at: datetime
    paused_at: datetime | None
    paused_by: str | None
    paused_reason: str | None


class AgentLoad(msgspec.Struct, frozen=True):
    """A live agent: a row of the view agent_load."""

    agent: str
    host: str | None
    lane: str
    state: str
    capacity: float
    size_running: float
    size_placed: float
    slots: int
    running: int
    placed: int
    kinds: list[str]
    last_heard_at: datetime
    started_at: datetime


class ErrorCount(msgspec.Struct, frozen=True):
    """Failed attempts of one kind with one error. `jobs`: those that it ended."""

    kind: str
    error_type: str
    attempts: int
    jobs: int
    last_at: datetime
    last_message: str | None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a list shows; what is None does not matter. `since`, `until`: of the submission; `error`: text within the error's message."""

    state: State | None = None
    kind: str | None = None
    lane: str | None = None
    submitter: str | None = None
    tags: dict[str, str] | None = None
    error_type: str | None = None
    error: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class ServerNow(msgspec.Struct, frozen=True):
    """What the clock of the database says."""

    at: datetime


_JOB = Query("job_by_id", JobStatus)
_FIND = Query("find_jobs", JobStatus)
_HISTORY = Query("attempt_history", Attempt)
_TIMELINE = Query("job_timeline", Happening)
_LATE = Query("late_outcomes", LateOutcome)
_STUCK = Query("stuck_jobs", StuckJob)
_LANES = Query("lane_summaries", LaneSummary)
_KINDS = Query("kind_summaries", KindSummary)
_AGENTS = Query("agent_loads", AgentLoad)
_ERRORS = Query("error_counts", ErrorCount)
_NOW = Query("server_now", ServerNow)


def job_status(connection: Connection, job_id: str) -> JobStatus | None:
    """A job by its id; None if the Master DB does not know it (by Kafka it may still be on its way)."""
    with errors(AUDITOR):
        return _JOB.first(connection, job=job_id)


def find_jobs(connection: Connection, wanted: Filter, *, before: str | None = None, most: int = 50) -> list[JobStatus]:
    """A page of jobs, newest first; the next page is `before` the last id of this one. `most`: 1 to 10,000."""
    for name, at in (("since", wanted.since), ("until", wanted.until)):
        if at is not None and at.tzinfo is None:
            raise ConfigurationError(f"{name} {at.isoformat()} must have a time zone")
    values = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    values["tags"] = None if wanted.tags is None else Jsonb(wanted.tags)
    with errors(AUDITOR):
        return _FIND.all(connection, **values, before=before, most=most)


def attempt_history(connection: Connection, job_id: str) -> list[Attempt]:
    """The ended attempts of a job, in order."""
    with errors(AUDITOR):
        return _HISTORY.all(connection, job=job_id)


def job_timeline(connection: Connection, job_id: str) -> list[Happening]:
    """All that happened to a job, in order of time."""
    with errors(AUDITOR):
        return _TIMELINE.all(connection, job=job_id)


def late_outcomes(connection: Connection, job_id: str) -> list[LateOutcome]:
    """What came in about a job after its attempt was lost."""
    with errors(AUDITOR):
        return _LATE.all(connection, job=job_id)


def stuck_jobs(connection: Connection, *, most: int = 50) -> list[StuckJob]:
    """Jobs that will not move by themselves, the longest stuck first."""
    with errors(AUDITOR):
        return _STUCK.all(connection, most=most)


def lane_summary(connection: Connection) -> list[LaneSummary]:
    """All lanes, by name."""
    with errors(AUDITOR):
        return _LANES.all(connection)


def kind_summary(connection: Connection) -> list[KindSummary]:
    """All kinds, by name."""
    with errors(AUDITOR):
        return _KINDS.all(connection)


def agent_load(connection: Connection) -> list[AgentLoad]:
    """All live agents, by lane and name."""
    with errors(AUDITOR):
        return _AGENTS.all(connection)


def server_now(connection: Connection) -> datetime:
    """What the clock of the database says: all moments in the views are its."""
    with errors(AUDITOR):
        return _NOW.one(connection).at


def error_counts(
    connection: Connection,
    *,
    kind: str | None = None,
    lane: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[ErrorCount]:
    """Failed attempts that ended in a time (the last day), by kind and error, the most frequent first."""
    until = until or datetime.now(UTC) + timedelta(hours=1)  # clocks of agents may be ahead
    since = since or until - timedelta(days=1, hours=1)
    with errors(AUDITOR):
        return _ERRORS.all(connection, kind=kind, lane=lane, since=since, until=until)
