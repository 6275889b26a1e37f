"""`jobyard agent`: run jobs; see who runs them."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from jobyard.cli import commanding, known_lanes, output
from jobyard.cli.output import AsJson
from jobyard.cli.services import master_db
from jobyard.cli.target import Target, load
from jobyard.contracts.errors import NotFound, ServiceUnavailable
from jobyard.process import logs
from jobyard.settings import agent_settings

if TYPE_CHECKING:
    from jobyard.master_db.operations import Told

app = typer.Typer(no_args_is_help=True, help="Agents: the processes that run jobs.")

LONGEST_NAME: Final = 200
_LIST: Final = (
    "agent", "host", "lane", "state", "capacity", "size_running", "size_placed", "slots", "running", "placed", "last_heard_at", "started_at",
)  # fmt: skip
_SHOW: Final = ("agent", "host", "lane", "state", "capacity", "slots", "incarnation", "started_at", "last_heard_at", "ended_at")


@app.command()
def run(
    target: Target = None,
    lane: Annotated[str | None, typer.Option("--lane", help="The lane whose jobs it runs. Default: JOBYARD_LANE.")] = None,
    capacity: Annotated[float | None, typer.Option("--capacity", help="Size units at once. Default: as many as slots.")] = None,
    slots: Annotated[int, typer.Option("--slots", help="Jobs at once.")] = 10,
    name: Annotated[str | None, typer.Option("--name", help="Its name in the audit. Default: HOST-PID.")] = None,
) -> None:
    """Run the application's jobs until SIGTERM or Ctrl-C: what runs then may go on for JOBYARD_GRACE_S; a second one ends it at once.

    Example: jobyard agent run shop.jobs:app --lane default --slots 20
    """
    from jobyard.agent.main import AgentPlan, default_name
    from jobyard.agent.main import run as run_agent

    settings = agent_settings()
    logs.configure(settings.log_format)
    chosen = lane or settings.lane
    known_lanes.demand_name(chosen)
    problem = problem_of_agent(name) if name is not None else None
    if problem:
        raise typer.BadParameter(problem)
    loaded = load(target, settings.app)
    with suppress(ServiceUnavailable):  # the agent says what it meets, and when it gives up
        known_lanes.KafkaLanes(settings.kafka(), settings.kafka_options, settings.namespace, "agent").demand(chosen)
    plan = AgentPlan(
        app=loaded,
        bootstrap_servers=settings.kafka(),
        lane=chosen,
        namespace=settings.namespace,
        kafka_options=settings.kafka_options,
        slots=slots,
        capacity=capacity,
        name=name or default_name(),
        grace_s=settings.grace_s,
        rules=settings.rules(),
    )
    raise typer.Exit(run_agent(plan))


def problem_of_agent(name: str) -> str | None:
    """What is wrong with the name of an agent; None: nothing."""
    if 1 <= len(name) <= LONGEST_NAME and all("!" <= letter <= "~" for letter in name):
        return None
    return f"--name {name!r}: must be 1 to {LONGEST_NAME} printable ASCII characters without spaces"


@app.command("list")
def list_agents(
    lane: Annotated[str | None, typer.Option("--lane", help="Only those of this lane.")] = None, as_json: AsJson = False
) -> None:
    """List the agents that are alive, with their load.

    Example: jobyard agent list --lane default
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        found = operations.agents(connection, lane=lane)
    output.many(found, as_json, _LIST, "no agents; `jobyard agent run MODULE:APP` starts one")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The agent's name.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many of its lives.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show an agent's incarnations, the newest first: each start of its process is one.

    Example: jobyard agent show host-4711
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        found = operations.agent(connection, name, most=limit)
    output.many(found, as_json, _SHOW, "")


Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Agents' names.")]
Host = Annotated[str | None, typer.Option("--host", help="All agents of this host.")]


@app.command()
def drain(
    names: Names = None,
    host: Host = None,
    stop: Annotated[bool, typer.Option("--stop", help="Each ends when nothing runs there any more, with exit code 0.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing runs there any more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let agents take nothing new: what they have not started runs elsewhere, what runs goes on. A restart of the process ends the drain.

    Example: jobyard agent drain --host worker-3 --stop --wait
    """
    from jobyard.master_db import operations

    _demand(names, host)
    with master_db() as connection:
        told = operations.drain_agents(connection, names or [], host, stop=stop)
        _say(told, names, "stop" if stop else "drain", as_json)
        commanding.await_led(connection, [(one.lane, one.number) for one in told])
        if wait:
            commanding.await_idle(connection, {one.agent for one in told})


@app.command()
def resume(names: Names = None, host: Host = None, as_json: AsJson = False) -> None:
    """Let drained agents take work again.

    Example: jobyard agent resume host-4711
    """
    from jobyard.master_db import operations

    _demand(names, host)
    with master_db() as connection:
        told = operations.resume_agents(connection, names or [], host)
        _say(told, names, "resume", as_json)
        commanding.await_led(connection, [(one.lane, one.number) for one in told])


def _demand(names: list[str] | None, host: str | None) -> None:
    if not names and host is None:
        raise typer.BadParameter("name agents, or all of a host with --host; `jobyard agent list` shows them")


def _say(told: "list[Told]", names: list[str] | None, what: str, as_json: bool) -> None:
    """Who was told; NotFound, if somebody was named who is not there."""
    for one in told:
        commanding.told({"agent": one.agent, "lane": one.lane, "asked": what}, f"{one.agent}  {what}", as_json)
    absent = [name for name in names or () if name not in {one.agent for one in told}]
    if absent or not told:
        raise NotFound(f"no live agent {', '.join(absent) or 'there'}; `jobyard agent list` shows those that are alive")
