"""Moments and durations as people type them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import typer

from jobyard.contracts.job import shown

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, None: 1.0}


def duration(text: str, of: str = "") -> timedelta:
    """`90`, `90s`, `1.5h`, `2d`: seconds if there is no unit. `of`: the option, to be named in an error."""
    said = f"{of} {shown(text)}".lstrip()
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{said} is no duration: write 90, 90s, 15m, 1.5h or 2d")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds > 100 * 366 * 86_400:
        raise typer.BadParameter(f"{said} is longer than a hundred years")
    return timedelta(seconds=seconds)


def moment(text: str, of: str = "") -> datetime:
    """RFC 3339 with a time zone (`2026-12-01T08:00:00Z`, `… +01:00`), `now`, `in 2h`, or `2h ago`. `of`: the option, to be named in an error."""
    said = f"{of} {shown(text)}".lstrip()
    if text.strip() == "now":
        return datetime.now(UTC)
    if text.strip().startswith("in "):
        return datetime.now(UTC) + duration(text.strip().removeprefix("in "), of)
    if text.strip().endswith("ago"):
        return datetime.now(UTC) - duration(text.strip().removesuffix("ago"), of)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"{said} is no moment: write 2026-12-01T08:00:00Z, now, in 2h, or 2h ago") from None
    if found.tzinfo is None:
        raise typer.BadParameter(f"{said} has no time zone: add Z (UTC) or +01:00")
    return found


def tags(texts: list[str] | None) -> dict[str, str] | None:
    """`K=V`, several times."""
    if not texts:
        return None
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"tag {shown(text)} must be NAME=VALUE")
        found[name] = value
    return found
