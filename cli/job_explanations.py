"""What a leader says of a job, in words: why it is where it is, and what would change that."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from jobyard.cli.output import cell
from jobyard.contracts.explanation import AgentFacts, Explanation
from jobyard.contracts.moments import Instant

if TYPE_CHECKING:
    from jobyard.master_db.connection import Connection

_RULES: Final = {
    "free": "it had a free slot and the room, and the least load of those that had",
    "packed": "it had a free slot and the room, and was the fullest of those: a larger job waits, so emptier ones were left to it",
    "window": "no slot was free, and it had the least unstarted work of those that end jobs of this kind fast enough",
    "oversized": "the job is larger than every agent's capacity, and this one of the largest had nothing to do: it runs alone there",
    "reserved": "it was kept for this job until it had the room",
    "aged": "the job had waited longest of those that could run: a share of all placements goes by age",
}


def asked(connection: "Connection", job_id: str) -> tuple[dict[str, object], list[str]]:
    """What the leader of the job's lane says, as facts and in words. Where nobody leads the lane, that is what holds it."""
    from jobyard.master_db import audit, operations

    found = audit.job_status(connection, job_id)
    if found is not None and not operations.lane(connection, found.lane).led:
        words = f"Nobody leads lane {found.lane} now: nothing is placed until a coordinator does (jobyard coordinator run)."
        return {"job_id": job_id, "state": found.state, "why": "no_leader"}, [words]
    explained = read(operations.wait_for_answer(connection, operations.explain(connection, job_id)).answer or "")
    return {"job_id": job_id} | facts(explained), sentences(job_id, explained, lane="LANE" if found is None else found.lane)


def read(answer: str) -> Explanation:
    """The leader's answer. Raises msgspec.DecodeError if it is none: then the leader's version is another one."""
    return msgspec.json.decode(answer, type=Explanation)


def facts(found: Explanation) -> dict[str, object]:
    """For programs: all fields that are set, moments as such."""
    said = {name: value for name, value in msgspec.structs.asdict(found).items() if value is not None and value != []}
    for name in ("since", "run_at"):
        if name in said:
            said[name] = datetime.fromtimestamp(said[name], UTC)
    return said


def sentences(job_id: str, found: Explanation, now: Instant | None = None, lane: str = "LANE") -> list[str]:
    """What holds it, or where it is and why; then, if something can be done, what would change that."""
    at = datetime.now(UTC).timestamp() if now is None else now
    if found.why == "placed" or found.why == "running":
        return _placed(found, at)
    if found.why == "ended":
        return [f"It has ended: {found.state}. `jobyard job history {job_id}` tells of its attempts."]
    lines = [_holds(found, at), *_helps(found, job_id, lane)]
    if found.aged:
        lines.append("It has waited long enough to be aged: its turn comes by age, whatever its priority, as soon as it can be placed.")
    if found.attempt:
        lines.append(f"It was placed {found.attempt} times before: `jobyard job history {job_id}` tells how that ended.")
    return lines


def _placed(found: Explanation, at: Instant) -> list[str]:
    since = 0.0 if found.since is None else at - found.since
    where = found.agent or "an agent that is over"
    if found.why == "running":
        lines = [f"It has been running on {where} for {_long(since)} (attempt {found.attempt})."]
    else:
        lines = [f"It was given to {where} {_long(since)} ago (attempt {found.attempt}); a start is told after half a second."]
    if found.rule is not None:
        lines.append(f"Why there: {_RULES.get(found.rule, found.rule)}.{_loads(found)}")
    if found.cancel_asked is not None:
        lines.append(f"Its cancel was asked, and is being waited for{': ' + found.cancel_asked if found.cancel_asked else ''}.")
    if found.mean_s is not None:
        lines.append(f"Such jobs take {_long(found.mean_s)} on average, by {found.ends} that have ended.")
    return lines


def _loads(found: Explanation) -> str:
    if found.load is None:
        return ""
    others = "" if found.next is None else f", the next best to {found.next:.0%}"
    count = "" if found.room is None else f" {found.room} agent{' was' if found.room == 1 else 's were'} in question;"
    return f"{count} this one was used to {found.load:.0%}{others}."


