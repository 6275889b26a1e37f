"""What a tick decided. Events are the only thing that is written, sent and counted; one is a bundle or a batch wherever there may be many jobs.

Each says which rows it means. The journal writes them in one transaction, the sender makes messages of some, telemetry logs some.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from jobyard.contracts.control import Bucket, FencedReason
from jobyard.contracts.job import RefusedJob
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import End, Error
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.places import Bundle, Waiting

AgentState = Literal["active", "draining", "unreachable", "lost", "replaced", "gone"]
RepairAction = Literal["sent_again", "cancelled", "marked_started"]


@dataclass(slots=True)
class Accepted:
    """New jobs went in (`ask` has inserted their rows). Not written."""

    jobs: int
    duplicates: int
    held: int


@dataclass(slots=True)
class Refused:
    """A job that was new and is wrong: job_events row `refused` with final (its jobs row was inserted by `ask`)."""

    job: RefusedJob
    at: Instant


@dataclass(slots=True)
class Quarantined:
    """Row of quarantine. Also for a forged report (L14): `body` is then the report."""

    message: BadMessage
    at: Instant


@dataclass(slots=True)
class Waits:
    """These need a row of `pending` that they don't have yet."""

    waiting: list[Waiting]


@dataclass(slots=True)
class Left:
    """These wait no longer: their rows of `pending` go, by ctid where known, else by id. Each must be found, or the tick fails."""

    waiting: list[Waiting]


@dataclass(slots=True)
class Moved:
    """A waiting job got another run_at or priority (already in `waiting.job`): its pending row is replaced. Told by a Noted beside it."""

    waiting: Waiting


@dataclass(slots=True)
class Placed:
    """Row of bundles. Sent to its bucket."""

    bundle: Bundle


@dataclass(slots=True)
class Ended:
    """Attempts of one bundle that ended: a row of attempts each (L8); their `running` rows go.

    Parallel to `ends`: `rows` (the store's own text; None: the store makes it), `used` (with this attempt), `finals` (None: not final).
    `started_at` is None in an end whose start is not known.
    """

    bundle: Bundle
    ends: list[End]
    rows: list[str] | None
    used: list[int]
    finals: list[State | None]
    running: list[str]


@dataclass(slots=True)
class Closed:
    """Bundles in which no job is left: their rows go."""

    fences: list[int]


@dataclass(slots=True)
class Started:
    """Row of running: reported by the agent, or assumed after the reports topic was lost (L17). Also updates the row when it exists."""

    bundle: Bundle
    index: int
    at: Instant
    deadline: Instant | None


@dataclass(slots=True)
class Progressed:
    """Update of the running row (made, if it does not exist)."""

    bundle: Bundle
    index: int
    at: Instant
    done: float
    total: float | None
    message: str


@dataclass(slots=True)
class Noted:
    """Row of job_events: a rarer fact of a job's life. `final`: the state that it gave the job.

    `event`: cancel_asked, cancelled, retried, rescheduled, repaired, late_success, and what later versions add. `fence` goes into the detail.
    """

    job_id: str
    kind: str
    event: str
    at: Instant
    final: State | None = None
    attempt: int | None = None
    used: int = 0
    actor: str | None = None
    detail: dict[str, object] | None = None


@dataclass(slots=True)
class Reopened:
    """A retry by hand: row of reopened, which voids older finals. `bound`: how many attempts may be used from now on."""

    job_id: str
    at: Instant
    bound: int
    actor: str


@dataclass(slots=True)
class LateReported:
    """Row of late_reports: a report for an attempt that had ended as lost (L14)."""

    job_id: str
    fence: int
    at: Instant
    agent_id: int
    outcome: Outcome
    closed_job: bool
    error: Error | None
    result: bytes | None


@dataclass(slots=True)
class AgentJoined:
    """A new incarnation got its buckets (its row was inserted by `ask`): rows of buckets. Welcome is sent."""

    agent_id: int
    name: str
    incarnation: str
    buckets: list[Bucket]


