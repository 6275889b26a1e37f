"""What operators do by hand: lanes, agents, and commands about jobs. Commands are recorded here and decided by the lane's leader.

Needs a role with jobyard_operator; cancel, retry and reschedule of one's own jobs need only jobyard_client. Each call is one transaction, if the
connection is in autocommit, as it must be for waiting.
"""

import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec
from psycopg.types.json import Jsonb

from jobyard.client.refusals import by_code
from jobyard.contracts.errors import InvalidJob, JobyardError, NotFound, WaitTimeout
from jobyard.contracts.priority import PriorityName
from jobyard.contracts.topics import problem_of_name
from jobyard.master_db import audit
from jobyard.master_db.audit import AgentLoad, KindSummary, LaneSummary
from jobyard.master_db.connection import CLIENT, OPERATOR, Connection, errors
from jobyard.master_db.queries import Query


class Added(NamedTuple):
    """How many lanes were added."""

    lanes: int


class Number(NamedTuple):
    """The number of a command, by which its answer is asked for."""

    number: int


class Answer(NamedTuple):
    """The leader's answer. `code`: None = done, else the SQLSTATE of a refusal; `answer`: in words."""

    answered_at: datetime
    code: str | None
    answer: str | None


class DurationShown(NamedTuple):
    """How long jobs up to a size (and above half of it) take, in seconds, by so many that have ended."""

    lane: str
    size_up_to: float
    mean_s: float
    ends: int


class AgentRow(msgspec.Struct, frozen=True):
    """One incarnation of an agent, live or ended."""

    agent: str
    host: str | None
    lane: str
    state: str
    capacity: float
    slots: int
    incarnation: str
    started_at: datetime
    last_heard_at: datetime
    ended_at: datetime | None
    kinds: list[str]


_ADD_LANE = Query("add_lane", Added)
_CANCEL = Query("cancel", Number)
_RETRY = Query("retry", Number)
_RESCHEDULE = Query("reschedule", Number)
_OPERATE = Query("operate", Number)
_EXPLAIN = Query("explain", Number)
_DURATIONS = Query("durations_of_kind", DurationShown)
_PAUSE_LANE = Query("pause_lane", Number)
_RESUME_LANE = Query("resume_lane", Number)
_FAIR_SHARE = Query("fair_share", Number)
_PAUSE_KIND = Query("pause_kind", Number)
_RESUME_KIND = Query("resume_kind", Number)
_DRAIN_AGENT = Query("drain_agent", Number)
_RESUME_AGENT = Query("resume_agent", Number)
_ANSWER = Query("command_answer", Answer)
_AGENTS_EVER = Query("agents_ever", AgentRow)


def add_lane(connection: Connection, lane: str) -> bool:
    """Add a lane; False if it was there. Its topics are made by "jobyard topics create". Raises InvalidJob for a bad name."""
    problem = problem_of_name("lane", lane)
    if problem:
        raise InvalidJob(problem, field="lane", code="JY006")
    with errors(OPERATOR):
        return _ADD_LANE.one(connection, lane=lane).lanes == 1


def lanes(connection: Connection) -> list[LaneSummary]:
    """All lanes, by name."""
    return audit.lane_summary(connection)


def lane(connection: Connection, name: str) -> LaneSummary:
    """One lane. Raises NotFound."""
    for found in audit.lane_summary(connection):
        if found.lane == name:
            return found
    raise NotFound(f'no lane {name!r}; "jobyard lane list" shows those that are there')


def agents(connection: Connection, *, lane: str | None = None) -> list[AgentLoad]:
    """The live agents, of one lane or all, by lane and name."""
    return [found for found in audit.agent_load(connection) if lane in (None, found.lane)]


def agent(connection: Connection, name: str, *, most: int = 10) -> list[AgentRow]:
    """The incarnations of an agent, newest first. Raises NotFound."""
    with errors(OPERATOR):
        found = _AGENTS_EVER.all(connection, name=name, most=most)
    if not found:
        raise NotFound(f'no agent {name!r}; "jobyard agent list" shows those that are alive')
    return found


def cancel(connection: Connection, job_id: str, reason: str | None = None) -> int:
    """Ask for the end of a job; returns the command's number. Raises NotFound, Refused at once where it is plain."""
    with errors(CLIENT):
        return _CANCEL.one(connection, job=job_id, reason=reason).number


def retry(connection: Connection, job_id: str, reason: str | None = None) -> int:
    """Ask for more attempts of an ended job; returns the command's number."""
    with errors(CLIENT):
        return _RETRY.one(connection, job=job_id, reason=reason).number


def reschedule(connection: Connection, job_id: str, run_at: datetime | None = None, priority: PriorityName | None = None) -> int:
    """Ask for another time or priority of a waiting job; returns the command's number."""
    with errors(CLIENT):
        return _RESCHEDULE.one(connection, job=job_id, run_at=run_at, priority=priority).number


