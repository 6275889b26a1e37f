"""Whatever bytes come in as jobs: a refusal in plain words, or something that can be stored and comes back as it was. Never anything else.

Longer: `pytest --hypothesis-profile=long tests/unit/contracts/test_job_decoders_fuzzed.py`.
"""

import json
import time
from typing import Any, cast

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobyard.contracts import storable
from jobyard.contracts.codec import Intake, Undecodable, decode_intake, encode_intake
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import Kind, Problem, problem_of, resolve, size_in
from jobyard.contracts.rules import RULES

NOW = 1_800_000_000.0
ID = "01a31b6f-e800-7000-8000-000000000001"
WHOLE: dict[str, Any] = {
    "kind": "k", "args": {"a": [1, 2.5, "x", None, True, {"b": {}}]}, "id": ID, "lane": "default", "priority": "high", "size": 2.5,
    "run_at": "2030-01-31T08:00:00.25+01:00", "timeout_s": 60, "max_attempts": 3, "retry": {"backoff": "linear", "base_s": 1, "cap_s": 2, "jitter": 0.5},
    "version": 2, "submitter": "shop", "tags": {"a": "b"}, "parent": ID, "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}  # fmt: skip
MESSAGE = json.dumps({"v": 1, "jobs": [WHOLE, {"kind": "k"}]}).encode()
NASTY = st.sampled_from(
    [
        "1e400", "-1e400", "1e-99999", "-0.0", "1E5", "0.1", "9" * 400, "9" * 5000, "18446744073709551616", "NaN", "Infinity", "-Infinity", "null", "true",
        '""', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"x' + "y" * 10_000 + '"', "[" * 300 + "]" * 300, "[" * 10_000 + "]" * 10_000, "{}", '{"a":{}}',
        "[1]", '"1970-01-01T00:00:00Z"', '"9999-12-31T23:59:60Z"', "01", "1.", "-", "'x'", "/**/1", "\x01", '"\x01"', "\ufeff", "1e308", "3.0", "1e0",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([2**70, 10**400, 0, -1, 1e12, "high", ID]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ALWAYS = settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def examples(test: Any) -> Any:
    """A fixed number of fixed examples, unless another profile was asked for."""
    return test if settings.get_current_profile_name() == "long" else ALWAYS(test)


def check(data: bytes) -> Intake | None:
    """Decode a message; all that must hold of whatever it is."""
    begun = time.monotonic()
    try:
        found: Intake | None = decode_intake(data, "default", NOW, RULES)
    except Undecodable as error:
        found, refused = None, error.reason
    else:
        refused = ""
    if refused:
        assert refused.isprintable(), refused
        assert len(refused) < 900
        return None
    assert found is not None
    assert time.monotonic() - begun < 5
    for job in found.jobs:
        assert storable.problem_of_json(bytes(job.args), RULES.max_args_bytes) is None
        assert json.loads(bytes(job.args)) == json.loads(bytes(job.args).decode())
        for text in (job.kind, job.submitter, job.traceparent, *(job.tags or {}), *(job.tags or {}).values()):
            assert text is None or storable.text(text, 4000) == text
        again = decode_intake(encode_intake([job]), "default", NOW, RULES)
        assert (again.jobs, again.refused, again.bad) == ([job], [], [])
        resolved = resolve(job, Kind(), NOW, "key")
        assert not isinstance(resolved, Problem)
        assert 0 < resolved.size <= 1e12
        assert resolved.run_at >= NOW
        size_in(job.args, "a")
    for one in found.refused:
        assert one.problem.code.startswith("JY0")
        assert one.problem.message.isprintable(), one.problem.message
        assert len(one.problem.message) < 900
        assert one.problem.field.isprintable()
        assert storable.text(one.kind, 4000) == one.kind
        assert one.submitter is None or storable.text(one.submitter, 4000) == one.submitter
    assert all(reason.isprintable() and len(reason) < 900 for reason, _ in found.bad)
    return found


@examples
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    check(data)
    check(b'{"v":1,"jobs":[{"kind":"k","id":"' + ID.encode() + b'","args":{"a":' + data + b"}}]}")


@examples
@given(st.data())
def test_a_good_message_flipped_cut_and_spliced(data: st.DataObject) -> None:
    whole = bytearray(MESSAGE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(whole) - 1)))
        to = data.draw(st.integers(at, len(whole)))
        match data.draw(st.sampled_from(["flip", "cut", "double", "move", "nasty"])):
            case "flip" if whole:
                whole[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del whole[at:to]
            case "double":
                whole[at:at] = whole[at:to]
            case "move":
                whole = whole[to:] + whole[:at]
            case _:
                whole[at:to] = data.draw(NASTY).encode()
    check(bytes(whole))


@examples
@given(st.sampled_from(sorted(WHOLE)), NASTY | VALUES.map(json.dumps))
def test_another_value_in_any_field_concerns_its_job_alone(field: str, value: str) -> None:
    fields = [f"{json.dumps(name)}:{value if name == field else json.dumps(own)}" for name, own in WHOLE.items()]
    good = '{"kind":"k","args":{}}'
    found = check(f'{{"v":1,"jobs":[{good},{{{",".join(fields)}}},{good}]}}'.encode(errors="surrogatepass"))
    if found is not None:  # else its brackets or quotes have swallowed the rest
        assert len(found.jobs) >= 2
        assert len(found.jobs) + len(found.refused) + len(found.bad) == 3


@examples
@given(st.dictionaries(st.sampled_from([*WHOLE, "more", ""]), VALUES, max_size=8), VALUES)
def test_any_json_as_a_job_and_around_it(job: dict[str, Any], other: Any) -> None:
    raw = json.dumps({"kind": "k", **job})
    check(f'{{"v":1,"jobs":[{raw}]}}'.encode())
    check(json.dumps({"v": 1, "jobs": other}).encode())
    check(json.dumps(other).encode())


@examples
@given(st.lists(st.sampled_from(["[", "]", "{", "}", '"', "\\", ",", ":", "1", "e5", "x", '"a":', "{}"]), max_size=60))
def test_depth_and_far_numbers_are_found_as_a_reader_finds_them(tokens: list[str]) -> None:
    raw = "".join(tokens).encode()
    check(b'{"v":1,"jobs":[' + raw + b"]}")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return
    for levels in range(8):
        assert (storable.nesting_exceeds(raw, levels)) == (_depth(value) > levels)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    return 1 + max((_depth(one) for one in cast("list[object]", value)), default=0) if isinstance(value, list) else 0


@examples
@given(st.integers(-(10**320), 10**320) | st.floats(allow_nan=False, allow_infinity=False), st.integers(-1100, 330), st.integers(0, 5))
def test_a_number_within_the_rule_is_finite_and_exact(mantissa: float, exponent: int, zeros: int) -> None:
    for text in (
        repr(mantissa),
        f"{mantissa!r}{'0' * zeros if isinstance(mantissa, int) and mantissa else ''}e{exponent}" if "e" not in repr(mantissa) else "1",
    ):
        raw = f'{{"a":{text}}}'.encode()
        if storable.far_number(raw) is None:
            (value,) = msgspec.json.decode(raw).values()
            assert value == (int(text) if text.lstrip("-").isdigit() else float(text))
            assert problem_of(decode_one(raw), RULES) is None


def decode_one(args: bytes) -> Any:
    (job,) = decode_intake(b'{"v":1,"jobs":[{"kind":"k","args":' + args + b"}]}", "default", NOW, RULES).jobs
    return job


def test_ids_of_now_are_taken_and_what_is_accepted_is_bounded_in_time() -> None:
    for raw in (
        b'"' + b"\\\\" * 500_000 + b'"',
        b"[" + b"9" * 299 + (b"," + b"9" * 299) * 3000 + b"]",
        b'["1e500"' + b',"1e500"' * 100_000 + b"]",
    ):
        begun = time.monotonic()
        found = decode_intake(
            b'{"v":1,"jobs":[{"kind":"k","id":"%s","args":{"a":%s}}]}' % (new_job_id().encode(), raw), "default", time.time(), RULES
        )
        assert len(found.jobs) == 1
        assert time.monotonic() - begun < 5
