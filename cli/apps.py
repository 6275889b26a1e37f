"""`jobyard app`: what the code declares."""

from typing import Annotated, Final

import typer

from jobyard.cli import output
from jobyard.cli.output import AsJson
from jobyard.cli.services import master_db
from jobyard.cli.target import Target, load
from jobyard.contracts import priority
from jobyard.contracts.declaration import Declaration
from jobyard.settings import cli_settings

app = typer.Typer(no_args_is_help=True, help="What the code declares: kinds with their defaults.")

_COLUMNS: Final = ("kind", "version", "lane", "priority", "size", "timeout_s", "max_attempts", "tags")


@app.command()
def check(target: Target = None, as_json: AsJson = False) -> None:
    """Import the application and find what can't work, without services.

    Example: jobyard app check shop.jobs:app
    """
    declared = load(target, cli_settings().app).declarations()
    output.many([shown(found) for found in declared], as_json, _COLUMNS, "the application declares no kinds")


@app.command()
def sync(
    target: Target = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write what the application declares to the Master DB, and drop what it no longer does: a step of each deploy.

    Example: jobyard app sync shop.jobs:app
    """
    from jobyard.master_db import declarations

    loaded = load(target, cli_settings().app)
    with master_db() as connection:
        done = declarations.sync(connection, loaded.declarations(), dry_run=dry_run)
    if as_json:
        output.one(done, as_json=True)
        return
    for what, kinds in output.fields(done).items():
        typer.echo(f"{what}: {', '.join(kinds) or 'none'}")


def shown(declared: Declaration) -> dict[str, object]:
    """A declaration as people write it."""
    return {
        "kind": declared.kind,
        "version": declared.version,
        "lane": declared.lane,
        "priority": priority.NAMES[declared.priority],
        "size": declared.size_arg or declared.size,
        "timeout_s": declared.timeout_s,
        "max_attempts": declared.max_attempts,
        "retry": declared.retry,
        "tags": declared.tags,
    }