def explain(connection: Connection, job_id: str) -> int:
    """Ask the leader why a job is where it is; returns the command's number. The answer is JSON (contracts/explanation.py)."""
    with errors(CLIENT):
        return _EXPLAIN.one(connection, job=job_id).number


def durations(connection: Connection, kind: str) -> list[DurationShown]:
    """How long jobs of a kind take, by lane and size, as their leaders have learned."""
    with errors(OPERATOR):
        return _DURATIONS.all(connection, name=kind)


def operate(connection: Connection, lane: str, verb: str, args: dict[str, object] | None = None) -> int:
    """Record a command for a lane's leader; returns its number. Raises InvalidJob for an unknown lane."""
    with errors(OPERATOR):
        return _OPERATE.one(connection, lane=lane, verb=verb, args=Jsonb(args or {})).number


def pause_lane(connection: Connection, lane: str, reason: str | None = None) -> list[int]:
    """Place nothing in the lane any more; returns the command's number. Raises InvalidJob for an unknown lane."""
    with errors(OPERATOR):
        return [_PAUSE_LANE.one(connection, lane=lane, reason=reason).number]


def resume_lane(connection: Connection, lane: str) -> list[int]:
    """Place jobs in the lane again; returns the command's number. Raises InvalidJob for an unknown lane."""
    with errors(OPERATOR):
        return [_RESUME_LANE.one(connection, lane=lane).number]


def fair_share(connection: Connection, lane: str, fair: bool) -> list[int]:
    """Let submitters take turns in the lane, or not; returns the command's number. Raises InvalidJob for an unknown lane."""
    with errors(OPERATOR):
        return [_FAIR_SHARE.one(connection, lane=lane, fair=fair).number]


def pause_kind(connection: Connection, kind: str, reason: str | None = None) -> list[int]:
    """Place nothing of the kind any more, in any lane; returns a number for each lane. Raises NotFound."""
    with errors(OPERATOR):
        return [row.number for row in _PAUSE_KIND.all(connection, kind=kind, reason=reason)]


def resume_kind(connection: Connection, kind: str) -> list[int]:
    """Place jobs of the kind again; returns a number for each lane. Raises NotFound."""
    with errors(OPERATOR):
        return [row.number for row in _RESUME_KIND.all(connection, kind=kind)]


def drain_agent(connection: Connection, agent: str, *, lane: str | None = None, stop: bool = False, reason: str | None = None) -> list[int]:
    """Give an agent nothing new; returns a number for each lane that it lives in. `stop`: it ends once nothing runs there. Raises NotFound."""
    with errors(OPERATOR):
        return [row.number for row in _DRAIN_AGENT.all(connection, agent=agent, lane=lane, stop=stop, reason=reason)]


def resume_agent(connection: Connection, agent: str, *, lane: str | None = None) -> list[int]:
    """End a drain; returns a number for each lane. Raises NotFound."""
    with errors(OPERATOR):
        return [row.number for row in _RESUME_AGENT.all(connection, agent=agent, lane=lane)]


def kinds(connection: Connection) -> list[KindSummary]:
    """All kinds, by name."""
    return audit.kind_summary(connection)


def kind(connection: Connection, name: str) -> KindSummary:
    """One kind. Raises NotFound."""
    for found in audit.kind_summary(connection):
        if found.kind == name:
            return found
    raise NotFound(f'no kind {name!r}; "jobyard kind list" shows those that are known')


def answer(connection: Connection, number: int) -> Answer | None:
    """The leader's answer to a command of ours; None while there is none."""
    with errors(CLIENT):
        return _ANSWER.first(connection, number=number)


def wait_for_answer(
    connection: Connection, number: int, *, timeout_s: float = 10.0, pause: Callable[[float], object] = time.sleep
) -> Answer:
    """Wait until the leader has answered. `pause` is called between looks, with seconds.

    Raises WaitTimeout (the command stays, and may still be carried out), NotFound and Refused if that is the answer.
    """
    end = time.monotonic() + timeout_s
    step = 0.01
    while True:
        found = answer(connection, number)
        if found is not None:
            refusal = _refusal(found)
            if refusal is not None:
                raise refusal
            return found
        left = end - time.monotonic()
        if left <= 0:
            raise WaitTimeout(
                f'no answer to command {number} in {timeout_s:g} s; does a coordinator lead the lane? See "jobyard lane list"'
            )
        pause(min(step, left))
        step = min(step * 1.5, 0.25)


def _refusal(found: Answer) -> JobyardError | None:
    if found.code is None:
        return None
    return by_code(found.code, found.answer or f"refused with {found.code}")
