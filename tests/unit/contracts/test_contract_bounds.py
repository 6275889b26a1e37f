"""Bounds of what people and messages may say."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from jobyard.api.options import positive_seconds
from jobyard.contracts.codec import Undecodable, decode_bundle, decode_control
from jobyard.contracts.errors import InvalidJob
from jobyard.contracts.ids import FIRST_ID, new_job_id
from jobyard.contracts.job import LONGEST_TIMEOUT_S, NewJob, problem_of
from jobyard.contracts.moments import LATEST, later, text
from jobyard.contracts.priority import NAMES, PRIORITIES
from jobyard.contracts.rules import RULES, Rules
from jobyard.contracts.topics import lane_topics

INCARNATION = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize("timeout_s", [0.001, 1.0, LONGEST_TIMEOUT_S])
def test_a_time_out_may_be_366_days_at_most(timeout_s: float) -> None:
    assert problem_of(NewJob(kind="k", timeout_s=timeout_s), RULES) is None
    assert positive_seconds("timeout", timeout_s) == timeout_s


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, LONGEST_TIMEOUT_S + 1, 1e300, float("inf"), float("nan")])
def test_a_longer_time_out_is_refused_by_field_value_and_rule(timeout_s: float) -> None:
    problem = problem_of(NewJob(kind="k", timeout_s=timeout_s), RULES)
    assert problem is not None
    assert (problem.code, problem.field) == ("JY002", "timeout_s")
    assert str(timeout_s) in problem.message
    assert "31622400" in problem.message
    with pytest.raises(InvalidJob, match="at most 366 days"):
        positive_seconds("timeout", timeout_s)


def test_a_time_out_of_a_handler_may_be_a_timedelta() -> None:
    assert positive_seconds("timeout", timedelta(days=366)) == LONGEST_TIMEOUT_S
    with pytest.raises(InvalidJob):
        positive_seconds("timeout", timedelta(days=367))


@pytest.mark.parametrize("delay_s", [0.0, 5.0, LONGEST_TIMEOUT_S, 1e308])
def test_a_deadline_can_always_be_told(delay_s: float) -> None:
    for at in (0.0, LATEST - 1.0, LATEST):
        found = later(at, delay_s)
        assert at <= found <= LATEST
        assert text(found)


def test_L19_intake_and_reports_have_the_brokers_time() -> None:
    topics = lane_topics("test", "default")
    assert [topic.settings.get("message.timestamp.type") for topic in topics.all()] == ["LogAppendTime", "LogAppendTime", None, None]


def test_ids_and_priorities() -> None:
    assert new_job_id() > FIRST_ID
    assert [NAMES[priority] for priority in PRIORITIES] == list(NAMES)


@pytest.mark.parametrize("wrong", [{"read_ahead": 0}, {"read_ahead_bytes": 0}, {"tick_bytes": -1}])
def test_no_bound_on_memory_may_be_nothing(wrong: Mapping[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Rules(**wrong)


def control(**more: object) -> bytes:
    return msgspec.json.encode({"v": 1, "epoch": 1, "agent": "a", "incarnation": INCARNATION, "type": "confirm", "stamp": 1.0} | more)


@pytest.mark.parametrize("wrong", [{"epoch": -1}, {"epoch": 2**62}, {"stamp": 1e308}, {"stamp": -1.0}])
def test_control_out_of_bounds_is_no_message(wrong: dict[str, object]) -> None:
    assert decode_control(control())
    with pytest.raises(Undecodable):
        decode_control(control(**wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"lost_after_s": 0.0},
        {"lost_after_s": 1e10},
        {"buckets": [[5, 0, "t", 0]]},
        {"buckets": [[0, -1, "t", 0]]},
        {"buckets": [[0, 0, "t", -1]]},
    ],
)
def test_a_welcome_out_of_bounds_is_no_message(wrong: dict[str, object]) -> None:
    right: dict[str, object] = {"type": "welcome", "lost_after_s": 15.0, "buckets": [[4, 2**31 - 1, "t", 2**62 - 1]]}
    assert decode_control(control(**right))
    with pytest.raises(Undecodable):
        decode_control(control(**(right | wrong)))


@pytest.mark.parametrize(
    "wrong", [{"fence": 2**62}, {"epoch": -1}, {"bucket": 2**31}, {"attempts": [32_768]}, {"used": [-1]}, {"open": [-1]}]
)
def test_a_bundle_out_of_bounds_is_no_message(wrong: dict[str, object]) -> None:
    right: dict[str, object] = {
        "v": 1,
        "epoch": 1,
        "fence": 1,
        "agent": "a",
        "incarnation": INCARNATION,
        "bucket": 0,
        "jobs": [{"id": new_job_id(), "kind": "k"}],
        "attempts": [1],
        "used": [0],
        "open": [1],
    }
    assert decode_bundle(msgspec.json.encode(right))
    with pytest.raises(Undecodable):
        decode_bundle(msgspec.json.encode(right | wrong))
