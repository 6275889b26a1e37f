"""What is to break, when: drawn from the seed before anything happens, so that single faults can be left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from jobyard.coordinator.simulation.case import Case
from jobyard.coordinator.simulation.jobs import KINDS
from jobyard.coordinator.simulation.worker import POINTS
from jobyard.process.points import Point

LEADER_POINTS: Final = (
    Point.EPOCH_TAKEN,
    Point.SNAPSHOT_READ,
    Point.POSITIONS_FOUND,
    Point.OPENING_COMMITTED,
    Point.OPENING_SENT,
    Point.MESSAGES_TAKEN,
    Point.QUESTIONS_ASKED,
    Point.TICK_COMMITTED,
    Point.MESSAGE_MADE,
    Point.MESSAGE_PRODUCED,
    Point.DELIVERY_FAILED,
)
_SHARES: Final = {
    "leader dies at": 10,
    "leader pauses at": 8,
    "coordinator dies": 5,
    "coordinator pauses": 6,
    "coordinator cut off": 4,
    "commit fails": 5,
    "database down": 3,
    "database slow": 3,
    "database clock set": 2,
    "delivery fails": 5,
    "Kafka down": 3,
    "messages repeated": 5,
    "records gone": 2,
    "topic destroyed": 4,
    "agent dies": 7,
    "agent dies at": 8,
    "agent pauses": 8,
    "agent freezes": 3,
    "agent pauses before a call": 3,
    "agent cut off": 6,
    "agent slow": 4,
    "agent's loop blocked": 4,
    "agent's clock set": 3,
    "reports sent again": 5,
    "agent told to end": 5,
    "agent joins": 5,
    "agent's name taken": 4,
    "cancel": 16,
    "retry": 8,
    "reschedule": 6,
    "explain": 6,
    "unknown job": 2,
    "id held by a transaction": 5,
    "lane paused": 1,
    "kind paused": 2,
    "agent drained": 3,
}
_DETAILS: Final[dict[str, Sequence[str]]] = {
    "leader dies at": [point.name for point in LEADER_POINTS],
    "leader pauses at": [point.name for point in LEADER_POINTS],
    "commit fails": ("before", "after"),
    "delivery fails": ("arrives", "lost"),
    "messages repeated": ("reports", "control", "buckets"),
    "records gone": ("control", "buckets"),
    "topic destroyed": ("intake", "reports", "reports", "control", "buckets", "buckets"),
    "agent dies at": POINTS,
    "kind paused": list(KINDS),
    "agent drained": ("", "stop"),
    "database clock set": ("forward", "back"),
    "agent's clock set": ("forward", "back"),
}
FAULTS: Final = tuple(_SHARES)
_CHOICES: Final = [kind for kind, share in _SHARES.items() for _ in range(share)]


@dataclass(frozen=True, slots=True)
class Fault:
    """`who`: which process or job, taken modulo of those there are. `seconds`: how long it lasts. `detail`: where or what."""

    at: float
    kind: str
    who: int
    seconds: float
    detail: str


def drawn(case: Case, chance: Random) -> list[Fault]:
    """The faults of a case in the order of time, without those that it leaves out."""
    count = int(case.seconds * chance.choice((0.1, 0.5, 1.0, 2.0)))
    found = sorted((_fault(case, chance) for _ in range(count)), key=lambda fault: fault.at)
    return found if case.faults is None else [found[index] for index in case.faults if index < len(found)]


def _fault(case: Case, chance: Random) -> Fault:
    kind = chance.choice(_CHOICES)
    at, who = chance.random() * case.seconds, chance.randrange(1_000)
    seconds = chance.choice((0.02, 0.2, 1.0, 3.0, 6.0, 10.0))
    details = _DETAILS.get(kind)
    detail = chance.choice(details) if details is not None else ""
    return Fault(at, kind, who, seconds, detail)
