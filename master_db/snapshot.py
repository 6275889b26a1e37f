"""All that a lane's memory is made of, read in one snapshot of the database (T2)."""

from collections import defaultdict
from typing import NamedTuple

from jobyard.contracts.control import Bucket
from jobyard.coordinator.core.events import AgentState, Mean
from jobyard.coordinator.core.places import Bundle
from jobyard.coordinator.core.questions import Modes
from jobyard.coordinator.core.snapshot import AgentRow, BacklogRow, Snapshot
from jobyard.master_db.answers import Look
from jobyard.master_db.connection import Connection
from jobyard.master_db.intake import ANY_HELD
from jobyard.master_db.job_rows import JOBS_OF, job_of, name_kinds, stretches
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.queries import Query


class LookedAt(NamedTuple):
    """pg_current_snapshot() as text."""

    snapshot: str


class Lease(NamedTuple):
    """The lease row of a leadership. `offsets`: {topic: {"id": …, "next": …}}."""

    at: str
    fence: int
    offsets: dict[str, dict[str, object]]


class BundleRow(NamedTuple):
    """A row of `bundles`, with its agent's incarnation."""

    fence: int
    placed_at: float
    agent_id: int
    incarnation: str
    bucket: int
    kind_id: int
    priority: int
    job_ids: list[str]
    attempts: list[int]
    used: list[int]
    interruptions: list[int]
    careful: list[bool]
    bounds: list[int]
    reason: dict[str, object] | None


class EndedRow(NamedTuple):
    """That the attempt of a job under a fence has ended."""

    job_id: str
    fence: int


class CancelRow(NamedTuple):
    """That a cancel was asked of a placed job."""

    job_id: str
    fence: int
    reason: str


class RunningRow(NamedTuple):
    """A row of `running`."""

    job_id: str
    fence: int
    started_at: float


class AgentsRow(NamedTuple):
    """A row of `agents`."""

    agent_id: int
    name: str
    incarnation: str
    host: str
    capacity: float
    slots: int
    kinds: list[int]
    versions: list[int]
    state: AgentState
    lost_after_s: float
    ended: bool


class BucketRow(NamedTuple):
    """A partition that an agent owns."""

    agent_id: int
    priority: int
    part: int
    topic_id: str
    start_offset: int


class DurationRow(NamedTuple):
    """How long jobs of a kind and size class take, in seconds."""

    kind_id: int
    size_class: int
    ends: int
    mean_s: float


class Backlog(NamedTuple):
    """A priority, kind and flow that `pending` has rows of."""

    priority: int
    kind_id: int
    flow: int
    run_at: float


class ModesRow(NamedTuple):
    """What operators have set for a lane. `drained`, `stops`: agents by name, in the same order."""

    paused: bool
    fair_share: bool
    paused_kinds: list[str]
    drained: list[str]
    stops: list[bool]


LOOK_SNAPSHOT = Query("look_snapshot", LookedAt)
LOAD_LEASE = Query("load_lease", Lease)
OPEN_BUNDLES = Query("open_bundles", BundleRow)
ENDED_OF = Query("ended_of", EndedRow)
CANCELS_OF = Query("cancels_of", CancelRow)
RUNNING_OF_LANE = Query("running_of_lane", RunningRow)
AGENTS_OF_LANE = Query("agents_of_lane", AgentsRow)
BUCKETS_OF_LANE = Query("buckets_of_lane", BucketRow)
BACKLOG = Query("backlog", Backlog)
MODES_OF_LANE = Query("modes_of_lane", ModesRow)
DURATIONS_OF_LANE = Query("durations_of_lane", DurationRow)


class Loaded(NamedTuple):
    """A snapshot, with what only the store needs: where the lease row lies, and the look that the next one follows (L23)."""

    snapshot: Snapshot
    lease_at: str
    look: Look


def modes_of(row: ModesRow) -> Modes:
    """As the core has them."""
    return Modes(row.paused, frozenset(row.paused_kinds), dict(zip(row.drained, row.stops, strict=True)), row.fair_share)


