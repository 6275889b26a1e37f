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
from jobyard.contracts.codec import MOST_REPORTS, Undecodable, decode_bundle, decode_control, decode_reports, sort_reports
from jobyard.contracts.ids import is_job_id, new_job_id
from jobyard.contracts.reports import Finished, Reports

INCARNATION = "00000000-0000-4000-8000-000000000001"
JOB = new_job_id()
Decode = Callable[[bytes], object]
HEAD: hostile.Json = {"v": 1, "agent": "a", "incarnation": INCARNATION}
REPORTS: hostile.Json = HEAD | {
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


def sorted_(data: bytes) -> Reports:
    """What is right of a batch; what is wrong of it is told in the ways in which any refusal is."""
    found, bad = sort_reports(data)
    for reason, body in bad:
        assert reason.isprintable()
        assert len(reason.encode()) <= 500
        assert body
    return found


GOOD: tuple[tuple[Decode, hostile.Json], ...] = (
    (decode_reports, REPORTS),
    (sorted_, REPORTS),
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


@pytest.mark.parametrize("decode", [decode_reports, sorted_, decode_control, decode_bundle])
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


REPORT_OF_NO_TYPE: hostile.Json = {"type": "mood", "how": "good"}
WRONG: tuple[tuple[str, str], ...] = (
    ("mood", '{"type": "mood", "how": "good"}'),  # of a newer agent
    ("a number", "7"),
    ("a text", '"no report"'),
    ("none", "null"),
    ("out of bounds", '{"type": "started", "fence": -1, "job": "j", "attempt": 1, "at": 1.0}'),
    ("no JSON inside", '{"type": "goodbye", "x": NaN}'),
    ("deep", '{"type": "goodbye", "x": ' + "[" * 10_000 + "]" * 10_000 + "}"),
)


@pytest.mark.parametrize("place", [0, 3, 7])
@pytest.mark.parametrize("raw", [pytest.param(raw, id=name) for name, raw in WRONG])
def test_L18_one_bad_report_takes_no_other_with_it(raw: str, place: int) -> None:
    with_it = [*REPORTS["reports"][:place], 0, *REPORTS["reports"][place:]]
    found, bad = sort_reports(hostile.with_raw(REPORTS | {"reports": with_it}, ("reports", place), raw))
    assert codec.encode(found) == codec.encode(decode_reports(hostile.text(REPORTS)))
    assert [body for _, body in bad] == [raw.encode()]


def test_L18_one_bad_end_takes_no_other_of_its_bundle_with_it() -> None:
    good = [JOB, 1, "succeeded", 1.0, 2.0]
    skipped = [JOB, 2, "skipped", 1.0, 2.0]
    report = {"type": "finished", "fence": 4, "ends": [good, skipped, 7, good], "busy_s": 1.0}
    found, bad = sort_reports(hostile.text(HEAD | {"seq": 1, "reports": [report]}))
    (finished,) = found.reports
    assert isinstance(finished, Finished)
    assert (finished.fence, finished.busy_s, len(finished.ends)) == (4, 1.0, 2)
    assert [msgspec.json.decode(body) for _, body in bad] == [{"type": "finished", "fence": 4, "ends": [one]} for one in (skipped, 7)]
    assert "skipped" in bad[0][0]


def test_a_batch_in_which_nothing_is_right_is_refused() -> None:
    wrongs: tuple[list[hostile.Json], ...] = (
        [REPORT_OF_NO_TYPE],
        [{"type": "finished", "fence": 1, "ends": [7]}],
        [*[REPORT_OF_NO_TYPE] * 2_000, *REPORTS["reports"]],
    )
    for reports in wrongs:
        with pytest.raises(Undecodable, match=r"Invalid value|Expected"):
            sort_reports(hostile.text(HEAD | {"seq": 1, "reports": reports}))
    heads: tuple[hostile.Json, ...] = ({"v": 2}, {"agent": ""}, {"incarnation": "no"}, {"seq": -1})
    for head in heads:
        with pytest.raises(Undecodable):
            sort_reports(hostile.text(REPORTS | head | {"reports": [*REPORTS["reports"], REPORT_OF_NO_TYPE]}))


def test_of_many_bad_reports_quarantine_gets_few_rows() -> None:
    _, bad = sort_reports(hostile.text(HEAD | {"seq": 1, "reports": [*[REPORT_OF_NO_TYPE] * 500, {"type": "goodbye"}]}))
    assert len(bad) == 10
    assert bad[-1][0].startswith("491 more reports of this message are wrong")


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
