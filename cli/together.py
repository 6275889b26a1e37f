"""`jobyard run`: coordinator and agent in one process, for small installations."""

import gc
import logging
import threading
from contextlib import suppress
from typing import Annotated, Final

import typer

from jobyard.cli import known_lanes
from jobyard.cli.agent import problem_of_agent
from jobyard.cli.exits import Exit
from jobyard.cli.target import Target, load
from jobyard.contracts.errors import ServiceUnavailable
from jobyard.process import logs
from jobyard.settings import agent_settings, coordinator_settings

_log: Final = logging.getLogger("jobyard.run")

_LAST_WORDS_S: Final = 0.5
"""What the agent has said at its end is read within milliseconds; if not, the next start reads it: it lies in Kafka."""


def run(
    target: Target = None,
    lane: Annotated[
        str | None, typer.Option("--lane", help="The one lane that is led, and whose jobs are run. Default: JOBYARD_LANE.")
    ] = None,
    capacity: Annotated[float | None, typer.Option("--capacity", help="Size units at once. Default: as many as slots.")] = None,
    slots: Annotated[int, typer.Option("--slots", help="Jobs at once.")] = 10,
    name: Annotated[str | None, typer.Option("--name", help="The agent's name in the audit. Default: HOST-PID.")] = None,
) -> None:
    """Coordinator and agent in one process, for small installations: lead one lane, and run its jobs, until SIGTERM or Ctrl-C.

    It is what `coordinator run --lane` and `agent run` are, with the settings of both, and more of either may be started beside it at any time. They
    share one interpreter: a handler that keeps it busy delays the leader, too. Handlers can reach the Master DB's address here; in an agent of its own
    they can't.

    Example: jobyard run shop.jobs:app --slots 20
    """
    from jobyard.agent.main import AgentPlan, AgentProcess, default_name
    from jobyard.coordinator.main import Coordinator, CoordinatorPlan
    from jobyard.process.signals import Signals

    leading, working = coordinator_settings(), agent_settings()
    logs.configure(leading.log_format)
    chosen = lane or working.lane
    known_lanes.demand_name(chosen)
    problem = problem_of_agent(name) if name is not None else None
    if problem:
        raise typer.BadParameter(problem)
    loaded = load(target, working.app)
    with suppress(ServiceUnavailable):  # both say what they meet
        known_lanes.KafkaLanes(working.kafka(), working.kafka_options, working.namespace, "agent").demand(chosen)
    coordinator = Coordinator(
        CoordinatorPlan(
            database_url=leading.database(),
            bootstrap_servers=leading.kafka(),
            kafka_options=leading.kafka_options,
            namespace=leading.namespace,
            lanes=(chosen,),
            rules=leading.rules(),
            retention_days=leading.retention_days,
            partition_days=leading.days_of_partition(),
            metrics=leading.metrics(),
        )
    )
    plan = AgentPlan(
        app=loaded,
        bootstrap_servers=working.kafka(),
        lane=chosen,
        namespace=working.namespace,
        kafka_options=working.kafka_options,
        slots=slots,
        capacity=capacity,
        name=name or default_name(),
        grace_s=working.grace_s,
        rules=working.rules(),
    )
    gc.set_threshold(10_000, 20, 50)
    stop, died = threading.Event(), list[BaseException]()
    with Signals() as signals:

        def lead() -> None:
            try:
                coordinator.run(stop)
            except BaseException as error:
                died.append(error)
            finally:
                signals.wake()

        agent = AgentProcess(plan, signals.wake)
        agent.start()
        leader = threading.Thread(target=lead, name="election", daemon=True)
        leader.start()
        _log.info("runs coordinator and agent in one process: leads lane %s, and runs its jobs as agent %s", chosen, plan.name)
        asked = 0
        while not agent.ended(0):
            signals.wait(None)
            wanted = max(2 if signals.now else int(signals.orderly), int(bool(died)))
            for _ in range(wanted - asked):
                agent.terminate()
            asked = max(asked, wanted)
        # The agent first: what it says at its end is still recorded.
        if not signals.now:
            signals.wait(_LAST_WORDS_S)
        stop.set()
        while leader.is_alive() and not signals.now:
            signals.wait(1.0)
    if died:
        raise died[0]
    left = agent.result()
    if left.code:
        _log.error("%s", left.reason)
    raise typer.Exit(left.code or Exit.DONE)
