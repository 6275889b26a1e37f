"""Moments and durations as people type them."""

from datetime import UTC, datetime, timedelta

import pytest
import typer

from jobyard.cli.moments import moment


@pytest.mark.parametrize(("text", "off"), [("now", 0), ("in 2h", 7200), ("in 90", 90), ("15m ago", -900)])
def test_moments_from_now(text: str, off: float) -> None:
    assert abs(moment(text) - datetime.now(UTC) - timedelta(seconds=off)) < timedelta(seconds=5)


@pytest.mark.parametrize("text", ["soon", "in a while", "2026-12-01T08:00:00", "in -1h"])
def test_what_is_no_moment_says_what_is(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"write|time zone"):
        moment(text, "--run-at")
