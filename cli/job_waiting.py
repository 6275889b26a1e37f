"""Waiting for the ends of jobs, by looking."""

import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from jobyard.cli import output
from jobyard.cli.exits import Exit, Several
from jobyard.cli.services import master_db

if TYPE_CHECKING:
    from jobyard.client.client import Client
    from jobyard.client.lookup import JobStatus

_COLUMNS: Final = ("job_id", "state", "attempts", "error_type", "error_message")


def ends(client: "Client", job_ids: Sequence[str], timeout: timedelta | None) -> Iterator["tuple[str, JobStatus | None]"]:
    """Each job as it ends; None for one that is not known after ten seconds (by Kafka it may be on its way until then).

    Those that have not ended when the time is up don't come. None: no time-out.
    """
    from jobyard.client.waiting import ON_ITS_WAY_S, pauses

    open_ = dict.fromkeys(job_ids)
    unknown = dict.fromkeys(job_ids, 0.0)
    for pause in pauses(timeout):
        for job_id in list(open_):
            found = client.status(job_id)
            if found is None:
                if unknown[job_id] >= ON_ITS_WAY_S:
                    del open_[job_id]
                    yield job_id, None
                continue
            if found.is_final:
                del open_[job_id]
                yield job_id, found
        if not open_:
            return
        threading.Event().wait(pause)
        for job_id in open_:
            unknown[job_id] += pause


def cancelled_for(job_id: str) -> str | None:
    """The reason that was given when the job's end was asked for; None: none."""
    from jobyard.master_db import audit

    with master_db() as connection:
        happened = audit.job_timeline(connection, job_id)
    for one in reversed(happened):
        detail = cast("dict[str, object] | None", one.detail) or {}  # of this view: objects
        if one.event.startswith("cancel") and detail.get("reason"):
            return str(detail["reason"])
    return None


def wait(client: "Client", job_ids: Sequence[str], timeout: timedelta | None, as_json: bool) -> Exit:
    """Wait for all; prints each as it ends. Done only if all have succeeded."""
    from jobyard.contracts.states import State

    several = Several()
    left = dict.fromkeys(job_ids)
    for job_id, found in ends(client, list(left), timeout):
        del left[job_id]
        if found is None:
            output.error(f"no job {job_id}; `jobyard job list` shows those that are there")
            several.saw(Exit.NOT_FOUND)
            continue
        row = {column: getattr(found, column) for column in _COLUMNS} | {"result": found.result}
        if as_json:
            output.one(row, as_json=True)
        else:
            error = f"  {found.error_type}: {found.error_message}" if found.error_type else ""
            why = cancelled_for(job_id) if found.state is State.CANCELLED else None
            reason = f": {why}" if why else ""
            output.say(f"{job_id}  {found.state}{error or reason}")
            if found.state is State.SUCCEEDED and found.raw_result and found.raw_result != "null":
                output.say(found.raw_result)
        if found.state is not State.SUCCEEDED:
            several.saw(Exit.REFUSED)
    if left and timeout is not None:
        for job_id in left:
            output.error(f"job {job_id} has not ended within {timeout.total_seconds():g} s; it goes on (`jobyard job show {job_id}`)")
        several.saw(Exit.TIME_OUT)
    return several.code
