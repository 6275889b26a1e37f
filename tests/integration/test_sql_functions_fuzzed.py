"""Whatever stands in a parameter of a public SQL function: an answer, or an error of the documented classes. And SQL judges a job as Python does.

Longer: `pytest --hypothesis-profile=long tests/integration/test_sql_functions_fuzzed.py`.
"""

import json
import time
from collections.abc import Generator
from typing import Any, Final

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobyard.contracts.codec import Undecodable, decode_intake
from jobyard.contracts.rules import RULES

pytestmark = pytest.mark.timeout(900)
ALLOWED: Final = ("JY", "22")
"""Jobyard's own; and Postgres' for a value that its type cannot hold. 54001, for JSON that cannot even be read for its depth, is left out: it depends on
max_stack_depth."""
ALWAYS = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def examples(test: Any) -> Any:
    return test if settings.get_current_profile_name() == "long" else ALWAYS(test)


TEXTS = (
    st.none()
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
    | st.sampled_from(
        [
            "",
            "k",
            "default",
            "high",
            "x" * 10_000,
            "ü" * 300,
            "\x7f",
            "\u202e",
            "%_\\",
            "'; drop table jobs; --",
            "succeeded",
            "lane add",
            "{}",
            "$1",
        ]
    )
)
JSONS = (
    st.none()
    | st.sampled_from(
        [
            "null",
            "{}",
            "[]",
            "0",
            '"x"',
            "true",
            "1e400",
            "-1e-400",
            "1e131071",
            '{"a":1e131071}',
            "[" * 900 + "]" * 900,
            '{"a":' * 900 + "1" + "}" * 900,
            '{"base_s":1e-400}',
            '{"base_s":1e400}',
            '{"jitter":-0.0}',
            '{"a":"b"}',
            '{"a":null}',
            '{"":""}',
            "[[],[[]],{}]",
            '[{"kind":"k"},5]',
            '{"minutes":3}',
            '["' + "x" * 100_000 + '"]',
            '{"a":1,"a":"b"}',
            "[null]",
            "[{}]",
            '[{"kind":"k","args":null}]',
        ]
    )
    | st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from(["", "k", "ü", "\u2028"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["kind", "args", "id", "size", "retry", "tags", "a", ""]), inner, max_size=4)
        ),
        max_leaves=6,
    ).map(json.dumps)
)
MOMENTS = st.none() | st.sampled_from(
    [
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00+00 BC",
        "294276-12-31 23:59:59.999999+00",
        "1970-01-01 00:00:00+00",
        "1969-12-31 23:59:59.999999+00",
        "2199-12-31 23:59:59.999999+00",
        "2200-01-01 00:00:00+00",
        "10889-08-02 05:31:50.655+00",
        "10889-08-02 05:31:50.656+00",
        "2026-06-30 23:59:60+00",
        "2026-01-01 24:00:00+00",
        "epoch",
        "now",
        "0001-01-01 00:00:00+15:59",
    ]
)
IDS = (
    st.none()
    | st.uuids().map(str)
    | st.sampled_from(
        ["0" * 8 + "-0000" * 3 + "-" + "0" * 12, "ffffffff-ffff-ffff-ffff-ffffffffffff", "01890000-0000-7000-8000-000000000000"]
    )
)
FLOATS = (
    st.none() | st.floats().map(str) | st.sampled_from(["NaN", "infinity", "-infinity", "-0", "0", "5e-324", "1e-300", "1e12", "1.7e308"])
)
WHOLE = st.none() | st.sampled_from([0, 1, -1, 1000, 1001, 32_767, 32_768, 2**31 - 1, -(2**31)]).map(str)
BIG = st.none() | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]).map(str)
STATES = st.none() | st.sampled_from(
    ["pending", "scheduled", "blocked", "retrying", "placed", "running", "succeeded", "failed", "cancelled", "expired", "refused"]
)
OF: Final = {
    "text": TEXTS,
    "jsonb": JSONS,
    "timestamp with time zone": MOMENTS,
    "uuid": IDS,
    "double precision": FLOATS,
    "integer": WHOLE,
    "bigint": BIG,
    "jobyard.job_state": STATES,
}
FUNCTIONS: Final = (
    "submit",
    "submit_many",
    "cancel",
    "retry",
    "reschedule",
    "command_answer",
    "operate",
    "find_jobs",
    "id_floor",
    "id_time",
    "uuidv7",
)
Session = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def session(database_url: str) -> Generator[Session]:
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into jobyard.kinds (kind, size_arg) values ('transcribe', 'minutes')")
        connection.commit()
        yield connection
        connection.rollback()