def load(connection: Connection, lane_id: int, epoch: int, kinds: KindNumbers) -> Loaded | None:
    """Read it, in a transaction of its own. None: the lane is led under another epoch by now."""
    connection.execute(b"begin isolation level repeatable read read only", prepare=False)
    kinds.load(connection)
    with connection.pipeline():
        look = LOOK_SNAPSHOT.cursor(connection)
        leases = LOAD_LEASE.cursor(connection, lane_id=lane_id, epoch=epoch)
        agents = AGENTS_OF_LANE.cursor(connection, lane_id=lane_id)
        buckets = BUCKETS_OF_LANE.cursor(connection, lane_id=lane_id)
        bundles = OPEN_BUNDLES.cursor(connection, lane_id=lane_id)
        running = RUNNING_OF_LANE.cursor(connection, lane_id=lane_id)
        backlog = BACKLOG.cursor(connection, lane_id=lane_id)
        held = ANY_HELD.cursor(connection, lane_id=lane_id)
        modes = MODES_OF_LANE.cursor(connection, lane_id=lane_id)
        durations = DURATIONS_OF_LANE.cursor(connection, lane_id=lane_id)
    lease = leases.fetchone()
    if lease is None:
        connection.execute(b"rollback")
        return None
    owned: defaultdict[int, list[Bucket]] = defaultdict(list)
    for row in buckets.fetchall():
        owned[row.agent_id].append(Bucket(row.priority, row.part, row.topic_id, row.start_offset))
    snapshot = Snapshot(
        fence=lease.fence,
        offsets={topic: (str(at["id"]), int(str(at["next"]))) for topic, at in lease.offsets.items()},
        agents=[_agent(row, owned, kinds) for row in agents.fetchall()],
        bundles=_bundles(connection, bundles.fetchall(), running.fetchall(), kinds),
        kinds=dict(kinds.kinds),
        backlog=[BacklogRow(row.priority, kinds.names[row.kind_id], row.flow, row.run_at) for row in backlog.fetchall()],
        held=any(row.any for row in held.fetchall()),
        modes=modes_of(modes.fetchall()[0]),
        durations=[Mean(kinds.names[row.kind_id], row.size_class, row.ends, row.mean_s) for row in durations.fetchall()],
    )
    connection.execute(b"commit")
    kinds.told()  # the snapshot has told them all
    return Loaded(snapshot, lease.at, Look.of(look.fetchall()[0].snapshot))


def _agent(row: AgentsRow, owned: dict[int, list[Bucket]], kinds: KindNumbers) -> AgentRow:
    return AgentRow(
        agent_id=row.agent_id,
        name=row.name,
        incarnation=row.incarnation,
        host=row.host,
        capacity=row.capacity,
        slots=row.slots,
        kinds={kinds.names[kind_id]: version for kind_id, version in zip(row.kinds, row.versions, strict=True)},
        state=row.state,
        lost_after_s=row.lost_after_s,
        buckets=owned.get(row.agent_id, []),
        ended=row.ended,
    )


def _bundles(connection: Connection, rows: list[BundleRow], running: list[RunningRow], kinds: KindNumbers) -> list[Bundle]:
    ids = [job_id for row in rows for job_id in row.job_ids]
    parts = list(stretches(ids))
    with connection.pipeline():
        jobs = [JOBS_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in parts]
        ended = [ENDED_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in parts]
        cancels = [CANCELS_OF.cursor(connection, ids=part.ids, low=part.low, high=part.high) for part in parts]
    found = {row.id: row for cursor in jobs for row in cursor.fetchall()}
    name_kinds(connection, found.values(), kinds)
    over = {(row.job_id, row.fence) for cursor in ended for row in cursor.fetchall()}
    asked = {(row.job_id, row.fence): row.reason for cursor in cancels for row in cursor.fetchall()}
    since = {(row.job_id, row.fence): row.started_at for row in running}
    bundles: list[Bundle] = []
    for row in rows:
        keys = [(job_id, row.fence) for job_id in row.job_ids]
        gone = {index for index, key in enumerate(keys) if key in over}
        bundles.append(
            Bundle(
                fence=row.fence,
                agent_id=row.agent_id,
                incarnation=row.incarnation,
                bucket=row.bucket,
                kind=kinds.names[row.kind_id],
                priority=row.priority,
                placed_at=row.placed_at,
                reason=row.reason or {},
                jobs=[job_of(found[job_id], kinds, priority=row.priority) for job_id in row.job_ids],
                attempts=row.attempts,
                used=row.used,
                interruptions=row.interruptions,
                bounds=row.bounds,
                careful=row.careful,
                ended=gone,
                running={index: since[key] for index, key in enumerate(keys) if key in since and index not in gone},
                cancels={index: asked[key] for index, key in enumerate(keys) if key in asked and index not in gone},
            )
        )
    return bundles
