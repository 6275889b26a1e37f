"""Why a job waits, in a sentence: what `jobyard job show` adds to the row."""

from typing import TYPE_CHECKING, Final

from jobyard.cli.output import cell
from jobyard.contracts.states import State

if TYPE_CHECKING:
    from jobyard.master_db.audit import AgentLoad, JobStatus, LaneSummary
    from jobyard.master_db.connection import Connection

_WAITING: Final = (State.PENDING, State.SCHEDULED, State.RETRYING, State.PLACED)


def waits_for(connection: "Connection", job: "JobStatus") -> str | None:
    """What the job waits for; None: it does not wait."""
    if job.state not in _WAITING:
        return None
    from jobyard.master_db import operations

    return reason(job, operations.lane(connection, job.lane), operations.agents(connection, lane=job.lane))


def reason(job: "JobStatus", lane: "LaneSummary", agents: "list[AgentLoad]") -> str | None:
    """The first thing that keeps the job from running; None: it does not wait. `agents`: the live ones of its lane."""
    if job.state not in _WAITING:
        return None
    if job.state == State.SCHEDULED:
        return f"its time, {cell(job.run_at)}"
    if job.state == State.RETRYING:
        return f"its next attempt, {cell(job.run_at)} (`jobyard job history {job.job_id}` tells how the last one ended)"
    if job.state == State.PLACED:
        return f"a slot on {job.agent}, or it has just begun: a start is told after half a second"
    if not lane.led:
        return f"a coordinator: none leads lane {job.lane} (`jobyard coordinator run`)"
    active = [agent for agent in agents if agent.state == "active"]
    if not active:
        return f"an agent: none of lane {job.lane} is active (`jobyard agent run MODULE:APP --lane {job.lane}`)"
    able = [agent for agent in active if job.kind in agent.kinds]
    if not able:
        there = ", ".join(sorted({kind for agent in active for kind in agent.kinds})) or "none"
        return f"an agent that runs kind {job.kind}: none of lane {job.lane} does. Kinds that they run: {there}"
    slots = [agent for agent in able if agent.running + agent.placed < agent.slots]
    if job.size > max(agent.capacity for agent in able):
        return f"an agent with nothing to do: its size {cell(job.size)} is larger than the capacity of each, so it runs alone"
    if not any(agent.size_running + agent.size_placed + job.size <= agent.capacity for agent in slots):
        return f"a free agent: each of the {len(able)} that run kind {job.kind} has its slots or its capacity in use (`jobyard agent list`)"
    return "its turn; or for an agent whose handler has the job's version, if none has it" if job.version > 1 else "its turn"
