"""Questions of a tick as queries, their rows as answers. All in one pipelined round trip, and a second one for the jobs that the first one names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from psycopg import RawCursor

from jobyard.contracts import storable
from jobyard.contracts.ids import FIRST_ID
from jobyard.contracts.job import problem_of_kind
from jobyard.contracts.moments import text as at_text
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core.places import Waiting, Why
from jobyard.coordinator.core.questions import Answers, Command, DueAnswer, DueQuestion, Fresh, LateSubject, NewAgent
from jobyard.master_db.connection import Connection
from jobyard.master_db.job_rows import DueJobRow, due_job_of, load_due_args, load_due_jobs
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.queries import Query, Statement
from jobyard.master_db.standing import REOPENED_OF, ReopenedRow, Standing, incarnations, load_standings


class DueRow(NamedTuple):
    """A due row of one priority and kind. `told`: attempt, used, interruptions and why, one space between; None: 0 0 0 n."""

    ctid: str
    id: str
    run_at: float
    told: str | None


class NextAt(NamedTuple):
    """When the next one is due."""

    run_at: float


class FreshRow(NamedTuple):
    """The snapshot of a look, and what was committed since the one before, if anything."""

    snapshot: str
    priority: int | None
    kind_id: int | None
    flow: int | None
    run_at: float | None


class CommandRow(NamedTuple):
    """A command that waits for its answer. `denied`: all lanes that are led have found that its job is not theirs."""

    command_id: int
    verb: str
    actor: str
    asked_at: float
    job_id: str | None
    args: dict[str, object]
    denied: bool


class AgentNumber(NamedTuple):
    """A new incarnation's number."""

    agent_id: int
    incarnation: str


READ_DUE = Query("read_due", DueRow)
NEXT_FUTURE = Query("next_future", NextAt)
LOOK_FRESH = Query("look_fresh", FreshRow)
OPEN_COMMANDS = Query("open_commands", CommandRow)
RELABEL_COMMAND = Statement("relabel_command")
SETTLE_DENIED = Statement("settle_denied")
NOTIFY_LANE = Statement("notify_lane")
REPLACE_AGENT = Statement("replace_agent")
INSERT_AGENT = Query("insert_agent", AgentNumber)
SET_KINDS = Statement("set_kinds")


NO_SUCH_JOB = "no such job"


class Took(NamedTuple):
    """Whether an advisory lock was taken, or given up."""

    took: bool


TAKE_AWAKE = Query("take_awake", Took)


class Look(NamedTuple):
    """A snapshot of the database, as text: `xmin:xmax:xip,xip`. Remembered from one look to the next (L23)."""

    xmin: int
    xmax: int
    xip: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: str) -> "Look":
        """From the text of pg_current_snapshot()."""
        xmin, xmax, xip = snapshot.split(":")
        return cls(int(xmin), int(xmax), tuple(xip.split(",")) if xip else ())


@dataclass(slots=True)
class Sent:
    """Queries under way in a pipeline."""

    awake: RawCursor[Took] | None = None
    fresh: RawCursor[FreshRow] | None = None
    commands: RawCursor[CommandRow] | None = None
    due: list[tuple[DueQuestion, RawCursor[DueRow], RawCursor[NextAt]]] = field(
        default_factory=list[tuple[DueQuestion, "RawCursor[DueRow]", "RawCursor[NextAt]"]]
    )
    agents: list[tuple[NewAgent, RawCursor[AgentNumber]]] = field(default_factory=list[tuple[NewAgent, "RawCursor[AgentNumber]"]])