def _holds(found: Explanation, at: Instant) -> str:
    waits = "It waits" if found.since is None else f"It has waited {_long(at - found.since)}"
    kind = f"kind {found.kind}" + (f" in version {found.version} or later" if found.version > 1 else "")
    match found.why:
        case "future":
            due = found.run_at or at
            return f"It waits for its time, {cell(datetime.fromtimestamp(due, UTC))}, in {_long(due - at)}."
        case "lane_paused":
            return f"{waits}: its lane is paused."
        case "kind_paused":
            return f"{waits}: kind {found.kind} is paused."
        case "no_agent" if found.highest is not None:
            return f"{waits} for an agent that runs {kind}: those that are there run version {found.highest} at most."
        case "no_agent":
            return f"{waits} for an agent that runs {kind}: none of the lane does."
        case "none_eligible":
            return f"{waits}: {_agents(found)}, but none takes work now: {_states(found.agents)}."
        case "unread":
            return f"{waits} in the database: the leader holds as many jobs of its kind and priority that were due earlier as it may."
        case "behind":
            return f"{waits} behind {found.ahead} of its kind, priority and size that were due earlier. {_first(found)}"
        case "no_slot":
            return f"{waits} for a free slot: {_agents(found)}, and all their slots are in use."
        case "no_room":
            return f"{waits} for room: its size is {cell(found.size)}. {_room(found.agents)}"
        case "drains_for_it":
            kept = next((one for one in found.agents if one.reserved), None)
            where = (
                "an agent"
                if kept is None
                else f"agent {kept.agent}, where {cell(kept.free_room)} of {cell(kept.capacity)} are free by now,"
            )
            return f"{waits} for room: its size is {cell(found.size)}. {where[0].upper()}{where[1:]} takes nothing new until it fits."
        case _:
            return f"{waits}; nothing holds it any more, so it is placed in a moment."


def _first(found: Explanation) -> str:
    reasons = {
        "no_slot": "waits for a free slot",
        "no_room": "waits for room",
        "drains_for_it": "has an agent that drains for it",
        "next_pass": "is placed in a moment",
    }
    return f"The first of them, {found.first}, {reasons.get(found.first_waits or '', 'waits')}."


def _helps(found: Explanation, job_id: str, lane: str) -> list[str]:
    why = found.first_waits if found.why == "behind" else found.why
    match why:
        case "future":
            return [f"To run it now: jobyard job reschedule {job_id} --run-at now"]
        case "lane_paused":
            return [f"It goes on with: jobyard lane resume {lane}"]
        case "kind_paused":
            return [f"It goes on with: jobyard kind resume {found.kind}"]
        case "no_agent":
            return ["What helps: an agent with that code (jobyard agent run MODULE:APP)."]
        case "none_eligible":
            return ["What helps: another agent that runs the kind; or to look at these (jobyard agent list)."]
        case "no_slot" | "no_room":
            return ["What helps: the end of a job there, another agent, or a higher priority (jobyard job reschedule)."]
        case _:
            return []


def _agents(found: Explanation) -> str:
    return "one agent runs its kind" if found.knowing == 1 else f"{found.knowing} agents run its kind"


def _states(agents: Sequence[AgentFacts]) -> str:
    return ", ".join(f"{one.agent} is {one.state}" for one in agents)


def _room(agents: Sequence[AgentFacts]) -> str:
    with_slot = [one for one in agents if one.free_slots]
    if not with_slot:
        return ""
    nearest = min(with_slot, key=lambda one: one.missing)
    return f"The nearest is agent {nearest.agent}: {cell(nearest.free_room)} of {cell(nearest.capacity)} are free, {cell(nearest.missing)} are missing."


def _long(seconds: float) -> str:
    """A duration for people: 12 s, 3.5 ms, 2 h 5 min."""
    seconds = max(seconds, 0.0)
    if seconds < 1.0:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days"
