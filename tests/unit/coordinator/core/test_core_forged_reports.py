"""Whatever can be decoded as reports is heard, decided and made into rows without an error: the rest goes to quarantine as it is read."""

import math
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_world import T0, Told, World, of

from jobyard.contracts.codec import Undecodable, decode_bundle, decode_control, decode_reports, encode
from jobyard.contracts.control import HIGHEST_EPOCH, Welcome
from jobyard.contracts.job import LONGEST_TIMEOUT_S
from jobyard.contracts.moments import LATEST
from jobyard.contracts.reports import Finished
from jobyard.contracts.rules import RULES
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core import events as happened
from jobyard.coordinator.core.batch import ReportsRead
from jobyard.coordinator.core.events import Event
from jobyard.master_db import rows
from jobyard.master_db.journal import Journal
from jobyard.master_db.kind_numbers import KindNumbers

_INTS = (0, 1, 2, 3, 4, 5, -1, 32_767, 32_768, 100_000, 2**31, 2**53, 2**62 - 1, 2**62, 2**63 - 1, 2**64, 10**30)
_FLOATS = (
    0,
    1,
    -1,
    -0.0,
    5e-324,
    1e-300,
    1e-9,
    0.5,
    T0,
    T0 + 1,
    T0 - 86_401,
    1e12,
    1e18,
    LATEST - 1e-7,
    LATEST - 1,
    LATEST,
    1e300,
    1.79e308,
)
_TEXTS = (
    "",
    "k",
    "l",
    "a b",
    "\x00",
    "k\n",
    "ü\\\t\r\n",
    "x" * 201,
    "x" * 1_001,
    "\U0001f600" * 300,
    "018f0000-0000-7000-8000-000000000001",
    "x" * 101,
)
_RAW = (b"null", b"1", b'"\\u0000"', b'{"a":1e99999}', b"[" * 300 + b"]" * 300, b'"\\ud800\\udc00"')


def mostly(good: tuple[object, ...], wild: tuple[object, ...]) -> st.SearchStrategy[object]:
    """What passes, as a rule; else anything."""
    return st.integers(0, 11).flatmap(lambda n: st.sampled_from(wild if n == 0 else good))


ints = st.sampled_from(_INTS)
fences = mostly((1, 2, 3, 4, 5, 0, 2**62 - 1), _INTS)
smalls = mostly((1, 2, 3, 32_767), _INTS)
epochs = mostly((0, 1, 2, 2**40, 2**62 - 1), _INTS)
slots = mostly((1, 2, 10, 100_000), _INTS)
others = mostly((0, 1, 10_000_000), _INTS)
capacities = mostly((5e-324, 1e-300, 1e-9, 1, 100, 1e12), _FLOATS)
sizes = mostly((0, 5e-324, 1, 1e12, 1e20), _FLOATS)
moments = mostly((0, 5e-324, T0, T0 + 1, T0 + 5, T0 - 86_401, T0 + 86_500, LATEST - 1e-7, LATEST - 1), _FLOATS)
stamps = mostly((0, 5e-324, 1, 1e12), _FLOATS)
positive = mostly((0, 5e-324, 1, 1e12, 1e300, 1.79e308), _FLOATS)
kinds_known = mostly(("k", "l", "!", "x" * 200), _TEXTS)
words = mostly(("", "\x00", "h", "x" * 1_000, "ü\\\t\r\n"), _TEXTS)
floats = st.sampled_from(_FLOATS)
texts = st.sampled_from(_TEXTS)
names = st.sampled_from(("j0", "j1", "j2", "j3", "j4"))
Json = dict[str, object]


def world() -> World:
    """An agent that holds three jobs: a plain one, a careful one, and one with the longest time-out; two more were lost with an agent before it."""
    made = World()
    made.join("b")
    made.job("j3", max_attempts=2)
    made.job("j4", kind="k")
    made.tick()
    made.silent_until(16)
    made.join("a")
    made.job("j0")
    made.job("j1", max_attempts=1)
    made.job("j2")
    made.tick()
    for row in made.tables.bundles.values():
        for job in row.bundle.jobs:
            job.timeout_s = LONGEST_TIMEOUT_S
    return made


@st.composite
def spots(draw: st.DrawFn) -> tuple[object, object, object]:
    """Fence, job and attempt: mostly one that there is, or was."""
    if draw(st.integers(0, 3)):
        number = draw(st.integers(1, 5))
        return draw(st.sampled_from((1, 2, 3, 4, 5, 6, 7))), f"018f0000-0000-7000-8000-{number:012x}", draw(st.sampled_from((1, 2)))
    return draw(fences), draw(texts), draw(smalls)


@st.composite
def ends(draw: st.DrawFn) -> list[object]:
    _, job, attempt = draw(spots())
    error = draw(st.one_of(st.none(), st.tuples(words, texts, texts)))
    return [
        job,
        attempt,
        draw(st.sampled_from([outcome.value for outcome in Outcome] * 3 + ["none"])),
        draw(st.one_of(st.none(), moments)),
        draw(moments),
        msgspec.Raw(draw(st.sampled_from(_RAW))),
        error,
        draw(st.booleans()),
        draw(st.one_of(st.none(), positive)),
    ]


