"""What the simulated jobs do: how long each start of one lasts, and how it ends."""

from dataclasses import dataclass
from random import Random

from jobyard.contracts.job import Job
from jobyard.contracts.moments import Instant
from jobyard.contracts.retry import Retrying
from jobyard.contracts.states import Outcome
from jobyard.coordinator.simulation.clocks import START

ENDS = (
    (Outcome.SUCCEEDED, 78),
    (Outcome.FAILED, 11),
    (Outcome.CRASHED, 4),
    (Outcome.SNOOZED, 7),
)
_OUTCOMES = [outcome for outcome, share in ENDS for _ in range(share)]
QUICK = Retrying(backoff="constant", base_s=0.4, cap_s=2.0, jitter=0.5)
KINDS = {"tiny": 0.004, "short": 0.08, "long": 1.5, "huge": 5.0}
"""Kinds with about how long they last, seconds."""


@dataclass(frozen=True, slots=True)
class Start:
    """What one start does. `heeds`: it stops when it is asked to; else it goes on to its end."""

    lasts_s: float
    ends: Outcome = Outcome.SUCCEEDED
    heeds: bool = True
    retryable: bool = True


@dataclass(frozen=True, slots=True)
class Script:
    """What the starts of a job do, in turn; the last one again and again."""

    starts: tuple[Start, ...]

    def start(self, number: int) -> Start:
        """The start with this number, from 0 on."""
        return self.starts[min(number, len(self.starts) - 1)]


@dataclass(frozen=True, slots=True)
class Order:
    """A job as somebody submits it. `at`: when. `ways`: sql and kafka; more than one: the same id by each, as a client that repeats it does."""

    at: float
    job: Job
    script: Script
    ways: tuple[str, ...]


def job_id(chance: Random, at: Instant) -> str:
    """A UUIDv7 of this moment."""
    low = chance.getrandbits(74)
    digits = f"{int(at * 1000):012x}7{low >> 62 & 0xFFF:03x}{'89ab'[low & 3]}{low >> 2 & 0xFFFFFFFFFFFFFFF:015x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def mixed(chance: Random, count: int, seconds: float) -> list[Order]:
    """Jobs of every sort, submitted over some time in waves."""
    waves = [chance.random() * seconds for _ in range(max(1, count // 12))]
    return [_mixed(chance, min(seconds, chance.choice(waves) + chance.random() * 0.3)) for _ in range(count)]


def _mixed(chance: Random, at: float) -> Order:
    kind = chance.choice(list(KINDS))
    scale = KINDS[kind]
    starts = tuple(
        Start(
            scale * chance.choice((0.2, 0.5, 1.0, 2.0)),
            chance.choice(_OUTCOMES),
            chance.random() < 0.8,
            chance.random() < 0.9,
        )
        for _ in range(8)
    )
    ended = Start(scale, Outcome.SUCCEEDED)  # so that no job goes on for ever
    due = START + at + (chance.random() * 6.0 if chance.random() < 0.15 else 0.0)
    name = job_id(chance, START + at)
    job = Job(
        id=name,
        submitter=(None, "x", "y")[int(name[-2:], 16) % 3],
        kind=kind,
        run_at=round(due, 6),
        priority=chance.choice((0, 1, 2, 2, 2, 3, 4)),
        size=chance.choice((0.5, 1.0, 1.0, 1.0, 2.0, 3.0, 5.0, 9.0)),
        max_attempts=chance.choice((1, 1, 2, 3, 5)),
        timeout_s=chance.choice((None, None, None, scale * 1.2)),
        retry=QUICK,
    )
    ways = chance.choice((("sql",), ("sql",), ("kafka",), ("kafka",), ("kafka", "sql"), ("kafka", "kafka")))
    return Order(at, job, Script((*starts, ended)), ways)
