"""`jobyard dev`: real Postgres and real Kafka for development, and everything at once in the foreground."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence, Set
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import typer

from jobyard.cli import output
from jobyard.cli.exits import Exit
from jobyard.cli.output import AsJson
from jobyard.cli.target import load
from jobyard.contracts.declaration import Declaration
from jobyard.contracts.errors import ServiceUnavailable
from jobyard.embedded.folder import DEFAULT
from jobyard.embedded.foreground import Foreground, Program
from jobyard.embedded.services import PARTS, Part, Services, Status
from jobyard.settings import CliSettings, cli_settings

DATABASE_URL, BOOTSTRAP_SERVERS = "JOBYARD_DATABASE_URL", "JOBYARD_KAFKA_BOOTSTRAP_SERVERS"
KAFKA_OPTIONS = "JOBYARD_KAFKA_OPTIONS"  # of a cluster elsewhere: the embedded one has none
AGENT_PATIENCE_S = 40.0  # the grace for running jobs (25 s), and time to report
COORDINATOR_PATIENCE_S = 15.0
CLOCKS_APART_S = 5.0  # of the database and of whoever stamps the agents' starts

app = typer.Typer(
    no_args_is_help=True, help="Real Postgres and real Kafka for development: no Docker, no root, nothing to install but jobyard[dev]."
)

Folder = Annotated[Path, typer.Option("--folder", help="Where data, logs, ports and password of the services are.")]


@app.command()
def up(folder: Folder = DEFAULT, as_json: AsJson = False) -> None:
    """Start Postgres and Kafka, migrate the database, make the topics. They run until `jobyard dev down`.

    Example: jobyard dev up && eval "$(jobyard dev env)"
    """
    services = Services(folder, owned=False, tell=output.note)
    settings = cli_settings()
    services.start()
    _prepare(services.database_url, services.kafka_bootstrap_servers, settings, {}, settings.lane)
    _show(services.status(), as_json)


@app.command()
def down(folder: Folder = DEFAULT, as_json: AsJson = False) -> None:
    """Stop what `jobyard dev up` started. The data stay.

    Example: jobyard dev down
    """
    services = Services(folder, owned=False)
    services.stop()
    _show(services.status(), as_json)


@app.command()
def status(folder: Folder = DEFAULT, as_json: AsJson = False) -> None:
    """Say what runs and where. Exit status 4 if Postgres or Kafka does not run.

    Example: jobyard dev status --json
    """
    found = Services(folder, owned=False).status()
    _show(found, as_json)
    if not found.running:
        raise typer.Exit(Exit.UNAVAILABLE)


@app.command()
def env(folder: Folder = DEFAULT, as_json: AsJson = False) -> None:
    """Print the two settings as `export` lines. The address of the database holds its password.

    Example: eval "$(jobyard dev env)"
    """
    found = Services(folder, owned=False).status()
    if not found.running or found.database_url is None or found.kafka_bootstrap_servers is None:
        raise ServiceUnavailable(f"the services in {found.folder} do not run: start them with `jobyard dev up`")
    values = {DATABASE_URL: found.database_url, BOOTSTRAP_SERVERS: found.kafka_bootstrap_servers}
    if as_json:
        output.one(values, as_json=True)
    else:
        for name, value in values.items():
            typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def run(
    target: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="The application whose jobs the agents run; JOBYARD_APP if left out.")
    ] = None,
    agents: Annotated[int, typer.Option(min=1, help="How many agents: of the lane in use, and of each that the code names.")] = 1,
    folder: Folder = DEFAULT,
) -> None:
    """Run all of it in the foreground: Postgres, Kafka, a coordinator, agents. Ctrl-C ends all in order, a second one at once.

    What the code declares is synced first. An agent that ends by itself is started again; if the coordinator or a service does, everything ends.

    JOBYARD_DATABASE_URL and JOBYARD_KAFKA_BOOTSTRAP_SERVERS, where set, are used as they are, and nothing is started in their place.

    Example: jobyard dev run shop.jobs:app --agents 2
    """
    settings = cli_settings()
    declared = load(target, settings.app).declarations()  # before any server: a typo costs nothing
    target = target or settings.app or ""
    lanes = [settings.lane, *sorted({found.lane for found in declared if found.lane is not None} - {settings.lane})]
    parts: list[Part] = []
    if settings.database_url is None:
        parts.append("postgres")
    if settings.kafka_bootstrap_servers is None:
        parts.append("kafka")
    services = Services(folder, parts=parts, tell=output.note)
    with services if parts else nullcontext():
        database = services.database_url if settings.database_url is None else settings.database()
        servers = settings.kafka_bootstrap_servers or services.kafka_bootstrap_servers
        options = {} if "kafka" in parts else settings.kafka_options
        for lane in lanes:
            _prepare(database, servers, settings, options, lane)
        output.note(f"Postgres and Kafka answer ({servers})")
        _declare(database, lanes, declared)
        environment = {name: value for name, value in os.environ.items() if "kafka" not in parts or name != KAFKA_OPTIONS}
        programs = _programs(target, lanes, agents, database, servers, environment)
        agent_names = {program.name for program in programs if program.restarts}
        with _Ready(database, agent_names) as ready:
            Foreground(programs, Path.cwd(), output.note, lambda: _ended(services, parts), ready, _greeting(folder, parts)).run()


class _Ready:
    """Whether all agents have joined since it was made: asked often, and answered for good by the first yes. In a session of its own."""

    def __init__(self, database: str, agents: Set[str]) -> None:
        from jobyard.master_db import audit
        from jobyard.master_db.connection import connect

        self._agents = agents
        self._connection = connect(database, application_name="jobyard-dev", autocommit=True)
        self._since = audit.server_now(self._connection) - timedelta(seconds=CLOCKS_APART_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()

    def __call__(self) -> bool:
        from jobyard.master_db import audit

        try:
            found = audit.agent_load(self._connection)
        except ServiceUnavailable:
            return False  # Postgres has ended: others notice, too
        return self._agents <= {agent.agent for agent in found if agent.state == "active" and agent.started_at >= self._since}


def _greeting(folder: Path, parts: list[Part]) -> str:
    if len(parts) < len(PARTS):
        return "ready"
    elsewhere = "" if folder == DEFAULT else f" --folder {shlex.quote(str(folder))}"
    return f'ready; in another terminal: eval "$(jobyard dev env{elsewhere})"'


def _declare(database: str, lanes: Sequence[str], declared: Sequence[Declaration]) -> None:
    """The lanes that the code names, and what `jobyard app sync` writes."""
    from jobyard.master_db import declarations, operations
    from jobyard.master_db.connection import connect

    with connect(database, application_name="jobyard-dev", autocommit=True) as connection:
        for lane in lanes:
            operations.add_lane(connection, lane)
        done = declarations.sync(connection, declared)
    changes = [f"{what} {', '.join(kinds)}" for what, kinds in output.fields(done).items() if kinds and what != "unchanged"]
    output.note(f"kinds synced: {'; '.join(changes) or 'all were as declared'}")


def _programs(target: str, lanes: Sequence[str], agents: int, database: str, servers: str, environment: Mapping[str, str]) -> list[Program]:
    """The coordinator, then the agents of each lane, which end first. Agents have no database access, so they are not told its address."""
    python = [sys.executable, "-m", "jobyard.cli.app"]
    common = {name: value for name, value in environment.items() if name != DATABASE_URL} | {BOOTSTRAP_SERVERS: servers}
    coordinator = Program("coordinator", 0, [*python, "coordinator", "run"], common | {DATABASE_URL: database}, COORDINATOR_PATIENCE_S)
    named = [
        (lane, f"agent-{number}" if lane == lanes[0] else f"{lane}-agent-{number}") for lane in lanes for number in range(1, agents + 1)
    ]
    return [
        coordinator,
        *(
            Program(name, 1, [*python, "agent", "run", target, "--lane", lane, "--name", name], common, AGENT_PATIENCE_S, restarts=True)
            for lane, name in named
        ),
    ]


def _ended(services: Services, parts: list[Part]) -> str | None:
    """Which of the services that must run does not."""
    for part in parts:
        server = services.postgres.server if part == "postgres" else services.kafka.server
        if server.pid() is None:
            return server.name
    return None


def _prepare(database: str, servers: str, settings: CliSettings, options: Mapping[str, str], lane: str) -> None:
    # imported late: they take half a second, and every `jobyard` command imports this module
    from jobyard import migrations
    from jobyard.kafka.admin import ensure_topics

    migrations.upgrade(database)
    ensure_topics(servers, options, settings.namespace, lane)


def _show(found: Status, as_json: bool) -> None:
    rows = {"postgres": (found.postgres_pid, _hidden(found.database_url)), "kafka": (found.kafka_pid, found.kafka_bootstrap_servers)}
    if as_json:
        services = {name: {"running": pid is not None, "pid": pid, "address": address} for name, (pid, address) in rows.items()}
        typer.echo(json.dumps({"folder": str(found.folder), "running": found.running, **services}))
        return
    for name, (pid, address) in rows.items():
        typer.echo(f"{name:<9} {'down' if pid is None else f'runs  process {pid}'}  {address or ''}".rstrip())


def _hidden(url: str | None) -> str | None:
    """The address without its password: `env` alone prints that."""
    if url is None:
        return None
    scheme, _, rest = url.partition("://")
    user, _, place = rest.partition("@")
    return f"{scheme}://{user.partition(':')[0]}@{place}"