@st.composite
def reports(draw: st.DrawFn) -> Json:
    fence, job, attempt = draw(spots())
    match draw(st.integers(0, 6)):
        case 0:
            return {
                "type": "hello",
                "stamp": draw(stamps),
                "kinds": dict(draw(st.lists(st.tuples(kinds_known, smalls), max_size=3))),
                "capacity": draw(capacities),
                "slots": draw(slots),
                "host": draw(words),
            }
        case 1:
            held = [list(draw(spots()))[:2] for _ in range(draw(st.integers(0, 3)))]
            return {
                "type": "heartbeat",
                "stamp": draw(stamps),
                "epoch": draw(epochs),
                "suspended": draw(st.booleans()),
                "draining": draw(st.booleans()),
                "capacity": draw(capacities),
                "slots": draw(slots),
                "others": [draw(others), draw(sizes)],
                "held": held if draw(st.booleans()) else None,
            }
        case 2:
            return {"type": "started", "fence": fence, "job": job, "attempt": attempt, "at": draw(moments)}
        case 3:
            total = draw(st.one_of(st.none(), floats))
            return {
                "type": "progress",
                "fence": fence,
                "job": job,
                "attempt": attempt,
                "done": draw(floats),
                "total": total,
                "message": draw(texts),
            }
        case 4:
            return {"type": "finished", "fence": fence, "ends": draw(st.lists(ends(), min_size=1, max_size=2)), "busy_s": draw(positive)}
        case 5:
            return {"type": "released", "fence": fence, "jobs": [[job, attempt]] * draw(st.integers(0, 2)), "reason": draw(texts)}
        case 6 if fence == 1:
            return {"type": "goodbye"}
        case _:
            return {"type": "heartbeat", "stamp": draw(stamps), "capacity": draw(capacities), "slots": draw(slots)}


def message(of: Told, seq: object, said: list[Json]) -> bytes:
    return msgspec.json.encode({"v": 1, "agent": of.name, "incarnation": of.incarnation, "seq": seq, "reports": said})


def numbers(value: object) -> Iterator[float]:
    """All numbers in what a statement gets."""
    match value:
        case bool() | str() | bytes() | None:
            return
        case int() | float():
            yield value
        case dict():
            for one in value.values():  # pyright: ignore[reportUnknownVariableType] - of a statement's parameters
                yield from numbers(one)  # pyright: ignore[reportUnknownArgumentType] - the same
        case list() | tuple():
            for one in value:  # pyright: ignore[reportUnknownVariableType] - of a statement's parameters
                yield from numbers(one)  # pyright: ignore[reportUnknownArgumentType] - the same
        case _:
            raise AssertionError(f"{value!r} is no parameter of a statement")


def write(events: list[Event]) -> None:
    """Make the text of all rows, and look at what Postgres would refuse: NUL, lines with another number of columns, numbers too large."""
    kinds = KindNumbers()
    kinds.ids.update({"k": 1, "l": 2, "nobody": 3})
    journal = Journal(1, kinds)
    journal.write(events)
    for table, sheet in journal.sheets.items():
        for line in sheet.lines():
            assert "\x00" not in line
            assert len(rows.values(line)) == len(table.columns), (table.name, line)
    for statement, parameters in journal.calls():
        for number in numbers(parameters):
            assert math.isfinite(number), statement
            assert not isinstance(number, int) or -(2**63) <= number < 2**63, statement


