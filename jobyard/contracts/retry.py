"""When a failed attempt is tried again. Pure: the jitter is drawn from the job and its attempt, so the same question has one answer."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from zlib import crc32

import msgspec

from jobyard.contracts.endings import seconds

Backoff = Literal["exponential", "linear", "constant"]

LONGEST_DELAY_S = 366 * 86_400.0
"""No delay that an agent proposes may be longer: a year's typing mistake must not bury a job."""


class Retrying(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A retry policy as JSON: what a job or a kind carries. Times in seconds."""

    backoff: Backoff = "exponential"
    base_s: float = 2.0
    cap_s: float = 3600.0
    jitter: float = 0.1


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How a handler's failures are tried again.

    `max_attempts`: attempts in all, 1 to 1000; 1 = never started twice. `base`, `cap`: seconds or timedelta. `jitter`: 0 to 1, the share of the delay
    that is drawn at random, up or down. `no_retry_for`: exceptions that end the job at once (subclasses, too).
    """

    max_attempts: int = 5
    backoff: Backoff = "exponential"
    base: timedelta | float = 2.0
    cap: timedelta | float = 3600.0
    jitter: float = 0.1
    no_retry_for: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= 1000:
            raise ValueError(f"max_attempts={self.max_attempts} must lie between 1 and 1000")
        problem = problem_of(self.retrying)
        if problem:
            raise ValueError(problem)

    @property
    def retrying(self) -> Retrying:
        """The part that is sent along as JSON."""
        return Retrying(backoff=self.backoff, base_s=seconds(self.base), cap_s=seconds(self.cap), jitter=self.jitter)


def problem_of(retrying: Retrying) -> str | None:
    """What is wrong with a policy, naming field, value and rule; None: nothing."""
    if retrying.backoff not in ("exponential", "linear", "constant"):
        return f"retry.backoff={retrying.backoff!r} must be exponential, linear or constant"
    if not 0 <= retrying.base_s <= LONGEST_DELAY_S:
        return f"retry.base_s={retrying.base_s} must lie between 0 and {LONGEST_DELAY_S:.0f} seconds"
    if not 0 <= retrying.cap_s <= LONGEST_DELAY_S:
        return f"retry.cap_s={retrying.cap_s} must lie between 0 and {LONGEST_DELAY_S:.0f} seconds"
    if not 0 <= retrying.jitter <= 1:
        return f"retry.jitter={retrying.jitter} must lie between 0 and 1"
    return None


def delay(policy: Retrying, used: int, key: str) -> float:
    """Seconds until the next attempt, after `used` attempts that count (1 for the first failure).

    `key` (job id and attempt) draws the jitter. Never negative, never above cap_s by more than the jitter.
    """
    n = max(1, used)
    match policy.backoff:
        case "exponential":
            plain = policy.base_s * 2.0 ** min(n - 1, 60)
        case "linear":
            plain = policy.base_s * n
        case "constant":
            plain = policy.base_s
    plain = min(plain, policy.cap_s)
    drawn = crc32(key.encode()) / 0xFFFFFFFF * 2.0 - 1.0
    return max(0.0, plain * (1.0 + policy.jitter * drawn))
