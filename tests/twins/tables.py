"""The tables of a lane as plain rows: of the real database by one statement, and of the memory as the same rows would be."""

import json
from collections.abc import Callable, Iterable
from typing import Final, cast

import msgspec

from jobyard.contracts.job import Job, Kind, RefusedJob
from jobyard.contracts.moments import later
from jobyard.contracts.states import State
from jobyard.testing.memory_tables import MemoryLane
from twins.frozen_database import FrozenDatabase
from twins.plain import Plain, Plainer

_AT: Final = "extract(epoch from {0})::float8 as {1}"


def _at(column: str, name: str | None = None) -> str:
    return _AT.format(column, name or column.rpartition(".")[2])


_QUERIES: Final = {
    "lease": f"select epoch, fence, leader, {_at('lease_until')}, offsets from leases",
    "kinds": "select kind, priority, size, size_arg, max_attempts, version, timeout_s, retry, tags from kinds",
    "jobs": f"select j.id, k.kind, {_at('j.run_at')}, j.priority, j.max_attempts, j.version, j.size, j.args::text as args,"
    " j.timeout_s, j.retry, j.submitter, j.tags, j.parent_id as parent, j.traceparent from jobs j join kinds k using (kind_id)",
    "pending": f"select p.id, k.kind, {_at('p.run_at')}, p.priority, p.attempt, p.used, p.interruptions, p.why, p.flow"
    " from pending p join kinds k using (kind_id)",
    "bundles": f"select b.fence, a.incarnation, b.bucket, k.kind, b.priority, {_at('b.placed_at')}, b.job_ids, b.lo, b.hi, b.attempts, b.used,"
    " b.interruptions, b.careful, b.bounds, b.reason from bundles b join kinds k using (kind_id) join agents a using (agent_id)",
    "attempts": f"select t.job_id, t.fence, t.attempt, t.used, t.outcome, t.final, a.incarnation, t.bucket, k.kind, {_at('t.placed_at')},"
    f" {_at('t.started_at')}, {_at('t.finished_at')}, t.error_type, t.error_message, t.error_traceback, t.result from attempts t"
    " join kinds k using (kind_id) join agents a using (agent_id)",
    "events": f"select e.job_id, {_at('e.at')}, k.kind, e.attempt, e.used, e.event, e.final, e.actor, e.detail from job_events e join kinds k using (kind_id)",
    "reopened": f"select job_id, {_at('at')}, max_attempts as bound, actor from reopened",
    "running": f"select r.job_id, r.fence, {_at('r.started_at')}, {_at('r.deadline')}, r.done, r.total, r.message from running r",
    "late": f"select l.job_id, l.fence, {_at('l.at')}, a.incarnation, l.outcome, l.closed_job, l.error_type, l.error_message, l.result"
    " from late_reports l join agents a using (agent_id)",
    "agents": "select incarnation, name, host, capacity, slots, state, lost_after_s,"
    f" (select json_object_agg(k.kind, v.version) from unnest(kinds, versions) v(kind_id, version) join kinds k using (kind_id)) as kinds,"
    f" {_at('ended_at')} from agents",
    "buckets": "select b.part, a.incarnation, b.priority, b.topic_id, b.start_offset from buckets b join agents a using (agent_id)",
    "commands": "select command_id, verb, job_id, code, answer from commands",
    "quarantine": f"""select topic, part, "offset", reason, encode(body, 'hex') as body, {_at("at")} from quarantine""",
    "durations": "select k.kind, d.size_class, d.ends, d.mean_s from durations d join kinds k using (kind_id)",
    "held": "select id, job from held_intake",
    "modes": "select paused, fair_share, array(select kind from kinds where kinds.paused order by kind) as kinds,"
    " (select json_object_agg(name, stop) from drains) as drained from lanes",
    "states": "select job_id, state from job_states",
}
_ONE: Final = "'{}', (select json_agg(t) from ({}) t)"
_ALL: Final = f"select json_build_object({', '.join(_ONE.format(name, query) for name, query in _QUERIES.items())})"
_WAITS: Final = {"pending", "scheduled", "retrying", "blocked"}


def postgres_tables(database: FrozenDatabase) -> dict[str, Plain]:
    """By the name of the table."""
    found = cast("dict[str, list[dict[str, Plain]] | None]", database.value(_ALL))
    tables = {name: rows or [] for name, rows in found.items()}
    for row in tables["events"] + tables["reopened"]:
        row["at"] = _tick(row["at"])
    for row in tables["states"]:  # the views' own clock is not frozen
        row["state"] = "pending" if row["state"] in _WAITS else row["state"]
    for row in tables["held"]:
        row["job"] = _held_as(row["job"])
    return {name: _sorted(rows) for name, rows in tables.items()}


