"""Where an unfinished job stands: it waits (Waiting), or is part of one open bundle (Bundle). Never both, never neither (I1)."""

from dataclasses import dataclass, field
from typing import Literal

from jobyard.contracts.job import Job
from jobyard.contracts.moments import Instant

Why = Literal["n", "r", "s", "l", "h"]
"""Why a job waits: n new, r retry after a failure or interruption, s snoozed, l lost or released, h retried by hand."""


@dataclass(slots=True, eq=True)
class Waiting:
    """A job that waits, due at `job.run_at` with `job.priority`.

    `attempt`: placements so far. `used`: those that count. `bound`: how many may count (job.max_attempts, more after a retry by hand).
    `stored`: a row of `pending` stands for it since the last commit; `ctid`: where that row lies, None: go by id. `flow`: in which the row is read.
    """

    job: Job
    attempt: int = 0
    used: int = 0
    interruptions: int = 0
    bound: int = 1
    why: Why = "n"
    stored: bool = False
    ctid: str | None = None
    flow: int = 0


@dataclass(slots=True, eq=True)
class Bundle:
    """An open bundle: jobs of one kind and priority that went to one bucket under one fence. The lists are parallel to `jobs`.

    `attempts`, `used`, `interruptions`: the numbers of this placement, and what was used before it. `careful`: the attempt is the last one
    allowed (A7). `bucket`: the partition. `reason`: why it went there, kept with each attempt, JSON.
    `ended`: indexes of the jobs that stand no longer in it. `running`: index → since when, for those with a `running` row.
    `cancels`: index → reason, for those whose cancel was asked.
    """

    fence: int
    agent_id: int
    incarnation: str
    bucket: int
    kind: str
    priority: int
    placed_at: Instant
    reason: dict[str, object]
    jobs: list[Job]
    attempts: list[int]
    used: list[int]
    interruptions: list[int]
    bounds: list[int]
    careful: list[bool]
    ended: set[int] = field(default_factory=set[int])
    running: dict[int, Instant] = field(default_factory=dict[int, Instant])
    cancels: dict[int, str] = field(default_factory=dict[int, str])
