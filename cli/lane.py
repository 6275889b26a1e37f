"""`jobyard lane`: lanes and what waits in them."""

from typing import Annotated, Final

import typer

from jobyard.cli import known_lanes, output, told
from jobyard.cli.output import AsJson
from jobyard.cli.services import admin, master_db
from jobyard.cli.told import Reason
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


@app.command("set")
def set_up(
    name: Name,
    fair_share: Annotated[
        bool,
        typer.Option("--fair-share/--no-fair-share", help="Inside a priority, submitters take turns; or whoever was due first."),
    ],
    as_json: AsJson = False,
) -> None:
    """Change a lane's setting. It holds from the leader's next tick on.

    Example: jobyard lane set reports --fair-share
    """
    from jobyard.master_db import operations

    done = "is shared fairly among submitters" if fair_share else "serves whoever was due first"
    with known_lanes.demanded(name), master_db() as connection:
        told.say(connection, f"lane {name}", done, operations.fair_share(connection, name, fair_share), as_json)


@app.command()
def pause(name: Name, reason: Reason = None, as_json: AsJson = False) -> None:
    """Place nothing in a lane any more. What is placed goes on, and jobs are taken in; other lanes go on.

    Example: jobyard lane pause reports --reason "the warehouse is down"
    """
    from jobyard.master_db import operations

    with known_lanes.demanded(name), master_db() as connection:
        told.say(connection, f"lane {name}", "is paused", operations.pause_lane(connection, name, reason), as_json)


@app.command()
def resume(name: Name, as_json: AsJson = False) -> None:
    """Place jobs in a paused lane again.

    Example: jobyard lane resume reports
    """
    from jobyard.master_db import operations

    with known_lanes.demanded(name), master_db() as connection:
        told.say(connection, f"lane {name}", "goes on", operations.resume_lane(connection, name), as_json)
