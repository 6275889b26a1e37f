"""`jobyard db`: the schema of the Master DB, and how long its history is kept."""

from typing import Annotated, Final

import typer

from jobyard.cli import output
from jobyard.cli.exits import Exit
from jobyard.cli.output import AsJson
from jobyard.cli.services import master_db
from jobyard.settings import cli_settings

app = typer.Typer(no_args_is_help=True, help="The Master DB: its schema and its history.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_FINDINGS: Final = ("what", "mend", "fatal")
_PARTITIONS: Final = ("suffix", "since", "until", "old")


@app.command()
def upgrade(as_json: AsJson = False) -> None:
    """Bring the schema to this version's, as the owner of the database. Several at once wait for each other.

    Example: jobyard db upgrade
    """
    from jobyard import migrations

    url = cli_settings().database()
    before, after = migrations.upgrade(url), migrations.head()
    if as_json:
        output.one({"revision": after, "before": before}, as_json=True)
    else:
        typer.echo(f"revision {after}" + (", as before" if before == after else f" (before: {before or 'none'})"))


@app.command()
def current(as_json: AsJson = False) -> None:
    """Say which revision the schema has, and which one this program was written for.

    Example: jobyard db current --json
    """
    from jobyard import migrations

    found = {"revision": migrations.current(cli_settings().database()), "head": migrations.head()}
    output.one(found, as_json)


@app.command()
def check(as_json: AsJson = False) -> None:
    """Check the database: server, encoding, schema, partitions. Exit code 1 if something is wrong.

    Example: jobyard db check
    """
    from jobyard import migrations
    from jobyard.master_db.check import check as findings_of

    with master_db() as connection:
        found = findings_of(connection, migrations.head())
    output.many(found, as_json, _FINDINGS, "the Master DB is as it must be")
    if found:
        raise typer.Exit(Exit.REFUSED)


@app.command()
def prune(
    days: Annotated[int | None, typer.Option("--days", min=7, help="Keep this many days. Default: JOBYARD_RETENTION_DAYS.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Drop what is past the retention, whole partitions, oldest first. Unfinished jobs are kept for ever.

    Example: jobyard db prune --days 30 --dry-run
    """
    from jobyard.master_db import retention

    kept_days = days or cli_settings().retention_days
    with master_db() as connection:
        old = [found for found in retention.partitions(connection, retention_days=kept_days) if found.old]
        if dry_run:
            output.many(old, as_json, _PARTITIONS, "nothing is past the retention")
            return
        if old and not yes:
            output.confirm(f"Drop {len(old)} partitions, with all history of before {old[-1].until.date()}?")
        done = retention.prune(connection, retention_days=kept_days)
    if as_json:
        output.one({"dropped": done.dropped, "waiting": done.waiting, "moved_jobs": done.moved_jobs, "busy": done.busy}, as_json=True)
    elif done.busy:
        output.note("another housekeeper works at the moment; try again in a minute")
    else:
        typer.echo(f"dropped: {', '.join(done.dropped) or 'none'}; unfinished jobs moved aside: {done.moved_jobs}")
        if done.waiting:
            output.note(f"in use, to be tried again: {', '.join(done.waiting)}")
    if done.busy or done.waiting:
        raise typer.Exit(Exit.REFUSED)
