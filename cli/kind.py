"""`jobyard kind`: kinds of jobs, their defaults, and pausing them."""

from typing import Annotated, Final

import typer

from jobyard.cli import output, told
from jobyard.cli.output import AsJson
from jobyard.cli.services import master_db
from jobyard.cli.told import Reason

app = typer.Typer(no_args_is_help=True, help="Kinds: what jobs there are, by the name of their handler.")

Name = Annotated[str, typer.Argument(help="The kind, transcribe for example.")]

_COLUMNS: Final = (
    "kind",
    "declared",
    "paused",
    "version",
    "lane",
    "priority",
    "size",
    "timeout_s",
    "max_attempts",
    "waiting",
    "running",
    "agents",
)


@app.command("list")
def list_kinds(as_json: AsJson = False) -> None:
    """List all kinds, with their defaults, how many jobs wait and run, and how many agents know them.

    Example: jobyard kind list
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        found = operations.kinds(connection)
    output.many(found, as_json, _COLUMNS, "no kinds; `jobyard app sync MODULE:APP` writes those of an application")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one kind.

    Example: jobyard kind show transcribe --json
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        output.one(operations.kind(connection, name), as_json)


@app.command()
def pause(name: Name, reason: Reason = None, as_json: AsJson = False) -> None:
    """Place no jobs of a kind any more, in any lane. What is placed goes on, and jobs are taken in.

    Example: jobyard kind pause transcribe --reason "a bug in 2.4"
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        told.say(connection, f"kind {name}", "is paused", operations.pause_kind(connection, name, reason), as_json)


@app.command()
def resume(name: Name, as_json: AsJson = False) -> None:
    """Place jobs of a paused kind again.

    Example: jobyard kind resume transcribe
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        told.say(connection, f"kind {name}", "goes on", operations.resume_kind(connection, name), as_json)
