"""What agents say. A message is one batch of reports of one incarnation, in the order in which they became true.

Every number and text is bounded here, far beyond what an agent says: so a forged or faulty message goes to quarantine as it is decoded, and never
reaches a column or a computation that it could break.
"""

from typing import Annotated, Final, TypeAlias

import msgspec

from jobyard.contracts.states import Outcome

_Instant = Annotated[float, msgspec.Meta(ge=0, lt=7_258_118_400.0)]
_Small = Annotated[int, msgspec.Meta(ge=1, le=32_767)]
_Fence = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Stamp = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Job = Annotated[str, msgspec.Meta(max_length=100)]
_Word = Annotated[str, msgspec.Meta(max_length=1_000)]
_Text = Annotated[str, msgspec.Meta(max_length=100_000)]
_Kind = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^(?!.*\n)[!-~]+$")]
_Capacity = Annotated[float, msgspec.Meta(gt=0, le=1e12)]
_Slots = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
_Others = tuple[Annotated[int, msgspec.Meta(ge=0, le=10_000_000)], Annotated[float, msgspec.Meta(ge=0, le=1e20)]]


NO_RESULT: Final = msgspec.Raw(b"null")
"""What a handler that returns None leaves. (msgspec can't decode `Raw | None`: it takes any value but null for a mistake.)"""


class Error(msgspec.Struct, array_like=True, frozen=True):
    """Why an attempt failed. Storable and bounded when it is sent (A13)."""

    type: _Word
    message: _Text
    traceback: _Text = ""


class End(msgspec.Struct, array_like=True):
    """The end of one attempt. Times are the agent's wall clock, instants. `delay_s`: the agent's proposal, None: at once or by the leader.

    `retryable`: false = the job ends, whatever attempts are left. `result`: unopened JSON.
    """

    job: _Job
    attempt: _Small
    outcome: Outcome
    started_at: _Instant | None
    ended_at: _Instant
    result: msgspec.Raw = NO_RESULT
    error: Error | None = None
    retryable: bool = True
    delay_s: Annotated[float, msgspec.Meta(ge=0)] | None = None


class Hello(msgspec.Struct, tag_field="type", tag="hello", kw_only=True):
    """A new incarnation; repeated until welcome has come (A10). `stamp`: the agent's own clock, seconds; told back by welcome."""

    stamp: _Stamp
    kinds: Annotated[dict[_Kind, _Small], msgspec.Meta(max_length=10_000)]
    capacity: _Capacity
    slots: _Slots
    host: _Word = ""


class Heartbeat(msgspec.Struct, tag_field="type", tag="heartbeat", kw_only=True, omit_defaults=True):
    """Every second. `others`: jobs and size that still run from earlier incarnations. `held`: every 10 s, (fence, job) of all held for more than 5 s."""

    stamp: _Stamp
    epoch: _Fence = 0
    suspended: bool = False
    draining: bool = False
    capacity: _Capacity
    slots: _Slots
    others: _Others = (0, 0.0)
    held: Annotated[list[tuple[_Fence, _Job]], msgspec.Meta(max_length=200_000)] | None = None


class Started(msgspec.Struct, tag_field="type", tag="started", kw_only=True):
    """The attempt runs (a careful one: will be started once this is acknowledged, A7)."""

    fence: _Fence
    job: _Job
    attempt: _Small
    at: _Instant


class Progress(msgspec.Struct, tag_field="type", tag="progress", kw_only=True, omit_defaults=True):
    """How far a running job is; at most one a second and job."""

    fence: _Fence
    job: _Job
    attempt: _Small
    done: float
    total: float | None = None
    message: _Text = ""


class Finished(msgspec.Struct, tag_field="type", tag="finished", kw_only=True, omit_defaults=True):
    """Ends of attempts of one bundle; a part of it at a time is normal. `busy_s`: how long the agent worked on these, first start to last end (S8)."""

    fence: _Fence
    ends: list[End]
    busy_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class LooseFinished(msgspec.Struct, tag_field="type", tag="finished", kw_only=True, omit_defaults=True):
    """Finished, its ends unopened: of those that do not fit the right ones count."""

    fence: _Fence
    ends: list[msgspec.Raw]
    busy_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Released(msgspec.Struct, tag_field="type", tag="released", kw_only=True, omit_defaults=True):
    """These jobs were not started, and never will be under this fence."""

    fence: _Fence
    jobs: list[tuple[_Job, _Small]]
    reason: _Text = ""


class Goodbye(msgspec.Struct, tag_field="type", tag="goodbye", kw_only=True):
    """Nothing follows it (A11)."""


Report: TypeAlias = Hello | Heartbeat | Started | Progress | Finished | Released | Goodbye


class Reports(msgspec.Struct, kw_only=True):
    """One batch. `seq` grows with each batch of an incarnation; it tells repeated heartbeats and progress, and never drops an outcome."""

    v: int
    agent: str
    incarnation: str
    seq: _Fence
    reports: list[Report]


class LooseReports(msgspec.Struct, kw_only=True):
    """Reports, unopened: of those that do not fit the right ones count."""

    v: int
    agent: str
    incarnation: str
    seq: _Fence
    reports: list[msgspec.Raw]
