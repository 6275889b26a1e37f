"""Why a job is where it is: what a leader answers to `explain`, as JSON. Facts only; the words are made where they are read."""

from typing import Literal, TypeAlias

import msgspec

from jobyard.contracts.moments import Instant

Why: TypeAlias = Literal[
    "future",
    "unread",
    "lane_paused",
    "kind_paused",
    "no_agent",
    "none_eligible",
    "behind",
    "no_slot",
    "no_room",
    "drains_for_it",
    "kept_for_another",
    "next_pass",
    "placed",
    "running",
    "ended",
]
"""What holds it, or where it is.

`future`: not due yet. `unread`: due, but behind what the leader holds in memory. `no_agent`: nobody runs the kind, or its version (S14).
`none_eligible`: those who do are silent, draining, suspended, or were not heard from yet. `behind`: another of its strand stands before it (S4).
`no_slot`, `no_room`: of the eligible agents none has a free slot, or none with one has the room. `drains_for_it`: an agent is kept for it (S7).
`kept_for_another`: those that have a slot and room for it are kept for larger jobs. `next_pass`: nothing holds it any more.
"""


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One agent that knows the kind. `state`: as the leader believes; `suspended`, too, for lack of a lease, or `not heard from yet` by this leader.

    `missing`: room that it lacks for this job, in size units; 0: none.
    """

    agent: str
    state: str
    free_slots: int
    free_room: float
    capacity: float
    missing: float = 0.0
    reserved: bool = False


class Explanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer. Which fields are set depends on `why`.

    `since`: from when on it has waited, stood there, or run. `version`: that it needs; `highest`: that any agent has, None: the kind is unknown to all.
    `ahead`: how many of its strand stand before it; `first`: the foremost of them, and `first_waits`: what holds that one. `earlier`: how many of the
    lane stand before it, of those in memory that agents run (S2). `agents`: those that know the kind, the nearest to having room first, at most a few;
    `knowing`: how many there are; `largest`: the largest capacity among those that are not draining. `mean_s`, `ends`: how long such jobs take, as far
    as is known (S16). `agent`, `bucket`, `rule`, `room`, `load`, `next`: of the placement, as its reason says (S17). `state`: of one that has ended.
    """

    why: Why
    kind: str
    version: int
    priority: str
    size: float
    since: Instant | None = None
    run_at: Instant | None = None
    attempt: int = 0
    highest: int | None = None
    ahead: int = 0
    earlier: int = 0
    first: str | None = None
    first_waits: Why | None = None
    knowing: int = 0
    largest: float | None = None
    agents: list[AgentFacts] = []
    aged: bool = False
    mean_s: float | None = None
    ends: int = 0
    agent: str | None = None
    bucket: int | None = None
    rule: str | None = None
    room: int | None = None
    load: float | None = None
    next: float | None = None
    cancel_asked: str | None = None
    state: str | None = None
