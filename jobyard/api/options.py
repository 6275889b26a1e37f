"""What can be said of a kind when its handler is defined (HandlerOptions) and of one job when it is submitted (JobOptions)."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, TypedDict
from uuid import UUID

from jobyard.contracts.endings import seconds
from jobyard.contracts.errors import InvalidJob
from jobyard.contracts.job import LONGEST_TIMEOUT_S, shown
from jobyard.contracts.job_fields import shown_value
from jobyard.contracts.moments import DAY_S
from jobyard.contracts.priority import PriorityName
from jobyard.contracts.retry import RetryPolicy

Seconds: TypeAlias = timedelta | float
Via: TypeAlias = Literal["kafka", "sql"]


class _Common(TypedDict, total=False):
    lane: str
    priority: PriorityName
    timeout: Seconds
    retry: RetryPolicy
    tags: Mapping[str, str]


class HandlerOptions(_Common, total=False):
    """What `@app.job` takes. `size`: a number, the (dotted) name of an argument, or a function of the arguments. `timeout`: seconds or timedelta."""

    kind: str
    aliases: Sequence[str]
    version: int
    isolation: Literal["thread"]
    size: float | str | Callable[..., float]


class JobOptions(_Common, total=False):
    """What `handler.options()` takes. `run_at`: an aware datetime; `delay`: from now. `connection`: a psycopg 3 connection, sync or async."""

    size: float
    run_at: datetime
    delay: Seconds
    max_attempts: int
    submitter: str
    id: UUID | str
    via: Via
    connection: object


def positive_seconds(name: str, value: object) -> float:
    """A duration as seconds, above 0, at most 366 days. InvalidJob naming `name` otherwise."""
    number = _number(name, value)
    if not 0 < number <= LONGEST_TIMEOUT_S:
        raise InvalidJob(f"{name} {shown_value(value)} must be a duration above 0, at most {LONGEST_TIMEOUT_S / DAY_S:g} days", field=name)
    return number


def delay_seconds(value: object) -> float:
    """A delay as seconds, finite and not negative. InvalidJob otherwise."""
    number = _number("delay", value)
    if not 0 <= number < math.inf:
        raise InvalidJob(f"delay {shown_value(value)} must be a finite duration, not negative", field="delay")
    return number


def as_float(value: float) -> float:
    """A number as a double; infinity for a whole number beyond all of them."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _number(name: str, value: object) -> float:
    if isinstance(value, timedelta) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return seconds(value) if isinstance(value, timedelta) else as_float(value)
    raise InvalidJob(f"{name} {shown(repr(value))} must be seconds or a timedelta", field=name)


def aware(name: str, value: object) -> datetime:
    """A moment with a time zone. InvalidJob for anything else."""
    if not isinstance(value, datetime):
        raise InvalidJob(f"{name} {shown(repr(value))} must be a datetime", field=name)
    if value.utcoffset() is None:
        raise InvalidJob(f"{name} {value.isoformat()} must have a time zone", field=name, hint="Use datetime.now(UTC), for example.")
    return value
