"""What the leader says to one agent of its lane on the control topic."""

from typing import Annotated, Literal, TypeAlias

import msgspec

FencedReason = Literal["lost", "replaced", "unknown"]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
HIGHEST_EPOCH = 2**60
"""No lane was ever led so often. What names a higher epoch is forged: an agent that believed it would hear no leader any more."""
_Epoch = Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_EPOCH)]
_Stamp = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class Bucket(msgspec.Struct, array_like=True, frozen=True):
    """A partition that an agent owns for one priority; reading from `start_offset` on is enough (A1)."""

    priority: Annotated[int, msgspec.Meta(ge=0, le=4)]
    partition: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    topic_id: str
    start_offset: _Count


class _Control(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type"):
    v: int
    epoch: _Epoch
    agent: str
    incarnation: str


class Welcome(_Control, tag="welcome"):
    """Answers hello: `stamp` is the hello's (the agent's own clock, seconds). Makes the lease (A6)."""

    stamp: _Stamp
    buckets: Annotated[list[Bucket], msgspec.Meta(max_length=100)]
    lost_after_s: Annotated[float, msgspec.Meta(gt=0, le=1e9)]
    draining: bool = False


class Confirm(_Control, tag="confirm"):
    """Answers a heartbeat that said suspended: `stamp` is that heartbeat's."""

    stamp: _Stamp


class Cancel(_Control, tag="cancel"):
    """Stop this job of this fence; answered by its report, whatever that is."""

    fence: _Count
    bucket: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    job: str
    reason: str = ""


class Drain(_Control, tag="drain"):
    """Give back what is not started, and take nothing new; repeated while a heartbeat disagrees. `stop`: end once nothing runs."""

    stop: bool = False


class Resume(_Control, tag="resume"):
    """Ends a drain; repeated while a heartbeat disagrees."""


class Fenced(_Control, tag="fenced"):
    """This incarnation is over (A12)."""

    reason: FencedReason


ControlMessage: TypeAlias = Welcome | Confirm | Cancel | Drain | Resume | Fenced
