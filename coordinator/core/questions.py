"""What a tick must look up before it can decide, and what the store answers. Asking also inserts what is new: only the database can tell that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jobyard.contracts.job import Job, Kind, NewJob, RefusedJob
from jobyard.contracts.moments import Instant
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core.places import Waiting


@dataclass(slots=True)
class Unresolved:
    """A job of a kind that the leader has not met: the store looks the kind up, then resolves it (contracts.job.resolve), then inserts it."""

    new: NewJob
    received: Instant
    key: str
    now: Instant | None = None


@dataclass(slots=True)
class NewAgent:
    """A hello of an unknown incarnation: the store inserts it and gives it its number. `kinds`: name → version of the handler."""

    incarnation: str
    name: str
    host: str
    capacity: float
    slots: int
    kinds: dict[str, int]
    lost_after_s: float
    heard_at: Instant


@dataclass(slots=True)
class DueQuestion:
    """Read ahead what is due of one priority, kind and flow (see contracts.flows): at most `most` rows with run_at ≤ `until`, after the cursor, in order of
    (run_at, id).

    `most_bytes`: of their arguments together; the first row counts whatever it has. None: no bound.
    """

    priority: int
    kind: str
    flow: int
    after: tuple[Instant, str]
    until: Instant
    most: int
    most_bytes: int | None = None


@dataclass(slots=True)
class DueAnswer:
    """`rows`: without a gap from the cursor on. `next_at`: run_at of the first row behind those (due, or in the future); None: there is none."""

    priority: int
    kind: str
    flow: int
    rows: list[Waiting]
    next_at: Instant | None


@dataclass(slots=True)
class Fresh:
    """Rows that others committed since the last look (L23): the earliest run_at of one priority, kind and flow."""

    priority: int
    kind: str
    flow: int
    run_at: Instant


Verb = Literal[
    "cancel",
    "retry",
    "reschedule",
    "explain",
    "sync",
    "pause_lane",
    "resume_lane",
    "pause_kind",
    "resume_kind",
    "drain_agent",
    "resume_agent",
    "fair_share",
]


@dataclass(frozen=True, slots=True)
class Modes:
    """What operators have set for the lane. `drained`: agents by name, and whether they are to end once they hold nothing.

    `fair_share`: submitters take turns.
    """

    paused: bool = False
    paused_kinds: frozenset[str] = frozenset()
    drained: Mapping[str, bool] = field(default_factory=dict[str, bool])
    fair_share: bool = False


@dataclass(slots=True)
class Command:
    """A command that nobody has answered, with where its job stands by the tables. `verb` may be one that this version doesn't know.

    `asked_at`: on the database's clock. `job`: None if no table knows it (or it is another lane's: then the store doesn't give it to this lane).
    `state`: its final state, None: not final. `waiting`: its pending row, if it has one. A placed job has neither.
    `attempt`, `used`, `interruptions`, `bound`: as its last row tells, for a retry of a final one.
    """

    command_id: int
    verb: str
    actor: str
    asked_at: Instant
    job_id: str | None
    args: Mapping[str, object]
    job: Job | None = None
    state: State | None = None
    waiting: Waiting | None = None
    attempt: int = 0
    used: int = 0
    interruptions: int = 0
    bound: int = 1


@dataclass(slots=True)
class LateSubject:
    """Where a report's (job, fence) stands by the tables, for L14. `outcome`: of the attempt row with that fence, None: there is no such row.

    `reported`: whether `late_reports` has it already. `state`: the job's final state, None: not final. `waiting`: its pending row.
    """

    outcome: Outcome | None
    attempt: int = 0
    agent_id: int = 0
    incarnation: str = ""
    kind: str = ""
    used: int = 0
    reported: bool = False
    state: State | None = None
    waiting: Waiting | None = None


@dataclass(slots=True)
class Questions:
    """What the steps need to know. All in one transaction, which `ask` opens and `write` ends."""

    jobs: list[Job] = field(default_factory=list[Job])
    unresolved: list[Unresolved] = field(default_factory=list[Unresolved])
    refused: list[RefusedJob] = field(default_factory=list[RefusedJob])
    held_again: bool = False
    agents: list[NewAgent] = field(default_factory=list[NewAgent])
    due: list[DueQuestion] = field(default_factory=list[DueQuestion])
    late: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    look: bool = True
    kinds: bool = False
    modes: bool = False


@dataclass(slots=True)
class Answers:
    """`jobs`: those that the insert showed to be new, with jobs of held_intake that went in by now. The other new ones were duplicates (`duplicates` of
    them), or are held (`held`), or were found wrong when their kind was known (`problems`). `refused`: ids that were new.
    `kinds`: those met for the first time, or all if asked. `agents`: incarnation → number. `held_left`: whether held_intake holds jobs of this lane.
    `modes`: if asked.
    `commands`: all that are unanswered, oldest first. `settled`: every transaction that was open when the leader went to sleep has ended (L25).
    """

    jobs: list[Job] = field(default_factory=list[Job])
    duplicates: int = 0
    held: int = 0
    held_left: bool = False
    problems: list[RefusedJob] = field(default_factory=list[RefusedJob])
    refused: set[str] = field(default_factory=set[str])
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    agents: dict[str, int] = field(default_factory=dict[str, int])
    due: list[DueAnswer] = field(default_factory=list[DueAnswer])
    fresh: list[Fresh] = field(default_factory=list[Fresh])
    commands: list[Command] = field(default_factory=list[Command])
    late: dict[tuple[str, int], LateSubject] = field(default_factory=dict[tuple[str, int], LateSubject])
    modes: Modes | None = None
    settled: bool = True
