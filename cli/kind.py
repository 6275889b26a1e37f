"""`jobyard kind`: what the kinds of jobs are, how long they take, and pausing one."""

from typing import Annotated, Final

import typer

from jobyard.cli import commanding, output
from jobyard.cli.output import AsJson
from jobyard.cli.services import master_db

app = typer.Typer(no_args_is_help=True, help="Kinds: what jobs are of; each is run by a handler.")

Name = Annotated[str, typer.Argument(metavar="KIND", help="The kind: the name of a handler.")]
_LIST: Final = ("kind", "declared", "paused", "version", "lane", "priority", "size", "timeout_s", "max_attempts", "synced_at")
_DURATIONS: Final = ("lane", "size_up_to", "mean_s", "ends")


@app.command("list")
def list_kinds(as_json: AsJson = False) -> None:
    """List the kinds that code has declared or jobs have named, with the defaults of their jobs.

    Example: jobyard kind list
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        found = operations.kinds(connection)
    output.many(found, as_json, _LIST, "no kinds; `jobyard app sync MODULE:APP` declares those of an application")


@app.command()
def show(kind: Name, as_json: AsJson = False) -> None:
    """Show one kind: its defaults, which agents run it, and how long its jobs take, by lane and size, as the leaders have learned.

    Example: jobyard kind show transcribe
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        found = operations.kind(connection, kind)
        agents = [agent for agent in operations.agents(connection) if kind in agent.kinds]
        learned = operations.durations(connection, kind)
    shown = output.fields(found) | {"agents": sorted(agent.agent for agent in agents)}
    if as_json:
        output.one(shown | {"durations": [output.fields(one) for one in learned]}, as_json=True)
        return
    output.one({name: value for name, value in shown.items() if value not in (None, [])}, as_json=False)
    if learned:
        output.say("")
        output.many(learned, False, _DURATIONS, "")


@app.command()
def pause(kind: Name, as_json: AsJson = False) -> None:
    """Place no job of a kind any more, in any lane. What is placed goes on, and new ones are taken in.

    Example: jobyard kind pause transcribe
    """
    _switch(kind, paused=True, as_json=as_json)


@app.command()
def resume(kind: Name, as_json: AsJson = False) -> None:
    """Place jobs of a paused kind again.

    Example: jobyard kind resume transcribe
    """
    _switch(kind, paused=False, as_json=as_json)


def _switch(kind: str, *, paused: bool, as_json: bool) -> None:
    from jobyard.master_db import operations

    with master_db() as connection:
        commanding.await_led(connection, operations.pause_kind(connection, kind, paused=paused))
    commanding.told(
        {"kind": kind, "paused": paused}, f"kind {kind} {'is paused: what is placed goes on' if paused else 'goes on'}", as_json
    )
