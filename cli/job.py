"""`jobyard job`: submit, find, look, wait, act."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import typer

from jobyard.cli import job_commands, job_filters, job_reasons, job_submission, job_waiting, output
from jobyard.cli.exits import Exit
from jobyard.cli.job_filters import (
    ErrorOption,
    ErrorTypeOption,
    KindOption,
    LaneOption,
    SinceOption,
    StateOption,
    SubmitterOption,
    TagOption,
    UntilOption,
)
from jobyard.cli.moments import duration, moment, tags
from jobyard.cli.numbers import number, whole
from jobyard.cli.output import AsJson
from jobyard.cli.services import client, master_db
from jobyard.contracts.errors import JobCancelled, JobExpired, JobFailed, NotFound, Refused
from jobyard.contracts.job import NewJob
from jobyard.contracts.priority import PriorityName
from jobyard.contracts.states import FINAL, State

app = typer.Typer(no_args_is_help=True, help="Jobs: submit, find, look, wait, act.")

Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Jobs' ids; without them, the filters say which jobs.")]
Timeout = Annotated[str | None, typer.Option("--timeout", help="How long to wait: 30, 90s, 15m, 2h. Default: for ever.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why; it is kept in the audit.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show which jobs are meant.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_LIST: Final = (
    "job_id", "kind", "state", "attempts", "agent", "error_type", "lane", "priority", "submitted_at", "finished_at", "error_message",
)  # fmt: skip
_NARROW: Final = ("job_id", "state", "attempts", "kind", "agent", "error_type")
_WIDE: Final = 140
_STUCK: Final = ("job_id", "kind", "lane", "state", "since", "reason")
_HISTORY: Final = ("attempt", "outcome", "agent", "placed_at", "started_at", "finished_at", "is_final", "error_type", "error_message")
_TIMELINE: Final = ("at", "event", "attempt", "agent", "actor", "detail")
_ERRORS: Final = ("kind", "error_type", "attempts", "jobs", "last_at", "last_message")


@app.command()
def submit(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="The kind: the name of a handler.")] = None,
    args: Annotated[str | None, typer.Argument(metavar="[JSON]", help="The handler's keyword arguments, a JSON object.")] = None,
    source: Annotated[str | None, typer.Option("--from", metavar="FILE", help="Many: a job as JSON a line; - is standard input.")] = None,
    lane: Annotated[str | None, typer.Option("--lane", help="The lane. Default: the kind's, else JOBYARD_LANE.")] = None,
    priority: Annotated[PriorityName | None, typer.Option("--priority", help="Default: the kind's, else medium.")] = None,
    size: Annotated[
        float | None,
        typer.Option("--size", parser=number, metavar="NUMBER", help="What it costs, in your units. Default: the kind's, else 1."),
    ] = None,
    run_at: Annotated[str | None, typer.Option("--run-at", help="Not before: 2026-12-01T08:00:00Z.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Not before this long from now: 90, 15m, 2h.")] = None,
    max_attempts: Annotated[
        int | None, typer.Option("--max-attempts", parser=whole, metavar="NUMBER", help="Default: the kind's, else 5.")
    ] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", help="How long one attempt may run: 90, 15m, 2h; at most 366d.")] = None,
    retry: Annotated[
        str | None, typer.Option("--retry", metavar="JSON", help='Delays between attempts: \'{"backoff": "linear", "base_s": 5}\'.')
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(
            "--version", parser=whole, metavar="NUMBER", help="Only agents whose handler has at least this version. Default: the kind's."
        ),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="K=V", help="A tag; several times for several.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="The job's id, a UUIDv7: the same id twice is one job.")] = None,
    submitter: Annotated[str | None, typer.Option("--submitter", help="In whose name. Default: JOBYARD_SUBMITTER.")] = None,
    via: Annotated[Literal["sql", "kafka"] | None, typer.Option("--via", help="Default: JOBYARD_SUBMIT_VIA, else sql.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it has ended; exit code 1 if it did not succeed.")] = False,
    wait_timeout: Annotated[str | None, typer.Option("--wait-timeout", help="With --wait: at most this long; exit code 5 then.")] = None,
    as_json: AsJson = False,
) -> None:
    """Submit one job, and print its id; or, with --from, many (a wrong line is named by its number, and the others go).

    Example: jobyard job submit transcribe '{"path": "a.wav", "minutes": 3}' --priority high --wait

    Example: jobyard job submit --from jobs.jsonl --via kafka
    """
    if source is not None:
        of_one: dict[str, object] = {
            "KIND": kind,
            "JSON": args,
            "--priority": priority,
            "--size": size,
            "--run-at": run_at,
            "--delay": delay,
            "--timeout": timeout,
        }
        of_one |= {"--max-attempts": max_attempts, "--retry": retry, "--version": version, "--tag": tag, "--id": id_}
        given = [name for name, value in of_one.items() if value is not None]
        if wait or wait_timeout is not None:
            raise typer.BadParameter("--wait can't go with --from: take the ids from --json, `jobyard job wait ID...` waits for them")
        if given:
            raise typer.BadParameter(f"{', '.join(given)} can't go with --from: write it in the lines")
        with job_submission.opened(source) as file, client(lane=lane, submitter=submitter) as ours:
            raise typer.Exit(job_submission.Lines(file, via).submit(ours, as_json))
    if kind is None:
        raise typer.BadParameter("KIND is missing (or --from FILE)")
    if run_at is not None and delay is not None:
        raise typer.BadParameter("--run-at and --delay exclude each other")
    if wait_timeout is not None and not wait:
        raise typer.BadParameter("--wait-timeout needs --wait")
    due = moment(run_at, "--run-at") if run_at is not None else None
    if delay is not None:
        due = datetime.now(UTC) + duration(delay, "--delay")
    patience = None if wait_timeout is None else duration(wait_timeout, "--wait-timeout")
    job = NewJob(
        kind=kind,
        args=job_submission.args_of(args),
        id=id_,
        lane=lane,
        priority=priority,
        size=size,
        run_at=due,
        timeout_s=None if timeout is None else duration(timeout, "--timeout").total_seconds(),
        max_attempts=max_attempts,
        retry=job_submission.retry_of(retry),
        version=version,
        submitter=submitter,
        tags=tags(tag),
    )
    with client(submitter=submitter, looks_up=wait) as ours:
        submitted = job_submission.submit_one(ours, job, via)
        if not wait:
            if as_json:
                output.one(submitted, as_json=True)
            else:
                output.say(str(submitted["job_id"]))
                if submitted["duplicate"]:
                    output.note("this id was a job already; nothing was added, and what it holds is as it was")
            return
        if not as_json:
            output.note(f"{'was there already:' if submitted['duplicate'] else 'submitted'} {submitted['job_id']}")
        raise typer.Exit(job_waiting.wait(ours, [str(submitted["job_id"])], patience, as_json))


@app.command("list")
def list_jobs(
    state: StateOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    submitter: SubmitterOption = None,
    tag: TagOption = None,
    error_type: ErrorTypeOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    stuck: Annotated[bool, typer.Option("--stuck", help="Only jobs that will not move by themselves, and why.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first. A narrow terminal gets fewer columns: --json has all.

    Example: jobyard job list --state failed --since '2h ago' --tag customer=42
    """
    if stuck:
        if any((submitter, tag, error_type, error, since, until)):
            raise typer.BadParameter("--stuck goes with --state, --kind, --lane and --limit only")
        with master_db() as connection:
            output.many(job_filters.stuck(connection, state, kind, lane, limit), as_json, _STUCK, "no job is stuck")
        return
    which = job_filters.wanted(state, kind, lane, submitter, tag, error_type, error, since, until)
    with master_db() as connection:
        columns = _LIST if output.wide(_WIDE) else _NARROW
        output.many(job_filters.found(connection, which, limit), as_json, columns, "no job matches")


