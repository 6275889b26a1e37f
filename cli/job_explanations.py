"""What a leader says of a job, in words: why it is where it is, and what would change that."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from jobyard.cli.output import cell
from jobyard.contracts.explanation import AgentFacts, Explanation
from jobyard.contracts.moments import Instant

_RULES: Final = {
    "free": "it had a free slot and the room, and the least load of those that had",
    "packed": "it had a free slot and the room, and was the fullest of those: a larger job waits, so emptier ones were left to it",
    "window": "no slot was free, and it had the least unstarted work of those that end jobs of this kind fast enough",
    "oversized": "the job is larger than every agent's capacity, and this one of the largest had nothing to do: it runs alone there",
    "reserved": "it was kept for this job until it had the room",
    "aged": "the job had waited longest of those that could run: a share of all placements goes by age",
}


def read(answer: str) -> Explanation:
    """The leader's answer. Raises msgspec.DecodeError if it is none: then the leader's version is another one."""
    return msgspec.json.decode(answer, type=Explanation)


def facts(found: Explanation) -> dict[str, object]:
    """For programs: all fields that are set and not 0, as SQL gets them, but moments as such."""
    said: dict[str, object] = msgspec.to_builtins(found)
    for name in ("since", "run_at"):
        if name in said:
            said[name] = datetime.fromtimestamp(getattr(found, name), UTC)
    return said


def sentences(job_id: str, found: Explanation, now: Instant | None = None, lane: str = "LANE") -> list[str]:
    """What holds it, or where it is and why; then, if something can be done, what would change that."""
    at = datetime.now(UTC).timestamp() if now is None else now
    if found.why == "placed" or found.why == "running":
        return _placed(found, at)
    if found.why == "ended":
        return _ended(found, job_id)
    lines = [_holds(found, at), *_helps(found, job_id, lane)]
    if found.aged:
        lines.append("It has waited long enough to be aged: its turn comes by age, whatever its priority, as soon as it can be placed.")
    if found.attempt:
        times = "once" if found.attempt == 1 else f"{found.attempt} times"
        lines.append(f"It was placed {times} before: `jobyard job history {job_id}` tells how that ended.")
    return [*lines, *_mean(found)]


def _ended(found: Explanation, job_id: str) -> list[str]:
    lines = [f"It has ended: {found.state}. `jobyard job history {job_id}` tells of its attempts."]
    if found.agent is not None:
        lines.append(f"Its last attempt, number {found.attempt}, was given to {found.agent}.{_reason(found)}")
    return [*lines, *_mean(found)]


def _placed(found: Explanation, at: Instant) -> list[str]:
    since = 0.0 if found.since is None else at - found.since
    where = found.agent or "an agent that is over"
    if found.why == "running":
        lines = [f"It has been running on {where} for {long(since)} (attempt {found.attempt})."]
    else:
        way = "" if found.bucket is None else f" by bucket {found.bucket}"
        lines = [
            f"It was given to {where}{way} {long(since)} ago (attempt {found.attempt}); a start is told after half a second.",
            "What an agent has not begun within a few seconds it gives back, and it is placed anew.",
        ]
    if found.rule is not None:
        lines.append(_reason(found).strip())
    if found.cancel_asked is not None:
        lines.append(f"Its cancel was asked, and is being waited for{': ' + found.cancel_asked if found.cancel_asked else ''}.")
    return [*lines, *_mean(found)]


def _mean(found: Explanation) -> list[str]:
    if found.mean_s is None:
        return []
    ends = "one that has ended" if found.ends == 1 else f"{found.ends} that have ended"
    return [f"Such jobs take {long(found.mean_s)} on average, by {ends}."]


def _reason(found: Explanation) -> str:
    return "" if found.rule is None else f" Why there: {_RULES.get(found.rule, found.rule)}.{_loads(found)}"


def _loads(found: Explanation) -> str:
    if found.load is None:
        return ""
    others = "" if found.next is None else f", the next best to {found.next:.0%}"
    count = "" if found.room is None else f" {found.room} agent{' was' if found.room == 1 else 's were'} in question;"
    return f"{count} this one was used to {found.load:.0%}{others}."


def _holds(found: Explanation, at: Instant) -> str:
    waits = "It waits" if found.since is None else f"It has waited {long(at - found.since)}"
    kind = f"kind {found.kind}" + (f" in version {found.version} or later" if found.version > 1 else "")
    match found.why:
        case "future":
            due = found.run_at or at
            what = "its next attempt" if found.attempt else "its time"
            return f"It waits for {what}, {cell(datetime.fromtimestamp(due, UTC))}, in {long(due - at)}."
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
            return f"{waits} for a free slot: {_agents(found)}, and all their slots are in use. {_earlier(found)}".rstrip()
        case "kept_for_another":
            return f"{waits}: the agents with a free slot and room for it are kept for larger jobs that have waited longer: {_kept(found.agents)}."
        case "no_room" if found.largest is not None and found.size > found.largest:
            return (
                f"{waits} for an agent of the largest capacity, {cell(found.largest)}, with nothing to do: "
                f"its size {cell(found.size)} fits on none, so it runs alone. {_room(found.agents)}"
            ).rstrip()
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
        "kept_for_another": "waits while agents are kept for larger jobs",
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
        case "kept_for_another":
            return ["What helps: the larger job's start; another agent; or a strictly higher priority (jobyard job reschedule)."]
        case "no_slot" | "no_room":
            return ["What helps: the end of a job there, another agent, or a higher priority (jobyard job reschedule)."]
        case _:
            return []


def _agents(found: Explanation) -> str:
    return "one agent runs its kind" if found.knowing == 1 else f"{found.knowing} agents run its kind"


def _earlier(found: Explanation) -> str:
    if not found.earlier:
        return "It is the next in order."
    return f"{found.earlier} of the lane that wait, too, come before it by priority and due time."


def _kept(agents: Sequence[AgentFacts]) -> str:
    return ", ".join(one.agent for one in agents if one.reserved)


def _states(agents: Sequence[AgentFacts]) -> str:
    return ", ".join(f"{one.agent} is {one.state}" for one in agents)


def _room(agents: Sequence[AgentFacts]) -> str:
    with_slot = [one for one in agents if one.free_slots]
    if not with_slot:
        return ""
    nearest = min(with_slot, key=lambda one: one.missing)
    return f"The nearest is agent {nearest.agent}: {cell(nearest.free_room)} of {cell(nearest.capacity)} are free, {cell(nearest.missing)} are missing."


def long(seconds: float) -> str:
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
