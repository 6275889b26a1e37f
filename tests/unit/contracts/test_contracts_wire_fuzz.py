"""Whatever bytes come: a message, or Undecodable with a reason in one printable line. Nothing else."""

import math
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inputs import hostile

from jobyard.contracts import codec
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.codec import MOST_REPORTS, Undecodable, decode_bundle, decode_control, decode_reports
from jobyard.contracts.ids import is_job_id, new_job_id
from jobyard.contracts.reports import Finished, Reports

INCARNATION = "00000000-0000-4000-8000-000000000001"
JOB = new_job_id()
Decode = Callable[[bytes], object]
HEAD: hostile.Json = {"v": 1, "agent": "a", "incarnation": INCARNATION}
REPORTS = HEAD | {
    "seq": 1,
    "reports": [
        {"type": "hello", "stamp": 1.0, "kinds": {"k": 1}, "capacity": 1.0, "slots": 1, "host": "h"},
        {"type": "heartbeat", "stamp": 1.0, "epoch": 1, "capacity": 1.0, "slots": 1, "others": [0, 0.0], "held": [[1, JOB]]},
        {"type": "started", "fence": 1, "job": JOB, "attempt": 1, "at": 1.0},
        {"type": "progress", "fence": 1, "job": JOB, "attempt": 1, "done": 1.0, "total": 2.0, "message": "m"},
        {
            "type": "finished",
            "fence": 1,
            "ends": [[JOB, 1, "failed", 1.0, 2.0, {"a": [1, "x"]}, ["E", "m", "t"], True, 1.0]],
            "busy_s": 1.0,
        },
        {"type": "released", "fence": 1, "jobs": [[JOB, 1]], "reason": "r"},
        {"type": "goodbye"},
    ],
}
WELCOME = HEAD | {"type": "welcome", "epoch": 1, "stamp": 1.0, "buckets": [[0, 1, "id", 2]], "lost_after_s": 15.0, "draining": True}
CANCEL = HEAD | {"type": "cancel", "epoch": 1, "fence": 1, "bucket": 2, "job": JOB, "reason": "r"}
BUNDLE = HEAD | {
    "epoch": 1,
    "fence": 1,
    "bucket": 2,
    "jobs": [{"id": JOB, "kind": "k", "args": {"a": 1}, "size": 2.0, "timeout_s": 3.0, "retry": {"base_s": 1.0}, "tags": {"t": "v"}}],
    "attempts": [1],
    "used": [0],
    "careful": [True],
    "cancel": [JOB],
    "open": [1, 2],
}
GOOD: tuple[tuple[Decode, hostile.Json], ...] = (
    (decode_reports, REPORTS),
    (decode_control, WELCOME),
    (decode_control, CANCEL),
    (decode_bundle, BUNDLE),
)
_FUZZ = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def decoded(decode: Decode, data: bytes) -> object | None:
    """The message; None: it was refused as it must be."""
    try:
        return decode(data)
    except Undecodable as refusal:
        reason = refusal.reason
    assert reason
    assert reason.isprintable()
    assert len(reason.encode()) <= 500
    return None


def check(found: object | None) -> None:
    """What was taken can be sent on, and computed with."""
    if isinstance(found, Reports):
        codec.encode(found)
        for report in found.reports:
            if isinstance(report, Finished):
                assert all(math.isfinite(end.ended_at) and (end.delay_s is None or math.isfinite(end.delay_s)) for end in report.ends)
    elif isinstance(found, BundleMessage):
        codec.encode(found)
        assert len({job.id for job in found.jobs}) == len(found.jobs) == len(found.attempts)
        assert all(is_job_id(job.id) and 0 < job.size < math.inf for job in found.jobs)
    elif found is not None:
        codec.encode(found)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - one of the control messages


@pytest.mark.parametrize(("decode", "good"), GOOD)
def test_the_good_messages_are_good(decode: Decode, good: hostile.Json) -> None:
    assert decode(hostile.text(good)) is not None
    assert decode(hostile.text(good | {"from a version to come": {"a": [None]}})) is not None


@pytest.mark.parametrize("decode", [decode_reports, decode_control, decode_bundle])
@given(data=st.binary(max_size=200))
@_FUZZ
def test_arbitrary_bytes_are_refused(decode: Decode, data: bytes) -> None:
    assert decoded(decode, data) is None


@pytest.mark.parametrize(("decode", "good"), GOOD)
def test_a_message_cut_anywhere_is_refused(decode: Decode, good: hostile.Json) -> None:
    assert [cut for cut in hostile.truncated(hostile.text(good)) if decoded(decode, cut) is not None] == []


@pytest.mark.parametrize(("decode", "good"), GOOD)
def test_what_is_no_message_is_refused(decode: Decode, good: hostile.Json) -> None:
    for data in hostile.no_message(good):
        check(decoded(decode, data))


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
_RAW = st.one_of(
    st.sampled_from((*hostile.WILD_NUMBERS, *hostile.WILD_TEXTS)),
    _JSON.map(lambda value: msgspec.json.encode(value, enc_hook=str).decode(errors="replace") if not _huge(value) else str(10**30)),
)


def _huge(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except (OverflowError, UnicodeEncodeError):
        return True
    return False


@pytest.mark.parametrize(("decode", "good"), GOOD)
@given(data=st.data())
@_FUZZ
def test_a_message_with_anything_anywhere_is_taken_or_refused(decode: Decode, good: hostile.Json, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(hostile.paths_of(good))))
    check(decoded(decode, hostile.with_raw(good, path, data.draw(_RAW))))


@pytest.mark.parametrize(("decode", "good"), GOOD)
@given(data=st.data())
@_FUZZ
def test_a_message_with_bytes_changed_is_taken_or_refused(decode: Decode, good: hostile.Json, data: st.DataObject) -> None:
    text = bytearray(hostile.text(good))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                text[at] = data.draw(st.integers(0, 255))
            case 1:
                del text[at]
            case _:
                text[at:at] = data.draw(st.binary(min_size=1, max_size=3))
    check(decoded(decode, bytes(text)))


def test_a_batch_that_no_agent_makes_is_refused() -> None:
    many = [[JOB, 1]] * (MOST_REPORTS + 1)
    assert decoded(decode_reports, hostile.text(HEAD | {"seq": 1, "reports": [{"type": "released", "fence": 1, "jobs": many}]})) is None
    assert decoded(decode_reports, hostile.text(HEAD | {"seq": 1, "reports": [{"type": "goodbye"}] * 2})) is None
    fits = [{"type": "released", "fence": 1, "jobs": many[2:]}]
    assert decoded(decode_reports, hostile.text(HEAD | {"seq": 1, "reports": fits})) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": [{"id": JOB, "kind": "k"}] * 2, "attempts": [1, 1], "used": [0, 0], "careful": []},
        {"jobs": [{"id": "job-1", "kind": "k"}]},
        {"jobs": [{"id": JOB, "kind": "k", "size": -1.0}]},
        {"jobs": [{"id": JOB, "kind": "k", "priority": 5}]},
        {"jobs": [{"id": JOB, "kind": "k", "timeout_s": 1e9}]},
        {"attempts": [0]},
        {"epoch": 2**60 + 1},
    ],
)
def test_a_bundle_that_could_not_be_reported_on_is_refused(wrong: hostile.Json) -> None:
    assert decoded(decode_bundle, hostile.text(BUNDLE | wrong)) is None