@dataclass(slots=True)
class AgentsHeard:
    """heard_at of these agents, every few seconds. By number."""

    heard: dict[int, Instant]


@dataclass(slots=True)
class AgentChanged:
    """Its state, capacity or slots changed, in the table of agents. Unreachable and back is a change, too."""

    agent_id: int
    name: str
    state: AgentState
    capacity: float
    slots: int


@dataclass(slots=True)
class AgentEnded:
    """This incarnation is over: ended_at and state in agents; its buckets are free."""

    agent_id: int
    name: str
    incarnation: str
    state: AgentState
    at: Instant


@dataclass(slots=True)
class BucketsMoved:
    """The buckets topic was deleted and made again: buckets of this agent by the new topic's id, from offset 0 (L17)."""

    agent_id: int
    buckets: list[Bucket]


@dataclass(slots=True)
class BucketsWanted:
    """An agent waits for buckets: ask the end offsets of these free partitions; with `add`, add partitions to the topic first. Not written."""

    partitions: list[int]
    add: bool


@dataclass(slots=True)
class Welcomed:
    """Welcome is sent (again). Not written."""

    incarnation: str


@dataclass(slots=True)
class Confirmed:
    """Confirm of a suspended heartbeat's stamp is sent. Not written."""

    incarnation: str
    stamp: float


@dataclass(slots=True)
class FencedOff:
    """`fenced` is sent to an incarnation that is over or unknown. Not written."""

    name: str
    incarnation: str
    reason: FencedReason


@dataclass(slots=True)
class CancelSent:
    """A cancel is sent for one (fence, job). Not written: what was asked is a Noted. `bucket`, `incarnation`: also where no bundle is open (L12)."""

    fence: int
    job_id: str
    bucket: int
    name: str
    incarnation: str
    reason: str


@dataclass(slots=True)
class Resent:
    """An open bundle is sent again under the same fence (L12, T6). Not written."""

    fence: int


@dataclass(slots=True)
class DrainSent:
    """Drain (or resume) is sent to an agent whose heartbeat disagrees. Not written. `stop`: it is to end once it holds nothing."""

    incarnation: str
    drain: bool
    stop: bool = False


@dataclass(slots=True)
class Mean:
    """How long jobs of a kind and size class take (S16): the mean in seconds, and of how many ends."""

    kind: str
    size_class: int
    ends: int
    mean_s: float


@dataclass(slots=True)
class Learned:
    """Means that have changed since they were last written, every few seconds."""

    means: list[Mean]


@dataclass(slots=True)
class DrainEnded:
    """A drained agent has left in order: a process of its name that comes later is not drained."""

    name: str


@dataclass(slots=True)
class Repaired:
    """What the leader believed and what is so were not the same, and were made so: a row of job_events for each job, `repaired`.

    `rule`: the protocol's. `action`: sent_again, cancelled, or marked_started. `agent`: its name.
    """

    rule: str
    action: RepairAction
    fence: int
    job_ids: list[str]
    agent: str
    at: Instant


@dataclass(slots=True)
class Answered:
    """The answer to a command. `code`: None = done, else a JY code. `answer`: for people."""

    command_id: int
    code: str | None
    answer: str


@dataclass(slots=True)
class NotHere:
    """A command's job is not in this lane, nor in its intake read up to the command (L21). "Not found" is answered when every lane has said so."""

    command_id: int


Event: TypeAlias = (
    Accepted
    | Refused
    | Quarantined
    | Waits
    | Left
    | Moved
    | Placed
    | Ended
    | Closed
    | Started
    | Progressed
    | Noted
    | Reopened
    | LateReported
    | AgentJoined
    | AgentsHeard
    | AgentChanged
    | AgentEnded
    | BucketsMoved
    | BucketsWanted
    | Welcomed
    | Confirmed
    | FencedOff
    | CancelSent
    | Resent
    | DrainSent
    | DrainEnded
    | Learned
    | Repaired
    | Answered
    | NotHere
)
