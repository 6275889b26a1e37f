"""Where jobs stand by the tables: for commands (L13) and for late reports (L14)."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from jobyard.contracts.job import Job
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core.places import Waiting, Why
from jobyard.master_db.connection import Connection
from jobyard.master_db.job_rows import JOBS_OF, JobRow, job_of, name_kinds, stretches
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.queries import Query


class PendingRow(NamedTuple):
    """A row of `pending`."""

    ctid: str
    id: str
    run_at: float
    priority: int
    attempt: int
    used: int
    interruptions: int
    why: Why
    lane_id: int
    flow: int


class AttemptRow(NamedTuple):
    """A row of `attempts`."""

    job_id: str
    fence: int
    placed_at: float
    agent_id: int
    kind_id: int
    outcome: str
    final: str | None
    attempt: int
    used: int


class FinalRow(NamedTuple):
    """A row of `job_events` that ended its job."""

    job_id: str
    at: float
    final: str
    used: int


class ReopenedRow(NamedTuple):
    """The last retry by hand of a job, and the bound that holds since."""

    job_id: str
    at: float
    bound: int


class ReportedRow(NamedTuple):
    """That a late report is kept."""

    job_id: str
    fence: int


class IncarnationRow(NamedTuple):
    """An agent's incarnation."""

    agent_id: int
    incarnation: str


PENDING_OF = Query("pending_of", PendingRow)
ATTEMPTS_OF = Query("attempts_of", AttemptRow)
FINALS_OF = Query("finals_of", FinalRow)
REOPENED_OF = Query("reopened_of", ReopenedRow)
REPORTED_OF = Query("reported_of", ReportedRow)
INCARNATIONS_OF = Query("incarnations_of", IncarnationRow)


@dataclass(slots=True)
class Standing:
    """One job by the tables. `attempts`: in order of their numbers."""

    row: JobRow
    attempts: list[AttemptRow] = field(default_factory=list[AttemptRow])
    events: list[FinalRow] = field(default_factory=list[FinalRow])
    reopened: ReopenedRow | None = None
    pending: PendingRow | None = None
    reported: set[int] = field(default_factory=set[int])

    @property
    def bound(self) -> int:
        """How many attempts may count."""
        return self.row.max_attempts if self.reopened is None else max(self.reopened.bound, self.row.max_attempts)

    @property
    def state(self) -> State | None:
        """The final state that holds: the last one that no retry by hand has voided. None: not final.

        An attempt is voided if it was placed before the retry: when it ended is told by the agent's clock.
        """
        if self.pending is not None:
            return None
        since = self.reopened.at if self.reopened else float("-inf")
        finals = [(one.at, one.final) for one in self.events if one.at > since]
        finals += [(one.placed_at, one.final) for one in self.attempts if one.final is not None and one.placed_at >= since]
        return State(max(finals)[1]) if finals else None

    @property
    def interruptions(self) -> int:
        """Attempts that were interrupted."""
        return sum(one.outcome == Outcome.INTERRUPTED for one in self.attempts)

    def job(self, kinds: KindNumbers) -> Job:
        """The job, due and urgent as its row of `pending` says, if it has one."""
        return job_of(self.row, kinds, self.pending and self.pending.run_at, self.pending and self.pending.priority)

    def waiting(self, kinds: KindNumbers) -> Waiting | None:
        """Its row of `pending`."""
        if self.pending is None:
            return None
        return waiting_of(self.pending, self.row, self.bound, kinds)


def waiting_of(pending: PendingRow, row: JobRow, bound: int, kinds: KindNumbers) -> Waiting:
    """A waiting job, from its two rows."""
    return Waiting(
        job=job_of(row, kinds, pending.run_at, pending.priority),
        attempt=pending.attempt,
        used=pending.used,
        interruptions=pending.interruptions,
        bound=bound,
        why=pending.why,
        stored=True,
        ctid=pending.ctid,
        flow=pending.flow,
    )


def load_standings(connection: Connection, ids: Collection[str], kinds: KindNumbers) -> dict[str, Standing]:
    """Of those jobs that have a row."""
    if not ids:
        return {}
    parts = list(stretches(ids))
    everything = list(ids)
    with connection.pipeline():
        jobs = [JOBS_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in parts]
        attempts = [ATTEMPTS_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in parts]
        finals = [FINALS_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in parts]
        reopened = REOPENED_OF.cursor(connection, ids=everything)
        pending = PENDING_OF.cursor(connection, ids=everything)
        reported = REPORTED_OF.cursor(connection, ids=everything)
    found = {row.id: Standing(row) for cursor in jobs for row in cursor.fetchall()}
    for cursor in attempts:
        for attempt in cursor.fetchall():
            found[attempt.job_id].attempts.append(attempt)
    for ends in finals:
        for final in ends.fetchall():
            found[final.job_id].events.append(final)
    for again in reopened.fetchall():
        found[again.job_id].reopened = again
    for one in pending.fetchall():
        found[one.id].pending = one
    told: defaultdict[str, set[int]] = defaultdict(set)
    for report in reported.fetchall():
        told[report.job_id].add(report.fence)
    for job_id, standing in found.items():
        standing.attempts.sort(key=lambda one: one.attempt)
        standing.reported = told.get(job_id, set())
    name_kinds(connection, (standing.row for standing in found.values()), kinds)
    return found


def incarnations(connection: Connection, agent_ids: Collection[int]) -> dict[int, str]:
    """Incarnations by agent number."""
    if not agent_ids:
        return {}
    return {row.agent_id: row.incarnation for row in INCARNATIONS_OF.all(connection, agent_ids=list(agent_ids))}
