"""Telemetry: each event has a log line or is silent on purpose, and what is logged says what it is about."""

import logging
from typing import get_args

import pytest

from jobyard.coordinator.core import events
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.sender import SENT
from jobyard.coordinator.telemetry import LINES, SILENT, Telemetry


def test_each_event_has_a_line_or_is_silent_on_purpose() -> None:
    every = set(get_args(Event))
    assert set(LINES) | SILENT == every
    assert not set(LINES) & SILENT
    assert set(SENT) <= every


def test_a_line_names_what_it_is_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        Telemetry("default").saw(
            [
                events.Noted("some-id", "a", "cancelled", 1.0, actor="somebody"),
                events.Quarantined(BadMessage("t", 0, 7, "not JSON", b""), 1.0),
                events.AgentEnded(1, "anna", "i", "lost", 1.0),
                events.AgentJoined(1, "anna", "i", []),
                events.AgentChanged(1, "anna", "unreachable", 10, 10),
                events.FencedOff("anna", "i", "lost"),
                events.Answered(3, "JY007", "no such job"),
                events.Accepted(1, 0, 0),
            ],
            0.1,
            0,
        )
    text = caplog.text
    for word in ("some-id", "somebody", "offset 7", "not JSON", "anna is lost", "anna joined", "unreachable", "JY007"):
        assert word in text
    assert len(caplog.records) == 7


def test_repairs_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Telemetry("default").saw([events.Repaired("L12", "sent_again", 7, ["one", "two"], "anna", 1.0)], 0.1, 0)
    assert "L12" in caplog.text
    assert "two" in caplog.text
