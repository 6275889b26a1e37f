"""`jobyard job explain`: whom to ask why a job is where it is. The leader, or the tables, where they know it all or nobody leads."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import msgspec

from jobyard.cli import job_explanations, output
from jobyard.cli.exits import Exit
from jobyard.contracts.errors import ConfigurationError, Refused, WaitTimeout
from jobyard.contracts.explanation import Explanation
from jobyard.contracts.states import FINAL, State

if TYPE_CHECKING:
    from jobyard.master_db.audit import Happening, JobStatus
    from jobyard.master_db.connection import Connection

PATIENCE_S: Final = 10.0
"""How long a leader may take to answer."""
_DUE_LATER: Final = (State.SCHEDULED, State.RETRYING)


class Told(NamedTuple):
    """For programs, for people, and how the command ends."""

    facts: dict[str, object]
    lines: list[str]
    code: Exit = Exit.DONE


def told(connection: "Connection", job_id: str) -> Told:
    """Why a job is where it is. Raises NotFound; Refused, if it is somebody else's; WaitTimeout, if nobody answers and the tables may not be read."""
    from jobyard.master_db import audit, operations

    found = _looked_up(connection, job_id)
    now = audit.server_now(connection).timestamp()
    led = found is None or operations.lane(connection, found.lane).led
    ended = found is not None and found.state in FINAL
    if found is not None and not led and not ended:
        why = f"Nobody leads lane {found.lane} now: nothing is placed or recorded until a coordinator does (jobyard coordinator run)."
        return _by_tables(connection, found, "no_leader", why, now)
    try:
        answer = _asked(connection, job_id) if led else None
    except WaitTimeout:
        if found is None:
            raise
        if not ended:
            why = f"The leader of lane {found.lane} has not answered in time: it may just have died (jobyard lane show {found.lane})."
            return _by_tables(connection, found, "no_answer", why, now)._replace(code=Exit.TIME_OUT)
        answer = None
    except (ConfigurationError, Refused):
        if not ended:
            raise
        answer = None  # who may look up, and not ask, is told what the audit says
    if found is not None and ended:
        known = _placed(found, audit.job_timeline(connection, job_id), _mean(answer))
        return Told({"job_id": job_id} | job_explanations.facts(known), job_explanations.sentences(job_id, known, now))
    answer = answer or ""
    try:
        explained = job_explanations.read(answer)
    except msgspec.DecodeError:  # of another version
        return Told({"job_id": job_id} | _raw(answer), [f"The leader is of another version than this command. It says: {answer}"])
    lane = "LANE" if found is None else found.lane
    return Told({"job_id": job_id} | job_explanations.facts(explained), job_explanations.sentences(job_id, explained, now, lane))


def _looked_up(connection: "Connection", job_id: str) -> "JobStatus | None":
    """None: it is still on its way, or there is none, or this role may not look: then the leader knows, who answers the job's submitter, too."""
    from jobyard.master_db import audit

    try:
        return audit.job_status(connection, job_id)
    except ConfigurationError:
        return None


def _asked(connection: "Connection", job_id: str) -> str:
    from jobyard.master_db import operations

    return operations.wait_for_answer(connection, operations.explain(connection, job_id), timeout_s=PATIENCE_S).answer or ""


def _mean(answer: str | None) -> tuple[float | None, int]:
    """How long such jobs take, and of how many ends that is known, if the leader has said so."""
    try:
        said = job_explanations.read(answer or "")
    except msgspec.DecodeError:  # nobody has answered, or a leader of another version
        return None, 0
    return said.mean_s, said.ends


def _placed(found: "JobStatus", timeline: "Sequence[Happening]", mean: tuple[float | None, int] = (None, 0)) -> Explanation:
    """Where a job is, or was last, and by which rule it came there."""
    last = max((one for one in timeline if one.event == "placed"), key=lambda one: one.attempt or 0, default=None)
    ended = found.state in FINAL
    known = Explanation(
        why="ended" if ended else "running" if found.state == State.RUNNING else "placed",
        kind=found.kind,
        version=found.version,
        priority=found.priority,
        size=found.size,
        state=found.state if ended else None,
        mean_s=mean[0],
        ends=mean[1],
    )
    if last is None:
        return known
    kept: object = last.detail
    detail = cast("dict[str, object]", kept) if isinstance(kept, dict) else {}
    reason = {name: detail.get(name) for name in ("rule", "room", "load", "next")}
    since = last.at if found.started_at is None or ended else found.started_at
    said = msgspec.structs.replace(known, agent=last.agent, attempt=last.attempt or 0, since=None if ended else since.timestamp())
    try:
        return msgspec.convert(msgspec.structs.asdict(said) | reason, Explanation)
    except msgspec.ValidationError:  # the reason was kept by another version
        return said


def _by_tables(connection: "Connection", found: "JobStatus", why: str, opening: str, now: float) -> Told:
    """What can be told though no leader answers."""
    from jobyard.master_db import audit, operations

    facts: dict[str, object] = {"job_id": found.job_id, "why": why, "lane": found.lane, "state": found.state}
    if found.state in (State.PLACED, State.RUNNING):
        known = _placed(found, audit.job_timeline(connection, found.job_id))
        placement = {name: value for name, value in job_explanations.facts(known).items() if name != "why"}
        return Told(facts | placement, [opening, *job_explanations.sentences(found.job_id, known, now)])
    lane = operations.lane(connection, found.lane)
    kind_paused = any(kind.paused for kind in audit.kind_summary(connection) if kind.kind == found.kind)
    able = [agent for agent in operations.agents(connection, lane=found.lane) if found.kind in agent.kinds]
    facts |= {name: getattr(found, name) for name in ("kind", "version", "priority", "size", "run_at")}
    facts |= {"lane_paused": lane.paused, "kind_paused": kind_paused, "knowing": len(able)}
    facts["agents"] = [{"agent": agent.agent, "state": agent.state} for agent in able]
    lines = [opening]
    if found.state in _DUE_LATER:
        lines.append(f"It is due at {output.cell(found.run_at)}.")
    else:
        lines.append(f"It has waited {job_explanations.long(now - found.run_at.timestamp())}, by the tables.")
    if lane.paused:
        lines.append(f"The lane is paused, too: jobyard lane resume {found.lane}")
    if kind_paused:
        lines.append(f"Its kind is paused, too: jobyard kind resume {found.kind}")
    states = ", ".join(f"{agent.agent} is {agent.state}" for agent in able)
    lines.append(f"Agents of the lane that run its kind: {states}." if able else f"No agent of the lane runs kind {found.kind}.")
    return Told(facts, lines)


def _raw(answer: str) -> dict[str, object]:
    try:
        said: object = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return {"answer": answer}
    return dict(cast("Mapping[str, object]", said)) if isinstance(said, dict) else {"answer": answer}
