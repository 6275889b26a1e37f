"""What happens in a world: jobs, agents, and faults, all made from the seed before anything runs. So a failing one can be made smaller."""

import random
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Way: TypeAlias = Literal["sql", "kafka"]
What: TypeAlias = Literal[
    "kill_leader", "pause_leader", "unknown_commit", "failed_commit", "undelivered", "twice", "kill_agent", "pause_agent", "cut_agent", "leave_agent",
    "join_agent", "remake", "wall_clock",
]  # fmt: skip


def job_id_of(number: int) -> str:
    """A UUIDv7; those of larger numbers are larger."""
    return f"018f0000-0000-7000-8000-{number:012x}"


POINTS = ("taken", "asked", "decided", "committed", "sending", "sent", "epoch", "loaded", "opened")
TOPICS = ("control", "buckets", "reports")


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job: when it is submitted, how, and what its handler will do. `fails`: so many attempts fail before one succeeds."""

    id: str
    at: float
    way: Way
    kind: str
    took_s: float
    size: float
    priority: int
    max_attempts: int
    fails: int


@dataclass(frozen=True, slots=True)
class PlannedAgent:
    """An agent and when it comes."""

    name: str
    at: float
    capacity: float
    slots: int


@dataclass(frozen=True, slots=True)
class Fault:
    """`at`: when; `what` to `who` (a name, a topic); `point`: for a leader, the next time it gets there; `for_s`: how long."""

    at: float
    what: What
    who: str = ""
    point: str = ""
    for_s: float = 0.0


@dataclass(frozen=True)
class Plan:
    """A world's history before it happens. `lost_after_s`: as the leader's rules have it."""

    seed: int
    jobs: tuple[PlannedJob, ...]
    agents: tuple[PlannedAgent, ...]
    faults: tuple[Fault, ...] = field(default=())
    leaders: int = 2
    lost_after_s: float = 4.0

    @property
    def ends(self) -> float:
        """When the last of the faults is over."""
        return max([fault.at + fault.for_s for fault in self.faults] + [job.at for job in self.jobs], default=0.0)


def small(seed: int, jobs: int = 120, agents: int = 4, faults: int = 12, length_s: float = 30.0) -> Plan:
    """A world with many faults."""
    rng = random.Random(seed)
    made = tuple(_job(rng, number, rng.uniform(0.0, length_s * 0.8)) for number in range(jobs))
    there = tuple(
        PlannedAgent(
            f"a{number}", rng.choice((0.0, 0.0, rng.uniform(0, length_s / 2))), rng.choice((4.0, 8.0, 16.0)), rng.choice((1, 2, 4))
        )
        for number in range(agents)
    )
    broken = tuple(sorted((_fault(rng, agents, rng.uniform(1.0, length_s)) for _ in range(faults)), key=lambda fault: fault.at))
    return Plan(seed, made, there, broken)


def large(seed: int, jobs: int, agents: int, slots: int = 10, load: float = 0.8) -> Plan:
    """A world with many agents and jobs and few faults. Jobs of three kinds: 2 ms, 100 ms and 10 s; they come so fast that the agents are busy to `load`."""
    rng = random.Random(seed)
    mix = (("tiny", 0.002, 0.9), ("short", 0.1, 0.09), ("long", 10.0, 0.01))
    mean_s = sum(took * share for _, took, share in mix)
    rate = min(agents * slots * load / mean_s, 30_000.0)
    made: list[PlannedJob] = []
    for number in range(jobs):
        kind, took, _ = rng.choices(mix, [share for _, _, share in mix])[0]
        size = rng.choice((1.0, 1.0, 1.0, 2.0)) if kind == "long" else 1.0
        took = took * rng.uniform(0.5, 1.5)
        made.append(PlannedJob(job_id_of(number + 1), number / rate, "kafka", kind, took, size, rng.choice((0, 1, 2, 2, 2, 3, 4)), 5, 0))
    there = tuple(PlannedAgent(f"a{number:04}", 0.0, 2.0 * slots, slots) for number in range(agents))
    length = jobs / rate
    broken = [Fault(length / 2, "kill_leader", "", "committed", 2.0)]
    for _ in range(agents // 50):
        what: What = rng.choice(("kill_agent", "pause_agent", "cut_agent"))
        broken.append(Fault(length * rng.random(), what, f"a{rng.randrange(agents):04}", "", rng.uniform(0.5, 8.0)))
    return Plan(seed, tuple(made), there, tuple(sorted(broken, key=lambda fault: fault.at)), lost_after_s=5.0)


def _job(rng: random.Random, number: int, at: float) -> PlannedJob:
    kind, took = rng.choice((("tiny", 0.002), ("tiny", 0.002), ("short", 0.08), ("short", 0.3), ("long", rng.uniform(1.0, 9.0))))
    return PlannedJob(
        id=job_id_of(number + 1),
        at=at,
        way=rng.choice(("sql", "kafka", "kafka")),
        kind=kind,
        took_s=took * rng.uniform(0.5, 1.5),
        size=rng.choice((1.0, 1.0, 1.0, 2.0, 3.0, 7.0, 20.0)) if kind == "long" else 1.0,
        priority=rng.choice((0, 1, 2, 2, 2, 3, 4)),
        max_attempts=rng.choice((1, 2, 5, 20)),
        fails=rng.choice((0, 0, 0, 1, 3)),
    )


def _fault(rng: random.Random, agents: int, at: float) -> Fault:
    who = f"a{rng.randrange(agents)}"
    for_s = rng.choice((0.2, 1.0, 3.0, 6.0, 10.0)) * rng.uniform(0.5, 1.5)
    what: What = rng.choice(
        ("kill_leader", "kill_leader", "pause_leader", "pause_leader", "unknown_commit", "failed_commit", "undelivered", "twice", "kill_agent",
         "kill_agent", "pause_agent", "pause_agent", "cut_agent", "leave_agent", "remake", "wall_clock")
    )  # fmt: skip
    if what == "remake":
        who = rng.choice(TOPICS)
    point = rng.choice(POINTS) if what in ("kill_leader", "pause_leader") else ""
    return Fault(at, what, who, point, rng.choice((-400.0, -3.0, 3.0, 400.0)) if what == "wall_clock" else for_s)
