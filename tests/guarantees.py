"""What Jobyard promises, as objects: each looks at the evidence of a run and tells what breaks it, a sentence for each.

The evidence is of two kinds: what the Master DB says, by SQL, and what the handlers themselves wrote to a journal outside of it. A run of any scenario,
whatever was killed in it, is checked by `check(evidence)`.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

Row: TypeAlias = dict[str, Any]

SUCCEEDED = frozenset({"succeeded"})
FAILED = frozenset({"failed"})
EITHER = SUCCEEDED | FAILED


@dataclass(frozen=True)
class Expected:
    """How a submitted job may end, and what it then gives: `result` is looked at only if it succeeded."""

    states: frozenset[str] = SUCCEEDED
    result: object = None


@dataclass(frozen=True)
class Execution:
    """One call of a handler, as it wrote itself. Times by the machine's monotonic clock; `ended` None: its process was killed, or it goes on."""

    job: str
    attempt: int
    fence: int
    pid: int
    started: float
    ended: float | None
    returned: bool


@dataclass(frozen=True)
class Evidence:
    """Everything that is known of a run. By job: its attempts (in order of their numbers), its executions (in order of their starts), …"""

    submitted: Mapping[str, Expected]
    status: Mapping[str, list[Row]]
    jobs: Mapping[str, Row]
    attempts: Mapping[str, list[Row]]
    finals: Mapping[str, list[Row]]
    reopened: Mapping[str, list[Row]]
    late: Mapping[str, list[Row]]
    executions: Mapping[str, list[Execution]]
    left_open: list[Row] = field(default_factory=list[Row])


def read_journal(path: Path) -> list[Execution]:
    """The executions of a journal, in order of their starts."""
    started: dict[tuple[str, int, int], Row] = {}
    ended: dict[tuple[str, int, int], Row] = {}
    twice: list[Row] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        entry: Row = json.loads(line)
        key = (entry["job"], entry["fence"], entry["pid"])
        if entry["event"] == "start":
            if key in started:
                twice.append(entry)
            started[key] = entry
        else:
            ended[key] = entry
    assert not twice, f"started twice under one fence by one process: {twice}"
    found = [
        Execution(
            entry["job"],
            entry["attempt"],
            entry["fence"],
            entry["pid"],
            entry["at"],
            ended[key]["at"] if key in ended else None,
            key in ended and ended[key]["event"] == "returned",
        )
        for key, entry in started.items()
    ]
    return sorted(found, key=lambda execution: execution.started)


def gather(connection: Connection[Any], submitted: Mapping[str, Expected], journal: Path) -> Evidence:
    """Reads the Master DB, by one snapshot, and the journal. The connection must be in autocommit mode."""
    with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute("set transaction isolation level repeatable read read only")

        def by_job(sql: str) -> dict[str, list[Row]]:
            found: dict[str, list[Row]] = defaultdict(list)
            for row in cursor.execute(sql.encode()):
                found[str(row["job_id"])].append({name: str(value) if isinstance(value, UUID) else value for name, value in row.items()})
            return dict(found)

        executions: dict[str, list[Execution]] = defaultdict(list)
        for execution in read_journal(journal):
            executions[execution.job].append(execution)
        return Evidence(
            submitted=submitted,
            status=by_job("select job_id, kind, state::text, attempts, max_attempts, result, error_type from jobyard.job_status"),
            jobs={job: rows[0] for job, rows in by_job("select id as job_id, max_attempts, args from jobyard.jobs").items()},
            attempts=by_job(
                "select h.job_id, h.attempt, h.fence, h.outcome::text, h.is_final, h.agent, h.started_at, h.finished_at, h.error_type, g.incarnation::text, "
                "g.state as agent_state from jobyard.attempt_history h join jobyard.attempts a using (job_id, attempt) "
                "left join jobyard.agents g on g.agent_id = a.agent_id order by h.job_id, h.attempt"
            ),
            finals=by_job(
                "select job_id, final::text, finished_at as at, 'attempt' as by from jobyard.attempts where final is not null "
                "union all select job_id, final::text, at, 'event' from jobyard.job_events where final is not null order by job_id, at"
            ),
            reopened=by_job("select job_id, at from jobyard.reopened"),
            late=by_job("select job_id, fence, at, outcome::text, closed_job, result from jobyard.late_reports"),
            executions=dict(executions),
            left_open=[
                *cursor.execute("select id::text as job_id, 'pending' as place from jobyard.pending"),
                *cursor.execute("select job_id::text, 'running' as place from jobyard.running"),
                *cursor.execute("select job_id::text, 'placed' as place from jobyard.job_states where state = 'placed'"),
            ],
        )