@app.command()
def show(job_id: Id, as_json: AsJson = False) -> None:
    """Show all about one job; of one that waits, also what for.

    Example: jobyard job show 0199c0de-0000-7000-8000-000000000000
    """
    from jobyard.master_db import audit

    job_commands.demand_ids([job_id])
    with master_db() as connection:
        found = audit.job_status(connection, job_id)
        if found is None:
            raise NotFound(_absent(job_id))
        shown = output.fields(found) | {"waits_for": job_reasons.waits_for(connection, found)}
    output.one(shown if as_json else _filled(shown), as_json)


def _filled(shown: Mapping[str, object]) -> dict[str, object]:
    """What there is to see: for people what is empty is left out."""
    first = {name: shown[name] for name in ("job_id", "kind", "state", "waits_for")}
    return {name: value for name, value in {**first, **shown}.items() if value is not None}


@app.command()
def history(
    job_id: Id,
    timeline: Annotated[bool, typer.Option("--timeline", help="Everything that happened to it, not only attempts.")] = False,
    tracebacks: Annotated[bool, typer.Option("--tracebacks", help="Each attempt with its traceback.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the attempts of one job that have ended, one a line; or all that happened to it.

    Example: jobyard job history 0199c0de-0000-7000-8000-000000000000 --timeline
    """
    from jobyard.master_db import audit

    job_commands.demand_ids([job_id])
    with master_db() as connection:
        if audit.job_status(connection, job_id) is None:
            raise NotFound(_absent(job_id))
        if timeline:
            output.many(audit.job_timeline(connection, job_id), as_json, _TIMELINE, "nothing happened yet")
            return
        attempts = audit.attempt_history(connection, job_id)
    output.many(attempts, as_json, _HISTORY, "no attempt has ended yet")
    if tracebacks and not as_json:
        for attempt in attempts:
            if attempt.error_traceback:
                output.say(f"\nattempt {attempt.attempt}:\n{attempt.error_traceback.rstrip()}")


@app.command()
def explain(job_id: Id, as_json: AsJson = False) -> None:
    """Say why a job waits, or why it is where it is, and what would change that.

    The lane's leader is asked; where nobody leads it, the tables tell what they know. For operators, and for who submitted the job.

    Example: jobyard job explain 0199c0de-0000-7000-8000-000000000000
    """
    from jobyard.cli import job_explaining

    job_commands.demand_ids([job_id])
    with master_db() as connection:
        told = job_explaining.told(connection, job_id.lower())
    if as_json:
        output.one(told.facts, as_json=True)
    else:
        for line in told.lines:
            output.say(line)
    raise typer.Exit(told.code)


@app.command()
def wait(
    job_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The jobs' ids.")], timeout: Timeout = None, as_json: AsJson = False
) -> None:
    """Wait until jobs have ended; prints each as it ends. Exit code 1 if one did not succeed, 5 if time ran out.

    Example: jobyard job wait 0199c0de-0000-7000-8000-000000000000 --timeout 10m
    """
    job_commands.demand_ids(job_ids)
    patience = None if timeout is None else duration(timeout, "--timeout")
    with client(looks_up=True) as ours:
        raise typer.Exit(job_waiting.wait(ours, [job_id.lower() for job_id in job_ids], patience, as_json))


@app.command()
def result(job_id: Id, as_json: AsJson = False) -> None:
    """Print the result of a job that has succeeded, as JSON. Exit code 1 if it has not.

    Example: jobyard job result 0199c0de-0000-7000-8000-000000000000
    """
    job_commands.demand_ids([job_id])
    with client(looks_up=True) as ours:
        found = ours.status(job_id)
    if found is None:
        raise NotFound(_absent(job_id))
    if found.state is State.SUCCEEDED:
        if as_json:
            output.one({"job_id": found.job_id, "state": found.state, "result": found.result}, as_json=True)
        else:
            output.say(found.raw_result or "null")
        return
    if found.state not in FINAL:
        raise Refused(f"job {job_id} is {found.state}, it has no result yet; `jobyard job wait {job_id}` waits for it")
    if found.state is State.CANCELLED:
        raise JobCancelled(job_id, found.error_type or "", job_waiting.cancelled_for(job_id) or "")
    failures = {State.EXPIRED: JobExpired}
    raise failures.get(found.state, JobFailed)(job_id, found.error_type or found.state, found.error_message or "")


@app.command()
def cancel(
    job_ids: Ids = None,
    state: StateOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    submitter: SubmitterOption = None,
    tag: TagOption = None,
    error_type: ErrorTypeOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs that have not ended: those named, or those that the filters find. What runs is asked to stop.

    Example: jobyard job cancel --kind transcribe --tag customer=42 --reason "wrong input" --dry-run
    """
    filters = (state, kind, lane, submitter, tag, error_type, error, since, until)
    raise typer.Exit(_act("cancel", job_ids, filters, reason, dry_run=dry_run, yes=yes, as_json=as_json))


@app.command()
def retry(
    job_ids: Ids = None,
    state: StateOption = None,
    kind: KindOption = None,
    lane: LaneOption = None,
    submitter: SubmitterOption = None,
    tag: TagOption = None,
    error_type: ErrorTypeOption = None,
    error: ErrorOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Try ended jobs again, with max_attempts more: those named, or those that the filters find (failed ones, unless --state says else).

    Example: jobyard job retry --error-type ConnectionError --since '1h ago' --yes
    """
    filters = (state, kind, lane, submitter, tag, error_type, error, since, until)
    raise typer.Exit(_act("retry", job_ids, filters, reason, dry_run=dry_run, yes=yes, as_json=as_json))


@app.command()
def reschedule(
    job_id: Id,
    run_at: Annotated[str | None, typer.Option("--run-at", help="Not before this moment: 2026-12-01T08:00:00Z, now, in 2h.")] = None,
    priority: Annotated[PriorityName | None, typer.Option("--priority", help="Another priority.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give a job that waits another time, or another priority.

    Example: jobyard job reschedule 0199c0de-0000-7000-8000-000000000000 --run-at 'in 2h' --priority low
    """
    job_commands.demand_ids([job_id])
    if run_at is None and priority is None:
        raise typer.BadParameter("give --run-at, --priority, or both")
    at = None if run_at is None else moment(run_at, "--run-at")
    with master_db() as connection:
        job_commands.reschedule(connection, job_id, at, priority, as_json)


@app.command()
def errors(
    kind: KindOption = None, lane: LaneOption = None, since: SinceOption = None, until: UntilOption = None, as_json: AsJson = False
) -> None:
    """Count failed attempts by kind and error, the most frequent first. Default: of the last day.

    Example: jobyard job errors --since '1h ago'
    """
    from jobyard.master_db import audit

    with master_db() as connection:
        found = audit.error_counts(
            connection,
            kind=kind,
            lane=lane,
            since=None if since is None else moment(since, "--since"),
            until=None if until is None else moment(until, "--until"),
        )
    output.many(found, as_json, _ERRORS, "no errors")


_Filters = tuple[
    job_filters.StateName | None, str | None, str | None, str | None, list[str] | None, str | None, str | None, str | None, str | None
]


def _act(
    verb: job_commands.Verb, job_ids: list[str] | None, filters: _Filters, reason: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> Exit:
    filtered = any(filters)
    if bool(job_ids) == filtered:
        raise typer.BadParameter("give either IDs or filters" if filtered else "which jobs? Give IDs, or filters as of `jobyard job list`")
    if not job_ids:
        which = job_filters.wanted(*filters)
        with master_db() as connection:
            return job_commands.act_on_matching(connection, verb, which, reason, dry_run=dry_run, yes=yes, as_json=as_json)
    job_commands.demand_ids(job_ids)
    with master_db() as connection:
        if dry_run:
            for job_id in job_ids:
                output.one({"job_id": job_id}, True) if as_json else output.say(job_id)
            return Exit.DONE
        return job_commands.act(connection, verb, job_ids, reason, as_json)


def _absent(job_id: str) -> str:
    return f"no job {job_id} (one sent by Kafka may still be on its way); `jobyard job list` shows those that are there"
