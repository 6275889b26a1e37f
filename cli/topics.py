"""`jobyard topics`: Kafka's topics with the settings that they must have."""

from typing import Annotated

import typer

from jobyard.cli import output
from jobyard.cli.exits import Exit
from jobyard.cli.output import AsJson
from jobyard.cli.services import admin, master_db
from jobyard.contracts.errors import ConfigurationError
from jobyard.contracts.rights import Grant, Process, principal_of, rights_of
from jobyard.contracts.topics import Topic, lane_topics, problem_of_name
from jobyard.settings import cli_settings

app = typer.Typer(no_args_is_help=True, help="The four topics of each lane.")

Lanes = Annotated[list[str] | None, typer.Option("--lane", help="A lane; several times for several. Default: JOBYARD_LANE.")]
All = Annotated[bool, typer.Option("--all", help="All lanes that the Master DB knows.")]


@app.command()
def create(lane: Lanes = None, every: All = False, as_json: AsJson = False) -> None:
    """Make the topics that are missing, and check all. Existing topics are never changed.

    Example: jobyard topics create --lane default --lane reports
    """
    wanted = _topics(lane, every)
    with admin() as kafka:
        made = kafka.ensure(wanted)
    if as_json:
        output.one({"created": made, "checked": [topic.name for topic in wanted]}, as_json=True)
    else:
        typer.echo(f"made: {', '.join(made) or 'none, they were there'}")


@app.command()
def check(lane: Lanes = None, every: All = False, as_json: AsJson = False) -> None:
    """Check partitions, retention, clean-up policy and message size; says the mend of what is wrong. Exit code 1 if something is.

    Example: jobyard topics check --all
    """
    wanted = _topics(lane, every)
    with admin() as kafka:
        problems = kafka.check(wanted)
    if as_json:
        output.one({"checked": [topic.name for topic in wanted], "problems": problems}, as_json=True)
    else:
        for problem in problems:
            output.error(problem)
        if not problems:
            typer.echo(f"{len(wanted)} topics are as they must be")
    if problems:
        raise typer.Exit(Exit.REFUSED)


@app.command()
def acls(
    lane: Lanes = None,
    every: All = False,
    agent: Annotated[list[str] | None, typer.Option("--agent", help="Who runs agents; several times for several.")] = None,
    client: Annotated[list[str] | None, typer.Option("--client", help="Who submits by Kafka; several times for several.")] = None,
    coordinator: Annotated[
        list[str] | None, typer.Option("--coordinator", help="Who leads, and makes topics; several times for several.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Make them, as a user that may alter the cluster's ACLs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the least rights that each process needs in Kafka, as calls of kafka-acls; with --apply make them. None is ever taken away.

    A principal without a type is a user: shop is User:shop.

    Example: jobyard topics acls --lane default --agent agents --client shop --coordinator coordinator
    """
    asked: tuple[tuple[Process, list[str] | None], ...] = (("coordinator", coordinator), ("agent", agent), ("client", client))
    grants = [
        Grant(_principal(principal), right)
        for name in _lanes(lane, every)
        for process, principals in asked
        for principal in principals or ()
        for right in rights_of(process, cli_settings().namespace, name)
    ]
    if not grants:
        raise typer.BadParameter("for whom? Give --agent, --client or --coordinator a principal, User:shop for example")
    if apply:
        with admin() as kafka:
            for grant in grants:
                kafka.allow(grant.principal, [grant.right])
    servers = cli_settings().kafka_bootstrap_servers or "HOST:PORT"
    for grant in grants:
        if as_json:
            output.one(grant.fields(), as_json=True)
        elif not apply:
            output.say(grant.as_call(servers))
    if apply and not as_json:
        output.say(f"{sum(len(grant.right.operations) for grant in grants)} rights are there now")


def _topics(lanes: list[str] | None, every: bool) -> list[Topic]:
    return [topic for name in _lanes(lanes, every) for topic in lane_topics(cli_settings().namespace, name).all()]


def _lanes(lanes: list[str] | None, every: bool) -> list[str]:
    if every:
        from jobyard.master_db import operations

        with master_db() as connection:
            names = [found.lane for found in operations.lanes(connection)]
    else:
        names = lanes or [cli_settings().lane]
    for name in names:
        problem = problem_of_name("lane", name)
        if problem:
            raise ConfigurationError(problem)
    return names


def _principal(given: str) -> str:
    try:
        return principal_of(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
