"""Which jobs: the filters that `list`, `cancel` and `retry` share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from jobyard.cli.moments import moment, tags
from jobyard.contracts.states import State

if TYPE_CHECKING:
    from jobyard.master_db.audit import Filter, JobStatus, StuckJob
    from jobyard.master_db.connection import Connection

StateName: TypeAlias = Literal["pending", "scheduled", "retrying", "placed", "running", "succeeded", "failed", "cancelled", "refused"]
"""States that can occur: nothing in this version makes a job wait for another, or lets it expire."""
StateOption = Annotated[StateName | None, typer.Option("--state", help="Jobs in this state.")]
KindOption = Annotated[str | None, typer.Option("--kind", help="Jobs of this kind.")]
LaneOption = Annotated[str | None, typer.Option("--lane", help="Jobs of this lane.")]
SubmitterOption = Annotated[str | None, typer.Option("--submitter", help="Jobs of this submitter.")]
TagOption = Annotated[list[str] | None, typer.Option("--tag", metavar="K=V", help="Jobs with this tag; several: with all of them.")]
ErrorTypeOption = Annotated[str | None, typer.Option("--error-type", help="Jobs whose last error is of this type, ValueError for example.")]
ErrorOption = Annotated[str | None, typer.Option("--error", metavar="TEXT", help="Jobs whose last error's message has this text in it.")]
SinceOption = Annotated[str | None, typer.Option("--since", help="Submitted at or after: 2026-12-01T08:00:00Z, or '2h ago'.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="Submitted before: 2026-12-01T08:00:00Z, or '2h ago'.")]

_PAGE: Final = 1000
_MOST_STUCK: Final = 10_000


def wanted(
    state: StateName | None,
    kind: str | None,
    lane: str | None,
    submitter: str | None,
    tag: list[str] | None,
    error_type: str | None,
    error: str | None,
    since: str | None,
    until: str | None,
) -> "Filter":
    """The filter, from the options as typed."""
    from jobyard.master_db.audit import Filter

    return Filter(
        state=None if state is None else State(state),
        kind=kind,
        lane=lane,
        submitter=submitter,
        tags=tags(tag),
        error_type=error_type,
        error=error,
        since=None if since is None else moment(since, "--since"),
        until=None if until is None else moment(until, "--until"),
    )


def found(connection: "Connection", which: "Filter", limit: int | None) -> Iterator["JobStatus"]:
    """The jobs, newest first, page by page. None: all."""
    from jobyard.master_db import audit

    before: str | None = None
    left = limit
    while left is None or left > 0:
        page = audit.find_jobs(connection, which, before=before, most=_PAGE if left is None else min(left, _PAGE))
        yield from page
        if len(page) < (_PAGE if left is None else min(left, _PAGE)):
            return
        before = page[-1].job_id
        left = None if left is None else left - len(page)


def stuck(connection: "Connection", state: StateName | None, kind: str | None, lane: str | None, limit: int) -> "list[StuckJob]":
    """Jobs that will not move by themselves, the longest stuck first."""
    from jobyard.master_db import audit

    wanted_ones = [
        job
        for job in audit.stuck_jobs(connection, most=_MOST_STUCK)
        if state in (None, job.state) and kind in (None, job.kind) and lane in (None, job.lane)
    ]
    return wanted_ones[:limit]
