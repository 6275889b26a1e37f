"""`jobyard agent`: run jobs; see who runs them."""

from contextlib import suppress
from typing import Annotated, Final

import typer

from jobyard.cli import draining, known_lanes, output, told
from jobyard.cli.output import AsJson
from jobyard.cli.services import master_db
from jobyard.cli.target import Target, load
from jobyard.cli.told import Reason
from jobyard.contracts.errors import ServiceUnavailable
from jobyard.process import logs
from jobyard.settings import agent_settings

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


@app.command()
def drain(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="The agents.")] = None,
    host: Annotated[str | None, typer.Option("--host", help="All agents that live on this host, instead of names.")] = None,
    lane: Annotated[str | None, typer.Option("--lane", help="Only in this lane. Default: in all that they live in.")] = None,
    stop: Annotated[bool, typer.Option("--stop", help="They end in order (exit status 0) once nothing runs there.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing runs there; with --stop, until they have ended.")] = False,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0, help="Wait for at most so many seconds. Default: for ever.")] = None,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Give agents nothing new: what they have not started goes back at once, what runs goes on to its end. `agent resume` ends it.

    Example: jobyard agent drain --host worker-3 --wait --stop
    """
    from jobyard.master_db import operations

    if bool(names) == bool(host):
        raise typer.BadParameter("give names, or --host")
    with master_db() as connection:
        chosen = list(dict.fromkeys(names or draining.of_host(connection, host or "", lane)))
        numbers = {name: operations.drain_agent(connection, name, lane=lane, stop=stop, reason=reason) for name in chosen}
        for name, asked in numbers.items():
            told.say(connection, f"agent {name}", "is drained", asked, as_json)
        if wait:
            raise typer.Exit(draining.wait(connection, chosen, lane, stop=stop, timeout_s=timeout))


@app.command()
def resume(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="The agents.")],
    lane: Annotated[str | None, typer.Option("--lane", help="Only in this lane. Default: in all that they live in.")] = None,
    as_json: AsJson = False,
) -> None:
    """Give drained agents work again.

    Example: jobyard agent resume worker-3
    """
    from jobyard.master_db import operations

    with master_db() as connection:
        for name in dict.fromkeys(names):
            told.say(connection, f"agent {name}", "goes on", operations.resume_agent(connection, name, lane=lane), as_json)