class Guarantee(Protocol):
    """One promise."""

    def broken(self, evidence: Evidence) -> Iterable[str]: ...


class NothingLost:
    """Every submitted job is there, is final, and ended in a way that its code allows, with its own result. Nothing else is there, and nothing is left open."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, expected in evidence.submitted.items():
            rows = evidence.status.get(job, [])
            if len(rows) != 1:
                yield f"job {job} stands in {len(rows)} states: {[row['state'] for row in rows]}"
                continue
            row = rows[0]
            if row["state"] not in expected.states:
                yield f"{row['kind']} job {job} is {row['state']} ({row['error_type']}), not {' or '.join(sorted(expected.states))}"
            if row["state"] == "succeeded" and row["result"] != expected.result:
                yield f"{row['kind']} job {job} gave {row['result']!r}, not {expected.result!r}"
        for job in evidence.status.keys() | evidence.jobs.keys() | evidence.executions.keys():
            if job not in evidence.submitted:
                yield f"job {job} was never submitted"
        for row in evidence.left_open:
            yield f"job {row['job_id']} is still {row['place']}"


class EachEndsOnce:
    """One final row a job; one more for each retry by hand."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job in evidence.submitted:
            finals = evidence.finals.get(job, [])
            allowed = 1 + len(evidence.reopened.get(job, []))
            if len(finals) != allowed:
                yield f"job {job} has {len(finals)} final rows instead of {allowed}: {[(row['final'], row['by']) for row in finals]}"


class AttemptsComplete:
    """Attempts are numbered 1…n without gap, under growing fences; the journal knows of each that ran, and of none that is said not to have run."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, attempts in evidence.attempts.items():
            numbers = [row["attempt"] for row in attempts]
            if numbers != list(range(1, len(numbers) + 1)):
                yield f"job {job} has attempts {numbers}"
            fences = [row["fence"] for row in attempts]
            if fences != sorted(set(fences)):
                yield f"job {job} has fences {fences}"
        for job, executions in evidence.executions.items():
            rows = {(row["attempt"], row["fence"]): row for row in evidence.attempts.get(job, [])}
            for execution in executions:
                row = rows.get((execution.attempt, execution.fence))
                if row is None:
                    yield f"job {job} ran as attempt {execution.attempt} under fence {execution.fence}, which has no row"
                elif row["outcome"] == "released":
                    yield f"job {job} ran as attempt {execution.attempt}, which is said not to have started"
        for job, attempts in evidence.attempts.items():
            ran = {(execution.attempt, execution.fence) for execution in evidence.executions.get(job, []) if execution.ended is not None}
            for row in attempts:
                if row["outcome"] in ("succeeded", "failed", "snoozed", "interrupted") and (row["attempt"], row["fence"]) not in ran:
                    yield f"attempt {row['attempt']} of job {job} {row['outcome']}, but no handler ended"


class DoubledOnlyWhereLost:
    """A start while an earlier one goes on, or after one that succeeded, only if the earlier attempt was given up with its agent (promise 4)."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, executions in evidence.executions.items():
            outcomes = {row["attempt"]: row["outcome"] for row in evidence.attempts.get(job, [])}
            for i, later in enumerate(executions):
                for earlier in executions[:i]:
                    over = earlier.ended is not None and earlier.ended <= later.started and not earlier.returned
                    if not over and (earlier.attempt == later.attempt or outcomes.get(earlier.attempt) != "lost"):
                        yield (
                            f"job {job} was started as attempt {later.attempt} beside or after attempt {earlier.attempt}, "
                            f"which is {outcomes.get(earlier.attempt)}"
                        )


