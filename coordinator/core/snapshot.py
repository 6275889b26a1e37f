"""What a take-over loads, all in one snapshot of the database (T2)."""

from dataclasses import dataclass, field

from jobyard.contracts.control import Bucket
from jobyard.contracts.job import Kind
from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.events import AgentState, Mean
from jobyard.coordinator.core.places import Bundle
from jobyard.coordinator.core.questions import Modes


@dataclass(slots=True)
class AgentRow:
    """An incarnation: current ones, and those that ended lately (within an hour), which are told so (T5). `kinds`: name → version."""

    agent_id: int
    name: str
    incarnation: str
    host: str
    capacity: float
    slots: int
    kinds: dict[str, int]
    state: AgentState
    lost_after_s: float
    buckets: list[Bucket]
    ended: bool


@dataclass(slots=True)
class BacklogRow:
    """That `pending` holds jobs of this priority, kind and flow; `next_at`: the earliest run_at."""

    priority: int
    kind: str
    flow: int
    next_at: Instant


@dataclass(slots=True)
class Snapshot:
    """All that a lane's memory is made of. `fence`: the last one given. `offsets`: by topic (id, next offset); empty for a lane never led.

    `bundles`: open ones by fence, with `ended`, `running` and `cancels` as the rows tell.
    """

    fence: int
    offsets: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    agents: list[AgentRow] = field(default_factory=list[AgentRow])
    bundles: list[Bundle] = field(default_factory=list[Bundle])
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    backlog: list[BacklogRow] = field(default_factory=list[BacklogRow])
    held: bool = False
    modes: Modes = field(default_factory=Modes)
    durations: list[Mean] = field(default_factory=list[Mean])