class Answering:
    """Answers the questions of one lane's ticks. `look`: the snapshot of the last look.

    `incomplete`: kinds of agents that said hello while somebody's open transaction was adding one of them, by agent number.
    """

    def __init__(self, lane_id: int, kinds: KindNumbers) -> None:
        self._lane_id = lane_id
        self._kinds = kinds
        self.look: Look | None = None
        self.incomplete: dict[int, dict[str, int]] = {}

    def send_look(self, connection: Connection, sent: Sent) -> None:
        """What others have committed since the last look, and commands."""
        if self.look is None:
            raise RuntimeError("a look before the snapshot that it follows")
        sent.fresh = LOOK_FRESH.cursor(connection, lane_id=self._lane_id, since=str(self.look.xmax), also=list(self.look.xip))
        sent.commands = OPEN_COMMANDS.cursor(connection, lane_id=self._lane_id)

    def send_due(self, connection: Connection, questions: Sequence[DueQuestion], sent: Sent) -> None:
        """Read ahead. One row more than wanted tells what lies behind."""
        for question in questions:
            kind_id = self._kinds.ids[question.kind]
            common = {
                "lane_id": self._lane_id,
                "priority": question.priority,
                "kind_id": kind_id,
                "flow": question.flow,
                "until": at_text(question.until),
            }
            after_at, after_id = question.after
            rows = READ_DUE.cursor(
                connection, **common, after_at=at_text(max(after_at, 0.0)), after_id=after_id or FIRST_ID, most=question.most + 1
            )
            sent.due.append((question, rows, NEXT_FUTURE.cursor(connection, **common)))

    def send_agents(self, connection: Connection, agents: Sequence[NewAgent], sent: Sent) -> None:
        """New incarnations. One that has ended long ago gets no number."""
        for agent in agents:
            kind_ids, versions = self._numbers(agent.kinds)
            REPLACE_AGENT.run(connection, lane_id=self._lane_id, name=agent.name, incarnation=agent.incarnation)
            cursor = INSERT_AGENT.cursor(
                connection,
                incarnation=agent.incarnation,
                started=at_text(agent.heard_at),
                capacity=agent.capacity,
                lost_after_s=agent.lost_after_s,
                slots=agent.slots,
                lane_id=self._lane_id,
                name=agent.name,
                host=storable.text(agent.host, 400),
                kinds=kind_ids,
                versions=versions,
            )
            sent.agents.append((agent, cursor))

    def _numbers(self, kinds: Mapping[str, int]) -> tuple[list[int], list[int]]:
        """Kinds and versions for a row of `agents`. A name or version that no table can hold is of no handler that any job could name."""
        known = [(self._kinds.ids[kind], version) for kind, version in kinds.items() if kind in self._kinds.ids and 0 < version <= 32_767]
        return [kind_id for kind_id, _ in known], [version for _, version in known]

    def complete(self, connection: Connection) -> None:
        """Add to agents the kinds that are there by now. Outside of a transaction."""
        self._kinds.meet(connection, {kind for kinds in self.incomplete.values() for kind in kinds})
        for agent_id, kinds in list(self.incomplete.items()):
            if not self._lacks(kinds):
                kind_ids, versions = self._numbers(kinds)
                SET_KINDS.run(connection, agent_id=agent_id, kinds=kind_ids, versions=versions)
                del self.incomplete[agent_id]

    def _lacks(self, kinds: Mapping[str, int]) -> bool:
        return any(kind not in self._kinds.ids and problem_of_kind(kind) is None for kind in kinds)

    def receive(self, connection: Connection, sent: Sent, late: Sequence[tuple[str, int]], answers: Answers) -> None:
        """Take the answers in, and look up the jobs that they name."""
        for agent, cursor in sent.agents:
            for number in cursor.fetchall():
                answers.agents[number.incarnation] = number.agent_id
                if self._lacks(agent.kinds):
                    self.incomplete[number.agent_id] = agent.kinds
        if sent.fresh is not None:
            self._receive_fresh(connection, sent.fresh, answers)
        if sent.due:
            self._receive_due(connection, sent, answers)
        commands = sent.commands.fetchall() if sent.commands is not None else []
        if commands or late:
            self._receive_standings(connection, commands, late, answers)

    def _receive_fresh(self, connection: Connection, cursor: RawCursor[FreshRow], answers: Answers) -> None:
        rows = cursor.fetchall()
        self.look = Look.of(rows[0].snapshot)
        self._kinds.name(connection, {row.kind_id for row in rows if row.kind_id is not None})
        for row in rows:
            if row.priority is not None and row.kind_id is not None and row.flow is not None and row.run_at is not None:
                answers.fresh.append(Fresh(row.priority, self._kinds.names[row.kind_id], row.flow, row.run_at))

    def _receive_due(self, connection: Connection, sent: Sent, answers: Answers) -> None:
        read = [(question, rows.fetchall(), behind.fetchone()) for question, rows, behind in sent.due]
        ids = [row.id for question, rows, _ in read for row in rows[: question.most]]
        jobs = load_due_jobs(connection, ids) if ids else {}
        again = [row.id for _, rows, _ in read for row in rows if row.told is not None]  # a new job was never retried by hand
        bounds = _bounds(REOPENED_OF.all(connection, ids=again)) if again else {}
        for question, rows, behind in read:
            next_at = behind.run_at if behind is not None else None
            if len(rows) > question.most:
                next_at = rows.pop().run_at
            fit = load_due_args(connection, [row.id for row in rows], jobs, question.most_bytes)
            if fit < len(rows):
                next_at = rows[fit].run_at
                del rows[fit:]
            answers.due.append(DueAnswer(question.priority, question.kind, question.flow, _waiting(question, rows, jobs, bounds), next_at))

    def _receive_standings(
        self, connection: Connection, commands: Sequence[CommandRow], late: Sequence[tuple[str, int]], answers: Answers
    ) -> None:
        ids = {row.job_id for row in commands if row.job_id is not None} | {job_id for job_id, _ in late}
        standings = load_standings(connection, ids, self._kinds)
        nowhere = [row.command_id for row in commands if row.denied and row.job_id not in standings]
        if nowhere:
            SETTLE_DENIED.run(connection, command_ids=nowhere, answer=NO_SUCH_JOB)
        for row in commands:
            if row.denied and row.job_id not in standings:
                continue
            standing = standings.get(row.job_id) if row.job_id is not None else None
            if standing is not None and standing.row.lane_id != self._lane_id:
                RELABEL_COMMAND.run(connection, command_id=row.command_id, lane_id=standing.row.lane_id)
                NOTIFY_LANE.run(connection, lane_id=standing.row.lane_id)
                continue
            answers.commands.append(self._command(row, standing))
        if late:
            agents = incarnations(connection, {one.agent_id for standing in standings.values() for one in standing.attempts})
            for job_id, fence in late:
                answers.late[job_id, fence] = self._late(standings.get(job_id), fence, agents)

    def _command(self, row: CommandRow, standing: Standing | None) -> Command:
        command = Command(row.command_id, row.verb, row.actor, row.asked_at, row.job_id, row.args)
        if standing is not None:
            command.job = standing.job(self._kinds)
            command.state = standing.state
            command.waiting = standing.waiting(self._kinds)
            command.bound = standing.bound
            command.interruptions = standing.interruptions
            if standing.attempts:
                command.attempt, command.used = standing.attempts[-1].attempt, standing.attempts[-1].used
        return command

    def _late(self, standing: Standing | None, fence: int, agents: dict[int, str]) -> LateSubject:
        row = next((one for one in standing.attempts if one.fence == fence), None) if standing is not None else None
        if standing is None or row is None:
            return LateSubject(None)
        return LateSubject(
            outcome=Outcome(row.outcome),
            attempt=row.attempt,
            agent_id=row.agent_id,
            incarnation=agents.get(row.agent_id, ""),
            kind=self._kinds.names[standing.row.kind_id],
            used=row.used,
            reported=fence in standing.reported,
            state=standing.state,
            waiting=standing.waiting(self._kinds),
        )


def _waiting(question: DueQuestion, rows: Sequence[DueRow], jobs: Mapping[str, DueJobRow], bounds: Mapping[str, int]) -> list[Waiting]:
    """The jobs of due rows, in order. Positional arguments and rows taken apart in one step: this is done for each job of a drain."""
    kind, priority, flow = question.kind, question.priority, question.flow
    waiting: list[Waiting] = []
    for ctid, job_id, run_at, told in rows:
        job = due_job_of(jobs[job_id], kind, run_at, priority)
        if told is None:
            waiting.append(Waiting(job, 0, 0, 0, job.max_attempts, "n", True, ctid, flow))
        else:
            attempt, used, interruptions, why = told.split(" ")
            bound = max(bounds.get(job_id, 0), job.max_attempts)
            waiting.append(Waiting(job, int(attempt), int(used), int(interruptions), bound, cast("Why", why), True, ctid, flow))
    return waiting


def _bounds(rows: Sequence[ReopenedRow]) -> dict[str, int]:
    return {row.job_id: row.bound for row in rows}
