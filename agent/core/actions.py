"""What the core wants done. The shell does it in this order, and tells the core what came of it."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from jobyard.agent.core.held import Held
from jobyard.contracts.control import Bucket
from jobyard.contracts.reports import Report

Why = Literal["cancelled", "timed_out", "interrupted", "closed"]
"""closed: the leader has ended the attempt; whatever comes of it is not reported."""


@dataclass(frozen=True, slots=True)
class Start:
    """Hand these to their executors, which ask the lease themselves. Answered for each by ended or declined, by begun in between if it lasts."""

    held: list[Held]


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask a handed or running job to stop; it goes on holding its slot until it has. May be repeated."""

    held: Held
    why: Why


@dataclass(frozen=True, slots=True)
class Say:
    """Send a report, after all earlier ones; keep it until the broker has acknowledged it, then give it back (`Agent.acknowledged`)."""

    incarnation: str
    report: Report


@dataclass(frozen=True, slots=True)
class Assign:
    """Read these buckets, and no others; none: control only. A partition and topic id already being read goes on where it is (A1)."""

    buckets: list[Bucket]


@dataclass(frozen=True, slots=True)
class Reread:
    """Read on by a new consumer: for long nothing has come that must have been sent, if anybody leads."""


@dataclass(frozen=True, slots=True)
class Leave:
    """End the process with this exit code: 0 after an acknowledged goodbye, 1 replaced, 5 time ran out."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth a log line that no other action tells."""

    event: str
    facts: dict[str, object] = field(default_factory=dict[str, object])


Action: TypeAlias = Start | Stop | Say | Assign | Reread | Leave | Note
