"""`jobyard topics`: Kafka's topics with the settings that they must have."""

from typing import Annotated

import typer

from jobyard.cli import output
from jobyard.cli.exits import Exit
from jobyard.cli.output import AsJson
from jobyard.cli.services import admin, master_db
from jobyard.contracts.errors import ConfigurationError
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


def _topics(lanes: list[str] | None, every: bool) -> list[Topic]:
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
    return [topic for name in names for topic in lane_topics(cli_settings().namespace, name).all()]
