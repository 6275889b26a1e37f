"""`jobyard job cancel`, `retry` and `reschedule`: commands to the lane's leader, about jobs named or found."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec
import typer

from jobyard.cli import output
from jobyard.cli.exits import Exit, Several, code_of
from jobyard.cli.job_filters import found
from jobyard.contracts.errors import JobyardError, ServiceUnavailable
from jobyard.contracts.ids import is_job_id
from jobyard.contracts.priority import PriorityName
from jobyard.contracts.states import State

if TYPE_CHECKING:
    from jobyard.master_db.audit import Filter, JobStatus
    from jobyard.master_db.connection import Connection

Verb = Literal["cancel", "retry"]
_T = TypeVar("_T")
_COLUMNS: Final = ("job_id", "kind", "lane", "state", "submitted_at", "error_type")
_AT_ONCE: Final = 200
"""Commands that are recorded before the first answer is waited for: the leader answers all of them in a tick or two."""
_ACTS_ON: Final[dict[Verb, tuple[State, ...]]] = {
    "cancel": (State.PENDING, State.SCHEDULED, State.RETRYING, State.BLOCKED, State.PLACED, State.RUNNING),
    "retry": (State.FAILED,),
}
"""States that a filter without --state means."""


def demand_ids(job_ids: Sequence[str]) -> None:
    """Wrong usage, if one of them is no id of a job."""
    for job_id in job_ids:
        if not is_job_id(job_id.lower()):
            raise typer.BadParameter(f"{job_id!r} is no id of a job (a UUIDv7)")


def matching(connection: "Connection", verb: Verb, which: "Filter") -> list["JobStatus"]:
    """The jobs that a filter means for this verb."""
    states = _ACTS_ON[verb] if which.state is None else (which.state,)
    return [job for state in states for job in found(connection, msgspec.structs.replace(which, state=state), None)]


def act_on_matching(
    connection: "Connection", verb: Verb, which: "Filter", reason: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> Exit:
    """Find, show or ask, act. Nothing found is done."""
    jobs = matching(connection, verb, which)
    if dry_run:
        output.many(jobs, as_json, _COLUMNS, "no job matches")
        return Exit.DONE
    if not jobs:
        output.note("no job matches")
        return Exit.DONE
    if not yes:
        for job in islice(jobs, 5):
            output.note(f"{job.job_id}  {job.kind}  {job.state}")
        if len(jobs) > 5:
            output.note(f"… and {len(jobs) - 5} more (--dry-run shows all)")
        output.confirm(f"{verb.capitalize()} {len(jobs)} jobs?")
    return act(connection, verb, [job.job_id for job in jobs], reason, as_json)


def act(connection: "Connection", verb: Verb, job_ids: Sequence[str], reason: str | None, as_json: bool) -> Exit:
    """Give the command for each job, and wait for the answers; prints one line a job."""
    acting = _Acting(connection, verb, reason, as_json)
    wanted = list(dict.fromkeys(job_id.lower() for job_id in job_ids))
    for start in range(0, len(wanted), _AT_ONCE):
        acting.some(wanted[start : start + _AT_ONCE])
    return acting.several.code


def reschedule(connection: "Connection", job_id: str, run_at: datetime | None, priority: PriorityName | None, as_json: bool) -> None:
    """Give one that waits another time, or priority. Raises what the leader refuses."""
    from jobyard.master_db import operations

    answer = operations.wait_for_answer(connection, operations.reschedule(connection, job_id, run_at, priority))
    if as_json:
        output.one({"job_id": job_id, "command": "reschedule", "done": True, "error": None}, as_json=True)
    else:
        output.say(f"{job_id}  {answer.answer}")


class _Acting:
    def __init__(self, connection: "Connection", verb: Verb, reason: str | None, as_json: bool) -> None:
        self._connection = connection
        self._verb: Verb = verb
        self._reason = reason
        self._as_json = as_json
        self.several = Several()

    def some(self, job_ids: Sequence[str]) -> None:
        """Record the commands, then wait for the answers."""
        from jobyard.master_db import operations

        ask = operations.cancel if self._verb == "cancel" else operations.retry
        numbers: dict[str, int] = {}
        for job_id in job_ids:
            number = self._tried(job_id, partial(ask, self._connection, job_id, self._reason))
            if number is not None:
                numbers[job_id] = number
        for job_id, number in numbers.items():
            answer = self._tried(job_id, partial(operations.wait_for_answer, self._connection, number))
            if answer is not None:
                self._say(job_id, None, answer.answer or "done")

    def _tried(self, job_id: str, call: Callable[[], _T]) -> _T | None:
        """What the call returns; None, and told, if it was refused. Raises if the service is gone: so are all others then."""
        try:
            return call()
        except ServiceUnavailable:
            raise
        except JobyardError as error:
            self.several.saw(code_of(error))
            self._say(job_id, str(error), "")
            return None

    def _say(self, job_id: str, error: str | None, text: str) -> None:
        if self._as_json:
            output.one({"job_id": job_id, "command": self._verb, "done": error is None, "error": error}, as_json=True)
        elif error is None:
            output.say(f"{job_id}  {text}")
        if error is not None:
            output.error(f"{job_id}: {error}")