def state_of(session: Session, statement: str, values: list[Any]) -> tuple[str, str]:
    """SQLSTATE and message of a call that is undone again; 00000 if it went well."""
    try:
        session.execute(statement.encode(), values).fetchall()
    except psycopg.Error as error:
        return error.sqlstate or "none", f"{error.diag.message_primary} ({error.diag.message_hint})"
    finally:
        session.rollback()
    return "00000", ""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_value_makes_a_public_function_fail_otherwise_than_is_documented(function: str, session: Session) -> None:
    row = session.execute(
        "select p.proargnames[:p.pronargs], array(select format_type(t, null) from unnest(p.proargtypes::oid[]) with ordinality u(t, n) order by n)"
        " from pg_proc p where p.pronamespace = 'jobyard'::regnamespace and p.proname = %s",
        [function],
    ).fetchone()
    session.rollback()
    assert row is not None
    parameters = dict(zip(*row, strict=True))
    unlike: list[str] = []

    @examples
    @given(
        st.fixed_dictionaries(
            {}, optional={name: OF[kind.removeprefix("jobyard.") if kind not in OF else kind] for name, kind in parameters.items()}
        )
    )
    def call(values: dict[str, Any]) -> None:
        if function not in ("submit", "find_jobs", "uuidv7", "operate", "cancel", "retry", "reschedule") and len(values) < len(parameters):
            return
        given_ = ", ".join(f'"{name}" => %s::text::{parameters[name]}' for name in values)
        begun = time.monotonic()
        state, message = state_of(session, f"select x::text from jobyard.{function}({given_}) x", list(values.values()))
        if state == "42883" and len(values) < len(parameters):
            return  # a parameter that must be given was not
        if state != "00000" and not state.startswith(ALLOWED):
            unlike.append(f"{values}: {state} {message}")
        assert state == "00000" or state.startswith(ALLOWED), (values, state, message)
        assert time.monotonic() - begun < 10

    call()
    assert unlike == []


NUMBERS = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "-0.0",
        "0.5",
        "1000",
        "1001",
        "32767",
        "32768",
        "1e12",
        "1.0000000000001e12",
        "31622400",
        "31622400.0000000001",
        "31622401",
        "1e-300",
        "9e-301",
        "1e308",
        "9e307",
        "1e400",
        "1e-400",
        "1e-1000",
        "1e-1001",
        "0e-1001",
        "9" * 308,
        "9" * 309,
        "18446744073709551616",
        "0.30000000000000004",
        "1.00000000000000001",
        "true",
        "null",
        '"1"',
        "[]",
        "1" + "0" * 30,
    ]
)
STRINGS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    [
        "",
        "k",
        "high",
        "x" * 200,
        "x" * 201,
        "ü" * 200,
        "a b",
        "\x7f",
        "\x80",
        "\u2028",
        "01890000-0000-7000-8000-000000000000",
        "01890000-0000-4000-8000-000000000000",
        "2026-01-01T00:00:00Z",
        "2026-01-01t00:00:00.123456789z",
        "2026-02-29T00:00:00Z",
        "2199-12-31T23:59:59.9999999Z",
        "2026-01-01T00:00:00+15:59",
        "2026-01-01T00:00:00-16:00",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00+0530",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00.1234567890Z",
        "2026-01-01T00:00:00+05",
        "0000-01-01T00:00:00Z",
        "2026-01-01T00:00:00-00:00",
        "1970-01-01T00:30:00+01:00",
        "1969-12-31T23:30:00-01:00",
        "2026-1-1T0:0:0Z",
        "２０26-01-01T00:00:00Z",
    ]
)
ANY = NUMBERS | STRINGS.map(json.dumps) | st.sampled_from(["{}", "[]", '{"a":"b"}', '{"a":1}', "[1]"])
FIELDS: Final = {
    "kind": STRINGS.map(json.dumps),
    "args": st.builds('{{"a":{},"b":[{}]}}'.format, NUMBERS, ANY) | ANY,
    "priority": STRINGS.map(json.dumps) | NUMBERS,
    "size": NUMBERS,
    "run_at": STRINGS.map(json.dumps),
    "timeout_s": NUMBERS,
    "max_attempts": NUMBERS,
    "version": NUMBERS,
    "retry": st.dictionaries(st.sampled_from(["base_s", "cap_s", "jitter"]), NUMBERS, max_size=3).map(
        lambda d: "{" + ",".join(f'"{k}":{v}' for k, v in d.items()) + "}"
    )
    | ANY,
    "submitter": STRINGS.map(json.dumps),
    "tags": st.dictionaries(STRINGS, STRINGS, max_size=3).map(json.dumps) | ANY,
    "parent": STRINGS.map(json.dumps),
    "traceparent": STRINGS.map(json.dumps),
    "more": ANY,
}
AS_DOUBLE: Final = ("max_attempts", "version")


@examples
@given(st.data())
def test_sql_judges_a_job_as_python_does(session: Session, data: st.DataObject) -> None:
    """By submit_many, from the same text. What jsonb cannot know is left out: how a number was written (1e3 is 1000 there)."""
    names = data.draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=2, unique=True))
    fields = {"kind": '"k"'} | {name: data.draw(FIELDS[name]) for name in names}
    if any(("e" in fields.get(name, "") and fields[name][:1] not in "tn") for name in AS_DOUBLE):
        return
    job = "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"
    try:
        found = decode_intake(f'{{"v":1,"jobs":[{job}]}}'.encode(), "default", time.time(), RULES)
        taken = len(found.jobs) == 1
        why = [one.problem.message for one in found.refused] + [reason for reason, _ in found.bad]
    except Undecodable as error:
        taken, why = False, [error.reason]
    state, message = state_of(session, "select jobyard.submit_many(%s::text::jsonb)", [f"[{job}]"])
    assert (state == "00000") == taken, (job, state, message, why)
    assert state == "00000" or state.startswith(ALLOWED), (job, state, message)
