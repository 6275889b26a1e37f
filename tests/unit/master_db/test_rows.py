"""Rows as COPY text: nothing that anybody sends can leave its column, and both ways of writing a row agree."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobyard.contracts.job import Job
from jobyard.contracts.reports import End, Error, Finished
from jobyard.contracts.retry import Retrying
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.master_db import rows

ID = "019b0000-0000-7000-8000-000000000001"
OTHER = "019b0000-0000-7000-8000-000000000002"


def bundle(count: int = 2) -> Bundle:
    ids = [OTHER, ID, *(f"019b0000-0000-7000-8000-1{n:011d}" for n in range(count))][:count]
    jobs = [Job(id=one, kind="k") for one in ids]
    n = [0] * count
    return Bundle(7, 3, "i", 9, "k", 1, 1.5, {"why": 'a\t"b"\\'}, jobs, [1] * count, n, n, [5] * count, [False] * count)


@given(st.text())
def test_any_text_comes_back_from_its_column_storable(value: str) -> None:
    text = rows.safe(value, 1_000_000)
    assert not set(text) & set("\t\n\r\x00")
    (back,) = rows.values(text)
    assert back == value.replace("\x00", "\ufffd")


def test_null_and_its_sign_are_told_apart() -> None:
    assert rows.values(f"{rows.safe('x', 9)}\t{rows.NULL}\t{rows.safe(chr(92) + 'N', 9)}\t") == ["x", None, "\\N", ""]


@given(st.dictionaries(st.text(), st.text()))
def test_json_for_jsonb_holds_no_nul_and_is_otherwise_the_same(value: dict[str, str]) -> None:
    (text,) = rows.values(rows.json_of(value))
    assert text is not None
    assert msgspec.json.decode(text) == {k.replace("\x00", "\ufffd"): v.replace("\x00", "\ufffd") for k, v in value.items()}


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert rows.values(rows.json_of({"a": "\\u0000"})) == ['{"a":"\\\\u0000"}']


def test_a_plain_job_and_one_with_everything_have_the_same_columns() -> None:
    rare = Job(
        id=ID,
        kind="k",
        args=msgspec.Raw(b'{\n\t"a": "\\\\ \\n"}'),
        run_at=1.000001,
        timeout_s=2.5,
        retry=Retrying(base_s=1.0),
        submitter="a\\b",
        tags={"t": "\x00"},
        parent=OTHER,
        traceparent="00-1",
    )
    first, second = rows.jobs([Job(id=OTHER, kind="k"), rare], {"k": 4}, 6)
    plain = dict(zip(rows.JOBS.columns, rows.values(first), strict=True))
    full = dict(zip(rows.JOBS.columns, rows.values(second), strict=True))
    assert plain == {
        "id": OTHER,
        "run_at": "1970-01-01 00:00:00.000000+00",
        "kind_id": "4",
        "priority": "2",
        "max_attempts": "5",
        "version": "1",
        "size": "1.0",
        "args": "{}",
        "timeout_s": None,
        "retry": None,
        "submitter": None,
        "tags": None,
        "parent_id": None,
        "traceparent": None,
        "lane_id": "6",
        "via": "k",
    }
    assert (full["args"], full["timeout_s"], full["submitter"], full["tags"]) == ('{\n\t"a": "\\\\ \\n"}', "2.5", "a\\b", '{"t":"\\ufffd"}')
    assert (full["retry"], full["parent_id"], full["traceparent"]) == ('{"base_s":1.0}', OTHER, "00-1")
    assert full["run_at"] == "1970-01-01 00:00:01.000001+00"


def test_L23_rows_of_pending_that_the_leader_writes_are_never_new_to_it() -> None:
    (row,) = rows.pending([Waiting(Job(id=ID, kind="k"), 2, 1, 1, why="r")], {"k": 4}, 6)
    found = dict(zip(rows.PENDING.columns, rows.values(row), strict=True))
    assert (found["xid"], found["why"], found["attempt"], found["used"], found["interruptions"]) == ("0", "r", "2", "1", "1")


def test_a_bundle_has_its_smallest_and_largest_id() -> None:
    found = dict(zip(rows.BUNDLES.columns, rows.values(rows.bundle(bundle(), 4, 6)), strict=True))
    assert (found["lo"], found["hi"], found["job_ids"]) == (ID, OTHER, f"{{{OTHER},{ID}}}")
    assert (found["careful"], found["bounds"], found["reason"]) == ("{f,f}", "{5,5}", '{"why":"a\\t\\"b\\"\\\\"}')


def test_careful_jobs_are_marked_in_their_places() -> None:
    one = bundle()
    one.careful = [True, False]
    assert dict(zip(rows.BUNDLES.columns, rows.values(rows.bundle(one, 4, 6)), strict=True))["careful"] == "{t,f}"


def attempts(text: str) -> list[dict[str, str | None]]:
    return [dict(zip(rows.ATTEMPTS.columns, rows.values(line), strict=True)) for line in text.split("\n")]


def test_L8_prepared_ends_are_completed_alike_whether_all_are_equal_or_not() -> None:
    ends = [End(job.id, 1, Outcome.FAILED, None, 2.0, error=Error("E", "a\tb\nc\\", "")) for job in bundle().jobs]
    prepared = rows.prepare(Finished(fence=7, ends=ends))
    equal = attempts(rows.attempts(bundle(), prepared, [1, 1], [None, None], 4, 6))
    mixed = attempts(rows.attempts(bundle(), prepared, [1, 2], [None, State.FAILED], 4, 6))
    assert equal[0] == mixed[0]
    assert (equal[0]["error_message"], equal[0]["error_traceback"], equal[0]["started_at"]) == ("a\tb\nc\\", None, None)
    assert equal[0]["reason"] == '{"why":"a\\t\\"b\\"\\\\"}'
    assert mixed[1] == equal[1] | {"used": "2", "final": "failed"}


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([None, State.FAILED])), min_size=1, max_size=6))
def test_L8_each_end_keeps_its_own_used_and_final(told: list[tuple[int, State | None]]) -> None:
    one = bundle(len(told))
    prepared = rows.prepare(Finished(fence=7, ends=[End(job.id, 1, Outcome.FAILED, 1.0, 2.0) for job in one.jobs]))
    found = attempts(rows.attempts(one, prepared, [used for used, _ in told], [final for _, final in told], 4, 6))
    assert [(row["job_id"], row["used"], row["final"], row["fence"]) for row in found] == [
        (job.id, str(used), final, "7") for job, (used, final) in zip(one.jobs, told, strict=True)
    ]


@pytest.mark.parametrize("result", [b'"\\u0000"', b"[" * 300 + b"]" * 300, b'"' + b"x" * 1_048_576 + b'"'])
def test_a_forged_result_is_replaced_by_an_error_that_says_so(result: bytes) -> None:
    found = attempts(rows.attempts(bundle(1), rows.prepare(_finished(result)), [0], [State.SUCCEEDED], 4, 6))[0]
    assert (found["result"], found["error_type"], found["outcome"]) == (None, "InvalidResult", "succeeded")


def test_a_good_result_is_kept_as_it_is() -> None:
    raw = b'{"a": "\\\\u0000\\t\xc3\xa4",\n "b": 1.50}'
    assert attempts(rows.attempts(bundle(1), rows.prepare(_finished(raw)), [0], [None], 4, 6))[0]["result"] == raw.decode()


def test_a_forged_error_is_cut() -> None:
    ends = [End(ID, 1, Outcome.FAILED, 1.0, 2.0, error=Error("T" * 9_999, "ä" * 9_999, "x\x00" * 99_999))]
    found = attempts(rows.attempts(bundle(1), rows.prepare(Finished(fence=7, ends=ends)), [0], [None], 4, 6))[0]
    sizes = [len((found[name] or "").encode()) for name in ("error_type", "error_message", "error_traceback")]
    assert sizes[0] <= rows.MOST_TYPE
    assert sizes[1] <= rows.MOST_MESSAGE
    assert sizes[2] <= rows.MOST_TRACEBACK
    assert "\x00" not in (found["error_traceback"] or "")


def test_quarantine_keeps_the_bytes() -> None:
    row = rows.values(rows.quarantined(BadMessage("t", 0, 5, "no\tJSON", b"\x00\xff\\"), 1.0, 6))
    assert row[3:] == ["0", "5", "no\tJSON", "\\x00ff5c"]


def _finished(result: bytes) -> Finished:
    return Finished(fence=7, ends=[End(OTHER, 1, Outcome.SUCCEEDED, 1.0, 2.0, result=msgspec.Raw(result))])


def test_an_array_is_text_that_the_server_reads() -> None:
    assert rows.array(["(0,1)", "(0,2)"]) == '{"(0,1)","(0,2)"}'
