"""Instants: seconds since 1970 UTC as a float (exact to a microsecond until 2200), and their text for Postgres and people."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

Instant: TypeAlias = float
"""Seconds since 1970-01-01 UTC."""

EARLIEST: Instant = 0.0
LATEST: Instant = 7_258_118_400.0
"""2200-01-01: what lies beyond is refused on every way in (Postgres could keep it, people never mean it)."""


DAY_S = 86_400.0


def later(at: Instant, delay_s: float) -> Instant:
    """`delay_s` after an instant, but never beyond LATEST: a deadline that far off is none, and text for it must not fail."""
    return min(at + delay_s, LATEST)


@lru_cache(maxsize=4096)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%d %H:%M:%S")


def text(at: Instant) -> str:
    """`2026-11-30 10:00:00.000123+00`, as Postgres reads it. The second's text is cached, so a batch of ends costs little."""
    micros = round(at * 1_000_000)
    whole, part = divmod(micros, 1_000_000)
    return f"{_second(whole)}.{part:06d}+00"


def instant(at: datetime) -> Instant:
    """An aware datetime as an instant, to the microsecond. Naive: ValueError."""
    if at.tzinfo is None:
        raise ValueError(f"{at!r} has no time zone")
    return at.timestamp()


def moment(at: Instant) -> datetime:
    """An instant as an aware UTC datetime."""
    return datetime.fromtimestamp(at, UTC)
