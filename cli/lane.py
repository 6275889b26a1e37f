"""`jobyard lane`: lanes and what waits in them."""

from typing import Annotated, Final

import typer

from jobyard.cli import commanding, output
from jobyard.cli.output import AsJson
from jobyard.cli.services import admin, master_db
from jobyard.contracts.errors import ConfigurationError
from jobyard.contracts.topics import lane_topics, problem_of_name
from jobyard.settings import cli_settings

app = typer.Typer(no_args_is_help=True, help="Lanes: isolated streams of work, each with its own topics and its own leader.")

Name = Annotated[str, typer.Argument(help="The lane: lower-case letters, digits, hyphens.")]

_COLUMNS: Final = (
    "lane", "led", "leader", "paused", "pending", "scheduled", "retrying", "placed", "running", "oldest_pending_s",
    "finished_last_minute", "failed_last_minute",
)  # fmt: skip


@app.command()
def add(name: Name, as_json: AsJson = False) -> None:
    """Add a lane: makes its topics, then enters it in the Master DB. Doing it again mends what is missing.

    Example: jobyard lane add reports
    """
    from jobyard.master_db import operations

    problem = problem_of_name("lane", name)
    if problem:
        raise ConfigurationError(problem)
    # Topics first: a coordinator leads a lane as soon as it is entered.
    with master_db() as connection:
        with admin() as kafka:
            made = kafka.ensure(lane_topics(cli_settings().namespace, name).all())
        added = operations.add_lane(connection, name)
    if as_json:
        output.one({"lane": name, "added": added, "topics": made}, as_json=True)
    else:
        typer.echo(f"lane {name} {'added' if added else 'was there'}; topics made: {', '.join(made) or 'none, they were there'}")


@app.command("list")
def list_lanes(as_json: AsJson = False) -> None:
    """List all lanes, with who leads them and how much waits and runs.

    Example: jobyard lane list
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        found = operations.lanes(connection)
    output.many(found, as_json, _COLUMNS, "no lanes; `jobyard lane add NAME` adds one")


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one lane.

    Example: jobyard lane show default --json
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        output.one(operations.lane(connection, name), as_json)


@app.command()
def pause(name: Name, as_json: AsJson = False) -> None:
    """Place nothing of a lane any more. What is placed goes on, and new jobs are taken in.

    Example: jobyard lane pause reports
    """
    _switch(name, paused=True, as_json=as_json)


@app.command()
def resume(name: Name, as_json: AsJson = False) -> None:
    """Place jobs of a paused lane again.

    Example: jobyard lane resume reports
    """
    _switch(name, paused=False, as_json=as_json)


def _switch(name: str, *, paused: bool, as_json: bool) -> None:
    from jobyard.master_db import operations

    with master_db() as connection:
        number = operations.pause_lane(connection, name, paused=paused)
        commanding.await_led(connection, [(name, number)])
    commanding.told(
        {"lane": name, "paused": paused}, f"lane {name} {'is paused: what is placed goes on' if paused else 'goes on'}", as_json
    )
