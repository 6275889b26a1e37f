"""What happens when in a run of chaos: made from a seed alone, so that the seed repeats it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from jobyard.process.points import Point

Fault: TypeAlias = Literal[
    "kill",
    "pause",
    "terminate",
    "replace",
    "break at",
    "drop",
    "stall",
    "delay",
    "reset",
    "kill Kafka",
    "pause Kafka",
    "crash Postgres",
    "restart Postgres",
    "cut connections",
    "make topic again",
]

LOST_AFTER_S: Final = 5.0
FIRST_S: Final = 5.0
EVERY_S: Final = 3.0
"""The mean time from one fault to the next."""
LONGEST_S: Final = 3 * LOST_AFTER_S
CALM_EVERY: Final = 10
"""After so many faults on average there is a calm, in which everything should recover."""
CALM_S: Final = 10.0

OF_COORDINATORS: Final[dict[Fault, int]] = {
    "kill": 3,
    "pause": 3,
    "terminate": 1,
    "break at": 6,
    "drop": 2,
    "stall": 3,
    "delay": 1,
    "reset": 1,
}
OF_AGENTS: Final[dict[Fault, int]] = {
    "kill": 4,
    "pause": 5,
    "terminate": 2,
    "replace": 1,
    "break at": 6,
    "drop": 2,
    "stall": 3,
    "delay": 1,
    "reset": 1,
}
OF_SERVICES: Final[dict[Fault, int]] = {
    "kill Kafka": 1,
    "pause Kafka": 2,
    "crash Postgres": 1,
    "restart Postgres": 1,
    "cut connections": 3,
    "make topic again": 2,
}
OF_CLIENTS: Final[dict[Fault, int]] = {"drop": 1, "stall": 1, "delay": 1, "reset": 1}
SHARES: Final = {"coordinator": 40, "agent": 40, "service": 14, "client": 6}
"""In all faults."""

POINTS_OF_A_LEADER: Final = tuple(point for point in Point if point not in (Point.TURN_HEARD, Point.REPORTS_DECIDED, Point.REPORTS_SENT))
RARE: Final = (*(point for point in Point if "EPOCH" in point.name or "OPENING" in point.name), Point.SNAPSHOT_READ, Point.POSITIONS_FOUND)
"""Reached once a leadership."""
SOMETIMES: Final = 30
"""The others are reached often: the first to the thirtieth time is as good as another."""
POINTS_OF_AN_AGENT: Final = (Point.TURN_HEARD, Point.REPORTS_DECIDED, Point.REPORTS_SENT)
TOPICS: Final = ("buckets", "control", "reports")
"""Not the intake: what lies in it unread would be lost with it, as promised."""
LINKS: Final = ("kafka", "postgres")
CLIENT: Final = "client"
"""Who submits, and is never killed."""


@dataclass(frozen=True)
class Step:
    """One fault. `at_s`: since the beginning. `lasts_s`: then what was broken is mended, and what was ended is started again (0: at once).

    `target`: a process, or a topic; empty for a whole service. `detail`: the link of a broken network; the point, for "break at", and
    `nth`: the how manieth time that it is reached, `pauses`: paused there, not killed.
    """

    at_s: float
    fault: Fault
    target: str
    lasts_s: float
    detail: str = ""
    nth: int = 1
    pauses: bool = False

    def __str__(self) -> str:
        what = [self.fault, *([self.target] if self.target else []), *([f"({self.detail})"] if self.detail else [])]
        if self.fault == "break at":
            what.append(f"{'paused' if self.pauses else 'killed'} at no. {self.nth}")
        if self.lasts_s:
            what.append(f"for {self.lasts_s:.1f} s")
        return " ".join(what)


def plan(seed: int, length_s: float, coordinators: Sequence[str], agents: Sequence[str]) -> list[Step]:
    """All faults of a run, in order. The same for the same arguments, on every machine."""
    rng = random.Random(seed)
    steps: list[Step] = []
    at_s = FIRST_S
    while at_s < length_s:
        (whose,) = rng.choices(tuple(SHARES), tuple(SHARES.values()))
        if whose == "service":
            steps.append(_of_service(rng, at_s))
        elif whose == "agent":
            steps.append(_of_process(rng, at_s, OF_AGENTS, agents, POINTS_OF_AN_AGENT, LINKS[:1]))
        elif whose == "client":
            steps.append(_of_process(rng, at_s, OF_CLIENTS, (CLIENT,), (), LINKS))
        else:
            steps.append(_of_process(rng, at_s, OF_COORDINATORS, coordinators, POINTS_OF_A_LEADER, LINKS))
        at_s += rng.expovariate(1 / EVERY_S)
        if rng.random() < 1 / CALM_EVERY:
            at_s += CALM_S
    return steps


def _of_process(
    rng: random.Random, at_s: float, faults: dict[Fault, int], names: Sequence[str], points: Sequence[Point], links: Sequence[str]
) -> Step:
    (fault,) = rng.choices(tuple(faults), tuple(faults.values()))
    target = rng.choice(names)
    lasts_s = _lasts(rng)
    if fault == "break at":
        point, nth, pauses = rng.choice(points), rng.randint(1, SOMETIMES), rng.random() < 0.5
        return Step(at_s, fault, target, lasts_s, point.value, 1 if point in RARE or point is Point.DELIVERY_FAILED else nth, pauses)
    if fault in ("drop", "stall", "delay"):
        return Step(at_s, fault, target, lasts_s, rng.choice(links))
    if fault == "reset":
        return Step(at_s, fault, target, 0.0, rng.choice(links))
    if fault == "replace":
        return Step(at_s, fault, target, 0.0)
    return Step(at_s, fault, target, lasts_s)


def _of_service(rng: random.Random, at_s: float) -> Step:
    (fault,) = rng.choices(tuple(OF_SERVICES), tuple(OF_SERVICES.values()))
    if fault == "make topic again":
        return Step(at_s, fault, rng.choice(TOPICS), 0.0)
    if fault in ("kill Kafka", "pause Kafka"):
        return Step(at_s, fault, "", _lasts(rng))
    return Step(at_s, fault, "", 0.0)


def _lasts(rng: random.Random) -> float:
    """Half of them shorter than an agent may be silent, half longer."""
    return rng.uniform(0.2, LOST_AFTER_S - 1) if rng.random() < 0.5 else rng.uniform(LOST_AFTER_S, LONGEST_S)
