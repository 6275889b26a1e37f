"""What is known of a run, of two kinds: what the Master DB says, by SQL, and what the handlers themselves wrote to a journal outside of it."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

Row: TypeAlias = dict[str, Any]

SUCCEEDED = frozenset({"succeeded"})
FAILED = frozenset({"failed"})
CANCELLED = frozenset({"cancelled"})
EITHER = SUCCEEDED | FAILED


@dataclass(frozen=True)
class Expected:
    """How a submitted job may end, and what it then gives: `result` is looked at only if it succeeded.

    `args`: the content that counts; None: not looked at. `snooze_s`: how long it asks to be left alone. `gives_up`: it may fail with attempts left.
    """

    states: frozenset[str] = SUCCEEDED
    result: object = None
    args: Mapping[str, object] | None = None
    snooze_s: float = 0.0
    gives_up: bool = False


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
class Lease:
    """The leader's row, as it was seen once. `offsets`: by topic, its id and the next offset to read."""

    epoch: int
    fence: int
    offsets: Mapping[str, tuple[str, int]]

    @classmethod
    def of(cls, row: Row) -> "Lease":
        return cls(row["epoch"], row["fence"], {topic: (at["id"], at["next"]) for topic, at in row["offsets"].items()})


@dataclass(frozen=True)
class Evidence:
    """Everything that is known of a run. By job: its attempts (in order of their numbers), its executions (in order of their starts), …

    `leases`: the lane's lease, again and again. `bad`: a part of each message that must be in quarantine, once; nothing else may be there.
    `living`: the agents' processes that still live, and so have told all that they did.
    """

    submitted: Mapping[str, Expected]
    status: Mapping[str, list[Row]]
    jobs: Mapping[str, Row]
    attempts: Mapping[str, list[Row]]
    finals: Mapping[str, list[Row]]
    reopened: Mapping[str, list[Row]]
    late: Mapping[str, list[Row]]
    executions: Mapping[str, list[Execution]]
    left_open: list[Row] = field(default_factory=list[Row])
    cancels: Mapping[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    quarantine: list[Row] = field(default_factory=list[Row])
    bad: Collection[str] = ()
    leases: Sequence[Lease] = ()
    living: Collection[int] = ()


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


def gather(
    connection: Connection[Any],
    submitted: Mapping[str, Expected],
    journal: Path,
    *,
    bad: Collection[str] = (),
    leases: Sequence[Lease] = (),
    living: Collection[int] = (),
) -> Evidence:
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
        jobs = by_job(
            "select j.id as job_id, j.max_attempts, j.args, coalesce(j.retry, k.retry) as retry from jobyard.jobs j join jobyard.kinds k using (kind_id)"
        )
        return Evidence(
            submitted=submitted,
            status=by_job("select job_id, kind, state::text, attempts, max_attempts, result, error_type from jobyard.job_status"),
            jobs={job: rows[0] for job, rows in jobs.items()},
            attempts=by_job(
                "select h.job_id, h.attempt, h.fence, h.outcome::text, h.is_final, a.used, h.agent, h.placed_at, h.started_at, h.finished_at, "
                "h.error_type, g.incarnation::text, g.state as agent_state from jobyard.attempt_history h join jobyard.attempts a using (job_id, attempt) "
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
                *cursor.execute("select unnest(job_ids)::text as job_id, 'in a bundle' as place from jobyard.bundles"),
            ],
            cancels=by_job("select job_id, at from jobyard.job_events where event = 'cancel_asked'"),
            quarantine=[
                *cursor.execute("""select topic, "offset", reason, coalesce(encode(body, 'escape'), '') as body from jobyard.quarantine""")
            ],
            bad=bad,
            leases=leases,
            living=living,
        )