def _held_as(held: dict[str, dict[str, object]]) -> Plain:
    """What `held_intake` keeps, its arguments left out: as JSON in JSON their text is not kept as it was."""
    if "job" in held:
        return Plainer().plain(msgspec.convert({name: value for name, value in held["job"].items() if name != "args"}, Job))
    return Plainer().plain(msgspec.convert(held["refused"], RefusedJob))


def memory_tables(tables: MemoryLane) -> dict[str, Plain]:
    """The same of the tables in memory."""
    return {name: _sorted(make(tables)) for name, make in _MAKERS.items()}


def _sorted(rows: Iterable[dict[str, Plain]]) -> list[dict[str, Plain]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def _tick(at: float) -> int:
    """Which tick that was: of two finals of a job in one tick the Master DB puts the second a microsecond later (they need an order)."""
    return round(at * 64)


def _lease(t: MemoryLane) -> list[Plain]:
    offsets = {topic: {"id": topic_id, "next": at} for topic, (topic_id, at) in t.offsets.items()}
    return [{"epoch": t.epoch, "fence": t.fence, "leader": t.leader or None, "lease_until": t.lease_until, "offsets": offsets}]


def _kinds(t: MemoryLane) -> list[Plain]:
    return [{"kind": name} | _plain(kind) for name, kind in t.kinds.items()]


def _plain(value: Kind | Job) -> dict[str, Plain]:
    found: dict[str, Plain] = Plainer().plain(value)
    if value.retry is not None:
        found["retry"] = msgspec.to_builtins(value.retry)
    return found


def _jobs(t: MemoryLane) -> list[Plain]:
    return [_plain(job) for job in t.jobs.values()]


def _pending(t: MemoryLane) -> list[Plain]:
    return [
        {
            "id": row.job_id, "kind": row.kind, "run_at": row.run_at, "priority": row.priority, "attempt": row.attempt, "used": row.used,
            "interruptions": row.interruptions, "why": row.why, "flow": row.flow,
        }
        for row in t.pending.values()
    ]  # fmt: skip


def _bundles(t: MemoryLane) -> list[Plain]:
    found: list[Plain] = []
    for bundle in (row.bundle for row in t.bundles.values()):
        ids = [job.id for job in bundle.jobs]
        found.append(
            {
                "fence": bundle.fence, "incarnation": bundle.incarnation, "bucket": bundle.bucket, "kind": bundle.kind, "priority": bundle.priority,
                "placed_at": bundle.placed_at, "job_ids": ids, "lo": min(ids), "hi": max(ids), "attempts": bundle.attempts, "used": bundle.used,
                "interruptions": bundle.interruptions, "careful": bundle.careful, "bounds": bundle.bounds, "reason": bundle.reason,
            }
        )  # fmt: skip
    return found


def _attempts(t: MemoryLane) -> list[Plain]:
    return [
        {
            "job_id": row.job_id, "fence": row.fence, "attempt": row.attempt, "used": row.used, "outcome": row.outcome.value, "final": row.final,
            "incarnation": t.agents[row.agent_id].incarnation, "bucket": row.bucket, "kind": t.jobs[row.job_id].kind, "placed_at": row.placed_at,
            "started_at": row.started_at, "finished_at": _micro(row.ended_at), "error_type": row.error and row.error.type,
            "error_message": row.error and row.error.message, "error_traceback": (row.error and row.error.traceback) or None,
            "result": None if row.result is None else json.loads(row.result),
        }
        for row in t.attempts.values()
    ]  # fmt: skip


def _micro(at: float) -> float:
    return round(at, 6)


def _events(t: MemoryLane) -> list[Plain]:
    found: list[Plain] = []
    for noted in (row.noted for row in t.events):
        detail = None if noted.detail is None else json.loads(msgspec.json.encode(noted.detail))
        found.append(
            {
                "job_id": noted.job_id, "at": _tick(noted.at), "kind": noted.kind, "attempt": noted.attempt, "used": noted.used, "event": noted.event,
                "final": noted.final, "actor": noted.actor, "detail": detail,
            }
        )  # fmt: skip
    for repair in t.repairs:
        detail = {"rule": repair.rule, "action": repair.action, "fence": repair.fence, "agent": repair.agent}
        found.extend(
            {
                "job_id": job_id, "at": _tick(repair.at), "kind": t.jobs[job_id].kind, "attempt": None, "used": 0, "event": "repaired", "final": None,
                "actor": None, "detail": detail,
            }
            for job_id in dict.fromkeys(repair.job_ids)
            if job_id in t.jobs
        )  # fmt: skip
    return found


def _reopened(t: MemoryLane) -> list[Plain]:
    return [
        {"job_id": job_id, "at": _tick(one.at), "bound": one.bound, "actor": one.actor}
        for job_id, ones in t.reopened.items()
        for _, one in ones
    ]


def _running(t: MemoryLane) -> list[Plain]:
    found: list[Plain] = []
    for job_id, (fence, at) in t.running.items():
        told, timeout = t.progress.get(job_id), t.jobs[job_id].timeout_s
        found.append(
            {
                "job_id": job_id, "fence": fence, "started_at": at, "deadline": None if timeout is None else later(at, timeout),
                "done": told and told.done, "total": told and told.total, "message": told and told.message,
            }
        )  # fmt: skip
    return found


def _late(t: MemoryLane) -> list[Plain]:
    return [
        {
            "job_id": one.job_id, "fence": one.fence, "at": one.at, "incarnation": t.agents[one.agent_id].incarnation, "outcome": one.outcome.value,
            "closed_job": one.closed_job, "error_type": one.error and one.error.type, "error_message": one.error and one.error.message,
            "result": None if one.result is None else json.loads(one.result),
        }
        for one in t.late.values()
    ]  # fmt: skip


def _agents(t: MemoryLane) -> list[Plain]:
    return [
        {
            "incarnation": row.incarnation, "name": row.name, "host": row.host, "capacity": row.capacity, "slots": row.slots, "state": row.state,
            "lost_after_s": row.lost_after_s, "kinds": row.kinds, "ended_at": t.agent_ended.get(number),
        }
        for number, row in t.agents.items()
    ]  # fmt: skip


def _buckets(t: MemoryLane) -> list[Plain]:
    return [
        {
            "part": part, "incarnation": t.agents[owner].incarnation, "priority": bucket.priority, "topic_id": bucket.topic_id,
            "start_offset": bucket.start_offset,
        }
        for part, (owner, bucket) in t.buckets.items()
    ]  # fmt: skip


def _commands(t: MemoryLane) -> list[Plain]:
    return [
        {"command_id": number, "verb": row.command.verb, "job_id": row.command.job_id}
        | ({"code": None, "answer": None} if row.answer is None else {"code": row.answer[0], "answer": row.answer[1]})
        for number, row in t.commands.items()
    ]


def _quarantine(t: MemoryLane) -> list[Plain]:
    return [
        {
            "topic": one.message.topic, "part": one.message.partition, "offset": one.message.offset, "reason": one.message.reason,
            "body": one.message.body.hex(), "at": one.at,
        }
        for one in t.quarantine
    ]  # fmt: skip


def _durations(t: MemoryLane) -> list[Plain]:
    return [{"kind": one.kind, "size_class": one.size_class, "ends": one.ends, "mean_s": one.mean_s} for one in t.means.values()]


def _held(t: MemoryLane) -> list[Plain]:
    return [
        {"id": job_id, "job": _held_as({"job" if isinstance(one, Job) else "refused": json.loads(msgspec.json.encode(one))})}
        for job_id, one in t.held.items()
    ]


def _modes(t: MemoryLane) -> list[Plain]:
    modes = t.modes
    return [
        {
            "paused": modes.paused,
            "fair_share": modes.fair_share,
            "kinds": sorted(modes.paused_kinds),
            "drained": dict(modes.drained) or None,
        }
    ]


def _states(t: MemoryLane) -> list[Plain]:
    states = {job_id: t.state(job_id) for job_id in t.jobs}
    return [{"job_id": job_id, "state": (state or State.PENDING).value} for job_id, state in states.items() if state is not None]


_MAKERS: Final[dict[str, Callable[[MemoryLane], list[Plain]]]] = {
    "lease": _lease,
    "kinds": _kinds,
    "jobs": _jobs,
    "pending": _pending,
    "bundles": _bundles,
    "attempts": _attempts,
    "events": _events,
    "reopened": _reopened,
    "running": _running,
    "late": _late,
    "agents": _agents,
    "buckets": _buckets,
    "commands": _commands,
    "quarantine": _quarantine,
    "durations": _durations,
    "held": _held,
    "modes": _modes,
    "states": _states,
}