class AtMostOnce:
    """With max_attempts = 1 a handler is started once; again only after a snooze or a retry by hand (promise 5)."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, row in evidence.jobs.items():
            if row["max_attempts"] != 1:
                continue
            snoozes = sum(attempt["outcome"] == "snoozed" for attempt in evidence.attempts.get(job, []))
            starts = len(evidence.executions.get(job, []))
            if starts > 1 + snoozes + len(evidence.reopened.get(job, [])):
                yield f"job {job} has max_attempts = 1 and was started {starts} times"


class LateChangesNothing:
    """A late report belongs to a lost attempt; it closes a job only with a success, and only one that had not ended (promise 8)."""

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, reports in evidence.late.items():
            lost = {row["fence"] for row in evidence.attempts.get(job, []) if row["outcome"] == "lost"}
            finals = evidence.finals.get(job, [])
            for report in reports:
                if report["fence"] not in lost:
                    yield f"job {job} has a late report under fence {report['fence']}, which was not lost"
                if report["closed_job"] and report["outcome"] != "succeeded":
                    yield f"job {job} was closed by a late report that it {report['outcome']}"
                if not report["closed_job"] and report["outcome"] == "succeeded" and not any(row["at"] <= report["at"] for row in finals):
                    yield f"job {job} had not ended when its late success came, and was not closed by it"
            closing = [report for report in reports if report["closed_job"]]
            if closing and [row["by"] for row in finals if row["final"] == "succeeded"] != ["event"]:
                yield f"job {job} was closed by a late report, and ended so: {finals}"
            if closing and evidence.status[job][0]["result"] != closing[0]["result"]:
                yield f"job {job} has the result {evidence.status[job][0]['result']!r}, not that of its late success"


@dataclass(frozen=True)
class LostOnlyOf:
    """Attempts are lost only of these agents: those that were killed, paused for too long or replaced. None, whatever happens to a coordinator."""

    agents: Collection[str] = ()

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, attempts in evidence.attempts.items():
            for row in attempts:
                if row["outcome"] == "lost" and row["agent"] not in self.agents:
                    yield f"attempt {row['attempt']} of job {job} was lost with agent {row['agent']}, which nobody touched"


@dataclass(frozen=True)
class InterruptedOnlyOf:
    """Attempts are interrupted, or given back, only by these agents: those that were told to end."""

    agents: Collection[str] = ()

    def broken(self, evidence: Evidence) -> Iterable[str]:
        for job, attempts in evidence.attempts.items():
            for row in attempts:
                if row["outcome"] == "interrupted" and row["agent"] not in self.agents:
                    yield f"attempt {row['attempt']} of job {job} was interrupted by agent {row['agent']}, which nobody told to end"


ALWAYS: tuple[Guarantee, ...] = (
    NothingLost(),
    EachEndsOnce(),
    AttemptsComplete(),
    DoubledOnlyWhereLost(),
    AtMostOnce(),
    LateChangesNothing(),
)
_SHOWN = 20


def check(evidence: Evidence, *more: Guarantee) -> None:
    """Fails, and tells all that is broken, unless these guarantees and those that hold always do."""
    said = [f"{type(guarantee).__name__}: {line}" for guarantee in (*ALWAYS, *more) for line in guarantee.broken(evidence)]
    assert not said, "\n".join([f"{len(said)} times a guarantee was broken", *said[:_SHOWN]])
