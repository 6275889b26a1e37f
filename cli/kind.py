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

_DURATIONS: Final = ("lane", "size_up_to", "mean_s", "ends")


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
    """Show one kind: its defaults, which agents run it, and how long its jobs take, by lane and size, as leaders have learned.

    Example: jobyard kind show transcribe --json
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        found = operations.kind(connection, name)
        durations = operations.durations(connection, name)
        able = [
            {"agent": agent.agent, "lane": agent.lane, "state": agent.state}
            for agent in operations.agents(connection)
            if name in agent.kinds
        ]
    if as_json:
        output.one(output.fields(found) | {"run_by": able, "durations": [output.fields(one) for one in durations]}, as_json=True)
        return
    run_by = [f"{one['agent']} (lane {one['lane']}, {one['state']})" for one in able]
    output.one(output.fields(found) | {"run_by": run_by}, as_json=False)
    if durations:
        output.say("")
        output.many(durations, False, _DURATIONS, "")


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
