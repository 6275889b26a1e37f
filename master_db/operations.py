"""What operators do by hand: lanes, agents, and commands about jobs. Commands are recorded here and decided by the lane's leader.

Needs a role with jobyard_operator; cancel, retry and reschedule of one's own jobs need only jobyard_client. Each call is one transaction, if the
connection is in autocommit, as it must be for waiting.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from psycopg.types.json import Jsonb

from jobyard.client.refusals import by_code
from jobyard.contracts.errors import InvalidJob, JobyardError, NotFound, WaitTimeout
from jobyard.contracts.priority import PriorityName
from jobyard.contracts.topics import problem_of_name
from jobyard.master_db import audit
from jobyard.master_db.audit import AgentLoad, LaneSummary
from jobyard.master_db.connection import CLIENT, OPERATOR, Connection, errors
from jobyard.master_db.queries import Query


class Added(NamedTuple):
    """How many lanes were added."""

    lanes: int


class Number(NamedTuple):
    """The number of a command, by which its answer is asked for."""

    number: int


class ToldLane(NamedTuple):
    """A lane, and the number of the command that tells its leader."""

    lane: str
    number: int


class Told(NamedTuple):
    """An agent of which something was asked, and the number of the command that tells its lane's leader."""

    agent: str
    lane: str
    number: int


class Answer(NamedTuple):
    """The leader's answer. `code`: None = done, else the SQLSTATE of a refusal; `answer`: in words."""

    answered_at: datetime
    code: str | None
    answer: str | None


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


class KindShown(msgspec.Struct, frozen=True):
    """A kind: the defaults of its jobs. `declared`: by code that was synced; else a job has named it. `size_arg`: the argument that is its jobs' size."""

    kind: str
    declared: bool
    paused: bool
    version: int
    lane: str | None
    priority: PriorityName
    size: float
    size_arg: str | None
    timeout_s: float | None
    max_attempts: int
    retry: str | None
    tags: str | None
    synced_at: datetime


class DurationShown(NamedTuple):
    """How long jobs up to a size (and above half of it) take, in seconds, by so many that have ended."""

    lane: str
    size_up_to: float
    mean_s: float
    ends: int


_ADD_LANE = Query("add_lane", Added)
_KINDS = Query("kinds_declared", KindShown)
_DURATIONS = Query("durations_of_kind", DurationShown)
_CANCEL = Query("cancel", Number)
_RETRY = Query("retry", Number)
_RESCHEDULE = Query("reschedule", Number)
_OPERATE = Query("operate", Number)
_EXPLAIN = Query("explain", Number)
_PAUSE_LANE = Query("pause_lane", Number)
_RESUME_LANE = Query("resume_lane", Number)
_PAUSE_KIND = Query("pause_kind", ToldLane)
_RESUME_KIND = Query("resume_kind", ToldLane)
_DRAIN_AGENTS = Query("drain_agents", Told)
_RESUME_AGENTS = Query("resume_agents", Told)
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


def pause_lane(connection: Connection, lane: str, *, paused: bool) -> int:
    """Place nothing of the lane any more, or again; returns the number of the command that tells its leader. Raises InvalidJob for an unknown lane."""
    with errors(OPERATOR):
        return (_PAUSE_LANE if paused else _RESUME_LANE).one(connection, lane=lane).number


def pause_kind(connection: Connection, kind: str, *, paused: bool) -> list[ToldLane]:
    """The same for a kind, in all lanes. Raises InvalidJob for an unknown kind."""
    with errors(OPERATOR):
        return (_PAUSE_KIND if paused else _RESUME_KIND).all(connection, kind=kind)


def kinds(connection: Connection) -> list[KindShown]:
    """All kinds, by name."""
    with errors(OPERATOR):
        return _KINDS.all(connection, name=None)


def kind(connection: Connection, name: str) -> KindShown:
    """One kind. Raises NotFound."""
    with errors(OPERATOR):
        found = _KINDS.first(connection, name=name)
    if found is None:
        raise NotFound(f'no kind {name!r}; "jobyard kind list" shows those that are there')
    return found


def durations(connection: Connection, kind: str) -> list[DurationShown]:
    """How long jobs of a kind take, by lane and size."""
    with errors(OPERATOR):
        return _DURATIONS.all(connection, name=kind)


def drain_agents(connection: Connection, names: Sequence[str], host: str | None, *, stop: bool) -> list[Told]:
    """Let agents of these names, or of this host, take nothing new; with `stop` they end when nothing runs there. Those that are there."""
    with errors(OPERATOR):
        return _DRAIN_AGENTS.all(connection, names=list(names) or None, host=host, stop=stop)


def resume_agents(connection: Connection, names: Sequence[str], host: str | None) -> list[Told]:
    """Let them take work again. Those that are there."""
    with errors(OPERATOR):
        return _RESUME_AGENTS.all(connection, names=list(names) or None, host=host)


def operate(connection: Connection, lane: str, verb: str, args: dict[str, object] | None = None) -> int:
    """Record a command for a lane's leader; returns its number. Raises InvalidJob for an unknown lane."""
    with errors(OPERATOR):
        return _OPERATE.one(connection, lane=lane, verb=verb, args=Jsonb(args or {})).number


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