@given(said=st.lists(st.tuples(st.booleans(), fences, st.lists(reports(), min_size=1, max_size=4)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_L18_no_report_that_can_be_decoded_ever_fails_a_tick(said: list[tuple[bool, object, list[Json]]]) -> None:
    made = world()
    stranger = made.new_incarnation("c")
    for at, (known, seq, what) in enumerate(said):
        for one in what:  # in messages of their own, too: so one that is wrong doesn't hide the others
            try:
                found = decode_reports(message(made.agents["a"] if known else stranger, seq, [one]))
            except Undecodable:
                continue
            prepared = {i: rows.prepare(report) for i, report in enumerate(found.reports) if isinstance(report, Finished)}
            made.batch.reports.append(ReportsRead(at, T0 + made.now, found, prepared))
        made.batch.buckets_ready = [(part, 0) for part in range(20, 30)]
        write(made.tick(made.now + 1.0))
        assert made.lane.outranked_by is None or made.lane.outranked_by < 2**60
    made.lead(at_least=made.lane.outranked_by or 0, fence_all=made.lane.outranked_by is not None)
    made.beat("a")
    write(made.tick(made.now + 1.0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epoch": 2**63 - 1},
        {"epoch": -1},
        {"stamp": 1e308},
        {"stamp": -1.0},
        {"others": [-1, 0.0]},
        {"others": [1, -0.5]},
        {"others": [2**40, 1.0]},
        {"others": [1, 1e30]},
        {"capacity": 0.0},
        {"capacity": 1e13},
        {"slots": 0},
        {"slots": 10**6},
        {"held": [[2**62, "j"]]},
        {"held": [[1, "j" * 101]]},
    ],
)
def test_a_heartbeat_out_of_bounds_is_no_message(wrong: Json) -> None:
    made = world()
    right: Json = {"type": "heartbeat", "stamp": 1.0, "epoch": 1, "capacity": 1.0, "slots": 1, "others": [1, 2.0], "held": [[1, "j"]]}
    assert decode_reports(message(made.agents["a"], 1, [right]))
    with pytest.raises(Undecodable):
        decode_reports(message(made.agents["a"], 1, [right | wrong]))


@pytest.mark.parametrize(
    "kinds", [{"": 1}, {"a b": 1}, {"k\n": 1}, {"k" * 201: 1}, {"k": 0}, {"k": 32_768}, {str(n): 1 for n in range(10_001)}]
)
def test_a_hello_with_kinds_that_no_handler_can_have_is_no_message(kinds: dict[str, int]) -> None:
    made = world()
    right: Json = {"type": "hello", "stamp": 1.0, "kinds": {"k": 1, "!~": 32_767}, "capacity": 1.0, "slots": 1, "host": "h"}
    assert decode_reports(message(made.agents["a"], 1, [right]))
    for wrong in ({"kinds": kinds}, {"host": "h" * 1_001}, {"stamp": 1e13}):
        with pytest.raises(Undecodable):
            decode_reports(message(made.agents["a"], 1, [right | wrong]))


def test_L14_a_report_of_what_is_no_job_id_is_forged() -> None:
    made = world()
    said: Json = {"type": "released", "fence": 99, "jobs": [["no id", 1]]}
    made.batch.reports.append(ReportsRead(7, T0, decode_reports(message(made.agents["a"], 1, [said])), {}))
    (kept,) = [event for event in made.tick() if isinstance(event, happened.Quarantined)]
    assert kept.message.offset == 7


def test_a_deadline_never_lies_beyond_what_a_table_can_hold() -> None:
    made = world()
    made.now = LATEST - T0 - 1_000.0
    made.beat("a")
    made.started("j0")
    (started,) = [event for event in made.tick() if isinstance(event, happened.Started)]
    assert started.deadline == LATEST
    write([started])
    assert made.said(Welcome)


def test_T1_a_forged_epoch_uses_no_more_up_than_a_billionth() -> None:
    made = world()
    ahead = RULES.epochs_ahead
    for far in (2**62 - 1, 2**60 - 1, 2 + ahead):
        made.beat("a", epoch=far)
        made.tick(17)
        assert made.lane.outranked_by is None
    made.beat("a", epoch=1 + ahead)
    made.tick(18)
    assert made.lane.outranked_by == 1 + ahead
    assert ahead * 10**9 < HIGHEST_EPOCH


def test_T1_the_highest_epoch_is_still_carried_by_every_message() -> None:
    made = world()
    made.beat("a")
    made.tick(17)
    made.sent.clear()
    made.lead(at_least=2**60 - 1)
    assert made.sent
    for outgoing in made.sent:
        data = encode(outgoing.body)
        assert (decode_bundle if outgoing.where == "buckets" else decode_control)(data).epoch == 2**60
    right: Json = {"type": "heartbeat", "stamp": 1.0, "epoch": 2**60, "capacity": 1.0, "slots": 1}
    assert decode_reports(message(made.agents["a"], 1, [right]))


def test_what_one_agent_says_a_thousand_times_is_answered_once() -> None:
    made = world()
    for n in range(1_000):
        made.beat("a", suspended=True, capacity=float(1 + n % 7), epoch=0)
        made.hello(made.agents["a"], stamp=float(n))
    events = made.tick(17)
    count = {kind: len(of(events, kind)) for kind in (happened.AgentChanged, happened.Welcomed, happened.Confirmed)}
    assert count == {happened.AgentChanged: 1, happened.Welcomed: 1, happened.Confirmed: 1}
    (changed,) = [event for event in events if isinstance(event, happened.AgentChanged)]
    assert changed.capacity == 1.0 + 999 % 7


def test_L12_an_inventory_leads_to_a_bounded_number_of_cancels() -> None:
    made = world()
    made.beat("a", held=[(n, "018f0000-0000-7000-8000-000000000001") for n in range(50_000)])
    assert len(of(made.tick(17), happened.CancelSent)) == made.rules.inventory_cancels


def test_L14_a_thousand_forged_ends_in_one_message_are_few_rows() -> None:
    made = world()
    said: Json = {
        "type": "finished",
        "fence": 99,
        "ends": [[f"018f0000-0000-7000-8000-{n:012x}", 1, "failed", None, 5.0] for n in range(1_000)],
    }
    made.batch.reports.append(ReportsRead(7, T0, decode_reports(message(made.agents["a"], 1, [said])), {}))
    events = made.tick(17)
    assert len(of(events, happened.Quarantined)) == 10
    (told,) = [event for event in made.tick(40) if isinstance(event, happened.Quarantined)]
    assert told.message.reason.startswith("990 more of offsets 7 to 7")
