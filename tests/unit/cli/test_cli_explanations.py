"""What a leader says of a job, in words."""

from typing import get_args

import pytest

from jobyard.cli import job_explanations
from jobyard.contracts.codec import encode
from jobyard.contracts.explanation import AgentFacts, Explanation, Why
from jobyard.coordinator.core.choice import Rule

ID = "0199c0de-0000-7000-8000-000000000000"
NOW = 1_000_000.0


def said(why: Why, **facts: object) -> str:
    fields: dict[str, object] = {"kind": "transcribe", "version": 1, "priority": "medium", "size": 4.0, "since": NOW - 12.0} | facts
    found = job_explanations.read(encode(Explanation(why=why, **fields)).decode())  # type: ignore[arg-type]  # fields by name
    return " ".join(job_explanations.sentences(ID, found, NOW))


A5 = AgentFacts(agent="a5", state="active", free_slots=2, free_room=1.5, capacity=8.0, missing=2.5)


@pytest.mark.parametrize(
    ("why", "facts", "words"),
    [
        ("future", {"since": None, "run_at": NOW + 90}, ["waits for its time", "in 90 s", "reschedule"]),
        ("lane_paused", {}, ["its lane is paused", "lane resume"]),
        ("kind_paused", {}, ["kind transcribe is paused", "kind resume transcribe"]),
        ("no_agent", {}, ["has waited 12 s for", "runs kind transcribe: none of the lane does", "agent run"]),
        ("no_agent", {"version": 3, "highest": 2}, ["in version 3 or later", "run version 2 at most"]),
        ("none_eligible", {"knowing": 1, "agents": [AgentFacts(agent="a", state="draining", free_slots=1, free_room=1, capacity=1)]}, ["a is draining"]),
        ("no_slot", {"knowing": 3}, ["free slot", "3 agents run its kind", "What helps"]),
        ("no_room", {"agents": [A5]}, ["its size is 4", "agent a5: 1.5 of 8 are free, 2.5 are missing"]),
        (
            "drains_for_it",
            {"agents": [AgentFacts(agent="a5", state="active", free_slots=1, free_room=1, capacity=8, missing=3, reserved=True)]},
            ["Agent a5, where 1 of 8 are free by now, takes nothing new until it fits"],
        ),
        (
            "kept_for_another",
            {"agents": [AgentFacts(agent="a5", state="active", free_slots=1, free_room=4, capacity=8, reserved=True)]},
            ["kept for larger jobs that have waited longer: a5", "strictly higher priority"],
        ),
        ("no_room", {"size": 50.0, "largest": 8.0, "agents": [A5]}, ["largest capacity, 8, with nothing to do", "runs alone"]),
        ("no_slot", {"knowing": 1, "earlier": 3}, ["3 of the lane that wait, too, come before it"]),
        ("no_slot", {"knowing": 1}, ["next in order"]),
        ("future", {"since": None, "run_at": NOW + 5, "attempt": 1}, ["its next attempt", "placed once before"]),
        ("no_slot", {"mean_s": 0.25, "ends": 1}, ["take 250 ms on average, by one that has ended"]),
        ("ended", {"state": "succeeded", "agent": "a5", "attempt": 2, "rule": "window"}, ["number 2, was given to a5. Why there: no slot was free"]),
        ("placed", {"agent": "a5", "bucket": 17, "attempt": 1}, ["by bucket 17", "gives back"]),
        ("behind", {"ahead": 7, "first": ID, "first_waits": "no_room"}, ["behind 7", "waits for room", "What helps"]),
        ("unread", {}, ["in the database"]),
        ("next_pass", {"aged": True}, ["in a moment", "aged"]),
        ("ended", {"state": "failed"}, ["has ended: failed", "job history"]),
        ("placed", {"agent": "a5", "attempt": 2, "rule": "free", "room": 3, "load": 0.25, "next": 0.5},
         ["given to a5 12 s ago (attempt 2)", "least load", "25%", "50%"]),
        ("running", {"agent": "a5", "attempt": 1, "rule": "aged", "mean_s": 300.0, "ends": 40},
         ["running on a5 for 12 s", "waited longest", "5 min on average"]),
        ("running", {"agent": "a5", "attempt": 1, "cancel_asked": "wrong input"}, ["cancel was asked", "wrong input"]),
    ],
)  # fmt: skip
def test_each_reason_has_its_words(why: Why, facts: dict[str, object], words: list[str]) -> None:
    text = said(why, **facts)
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("why", get_args(Why))
def test_no_reason_is_without_words(why: Why) -> None:
    text = said(why, run_at=NOW + 1, state="failed")
    assert text.endswith((".", "ID", "LANE", "transcribe", "now")), text


@pytest.mark.parametrize("rule", [*get_args(Rule), "aged"])
def test_each_rule_of_a_placement_has_its_words(rule: str) -> None:
    assert f"Why there: {rule}" not in said("placed", agent="a5", attempt=1, rule=rule)


def test_a_job_that_was_placed_before_names_its_history() -> None:
    assert "placed 3 times before" in said("no_slot", attempt=3)


def test_the_facts_leave_out_what_is_not_set() -> None:
    facts = job_explanations.facts(Explanation(why="no_agent", kind="k", version=1, priority="high", size=1.0, since=NOW))
    assert facts["why"] == "no_agent"
    assert str(facts["since"]) == "1970-01-12 13:46:40+00:00"
    assert "agent" not in facts
