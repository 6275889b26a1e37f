"""`jobyard coordinator`: lead lanes."""

from typing import Annotated

import typer

from jobyard.cli import known_lanes
from jobyard.contracts.errors import ConfigurationError, NotFound, ServiceUnavailable
from jobyard.process import logs
from jobyard.settings import coordinator_settings

app = typer.Typer(no_args_is_help=True, help="The coordinator: takes in jobs, places them, records how they end.")


@app.callback()
def noun() -> None:
    """A group, though it has one verb."""


@app.command()
def run(
    lane: Annotated[list[str] | None, typer.Option("--lane", help="Lead only this lane; several times for several. Default: all.")] = None,
) -> None:
    """Lead lanes until SIGTERM or Ctrl-C; a second one ends it at once. Several may run: each lane has one leader.

    Example: jobyard coordinator run --lane default --lane reports
    """
    from jobyard.coordinator.main import CoordinatorPlan
    from jobyard.coordinator.main import run as run_coordinator

    settings = coordinator_settings()
    logs.configure(settings.log_format)
    for name in lane or ():
        known_lanes.demand_name(name)
    if lane:
        _demand(lane, settings.database())
    plan = CoordinatorPlan(
        database_url=settings.database(),
        bootstrap_servers=settings.kafka(),
        kafka_options=settings.kafka_options,
        namespace=settings.namespace,
        lanes=tuple(lane or ()),
        rules=settings.rules(),
        retention_days=settings.retention_days,
        partition_days=settings.days_of_partition(),
        metrics=settings.metrics(),
    )
    raise typer.Exit(run_coordinator(plan))


def _demand(lanes: list[str], database: str) -> None:
    """Raises NotFound for a lane that is not there; a Master DB that can't be asked now is waited for later."""
    from jobyard.master_db.lanes import PostgresLanes

    asked = PostgresLanes(database)
    try:
        there = asked.all()
    except (ServiceUnavailable, ConfigurationError):
        return
    finally:
        asked.close()
    for name in lanes:
        if name not in there:
            raise NotFound(known_lanes.absent(name))
