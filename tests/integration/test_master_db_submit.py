"""submit and submit_many: what they take, what they refuse, and that both are as strict as the Python side."""

import itertools
import json
import math
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import psycopg
import pytest
from inputs.bad_input import BAD, GOOD, Case
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from jobyard.contracts.codec import decode_intake
from jobyard.contracts.ids import id_floor, new_job_id
from jobyard.contracts.rules import RULES

Session = Connection[TupleRow]

TYPES = {
    "kind": "text",
    "args": "jsonb",
    "id": "uuid",
    "lane": "text",
    "priority": "text",
    "size": "float8",
    "run_at": "timestamptz",
    "timeout_s": "float8",
    "max_attempts": "int",
    "retry": "jsonb",
    "version": "int",
    "submitter": "text",
    "tags": "jsonb",
    "parent": "uuid",
    "traceparent": "text",
}


@pytest.fixture
def session(database_url: str) -> Generator[Session]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def submit(session: Session, **job: Any) -> str:
    given = ", ".join(f"{name} => %({name})s::{TYPES[name]}" for name in job)
    values = {name: Jsonb(value) if TYPES[name] == "jsonb" else value for name, value in job.items()}
    row = session.execute(f"select jobyard.submit({given})::text".encode(), values).fetchone()
    assert row is not None
    return str(row[0])


def submit_many(session: Session, jobs: object) -> list[str]:
    return [row[0] for row in session.execute("select u::text from jobyard.submit_many(%s) u", [Jsonb(jobs)]).fetchall()]


def counts(session: Session) -> tuple[Any, ...]:
    row = session.execute("select (select count(*) from jobyard.jobs), (select count(*) from jobyard.pending)").fetchone()
    assert row is not None
    return row


def submittable(case: Case) -> bool:
    """Whether the wrong value can be given to a typed parameter at all."""
    value = case.job.get(case.field)
    match TYPES.get(case.field):
        case "text":
            return isinstance(value, str)
        case "float8":
            return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308
        case "int":
            return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31
        case "jsonb":
            return True
        case "uuid":
            return isinstance(value, str) and len(value) == 36
        case "timestamptz":
            return (
                isinstance(value, str)
                and value[:1].isdigit()
                and value[-1] == "Z"
                and "24:00" not in value
                and len(value) == 20
                and "02-30" not in value
                and "02-29" not in value
                and value[16:] != ":60Z"
                and value[5:7] != "13"
            )
        case _:
            return False


def difference(session: Session, case: Case, place: str, call: Callable[[], object]) -> str | None:
    """How the refusal of a case differs from what it should be; None: it does not."""
    try:
        call()
    except psycopg.Error as error:
        message, hint = error.diag.message_primary or "", error.diag.message_hint
        right = error.sqlstate == case.code and message.startswith(place) and len(message) < 400 and hint
        unsaid = case.unsaid(message)
        return None if right and not unsaid and counts(session) == (0, 0) else f"{case.name}: {unsaid} {error.sqlstate} {message} ({hint})"
    return f"{case.name} was taken"


def test_submit_many_refuses_all_for_one_that_is_wrong(session: Session) -> None:
    found = [difference(session, case, "job 2: ", partial(submit_many, session, [{"kind": "good"}, case.written])) for case in BAD]
    assert [difference for difference in found if difference] == []
    assert len(found) > 160


def test_submit_refuses_what_submit_many_refuses(session: Session) -> None:
    found = [difference(session, case, "", partial(submit, session, **{"kind": "k", **case.written})) for case in BAD if submittable(case)]
    assert [difference for difference in found if difference] == []
    assert len(found) > 80


def test_the_python_side_refuses_the_same_for_the_same_reason() -> None:
    found: list[str] = []
    for case in BAD:
        raw = json.dumps({"id": new_job_id()} | case.written)
        intake = decode_intake(b'{"v": 1, "jobs": [' + raw.encode() + b"]}", "default", time.time(), RULES)
        if intake.jobs:
            found.append(f"{case.name} was taken")
        problems = [(one.problem.code, one.problem.message) for one in intake.refused] or [(case.code, reason) for reason, _ in intake.bad]
        found += [f"{case.name}: {code} {text}" for code, text in problems if code != case.code or case.unsaid(text)]
        if len(problems) != 1:
            found.append(f"{case.name}: {len(problems)} refusals")
    assert found == []


def test_the_python_side_takes_the_same() -> None:
    for job in GOOD:
        intake = decode_intake(b'{"v": 1, "jobs": [' + json.dumps(job).encode() + b"]}", "default", time.time(), RULES)
        assert (len(intake.jobs), intake.refused, intake.bad) == (1, [], []), job


def test_numbers_that_are_none_are_refused(session: Session) -> None:
    for field, value in itertools.product(("size", "timeout_s"), (math.nan, math.inf, -math.inf)):
        with pytest.raises(psycopg.Error, match=field) as raised:
            submit(session, kind="k", **{field: value})
        assert raised.value.sqlstate == "JY002"


def test_a_moment_that_never_comes_is_refused(session: Session) -> None:
    for value in ("infinity", "-infinity"):
        with pytest.raises(psycopg.Error, match="run_at"):
            submit(session, kind="k", run_at=value)


def test_good_jobs_are_taken_by_both_ways(session: Session) -> None:
    session.execute("insert into jobyard.submitters values ('postgres', 'x')")
    good = GOOD
    ids = submit_many(session, good)
    assert len(set(ids)) == len(good)
    for job in good:
        submit(session, **job)
    assert counts(session) == (2 * len(good), 2 * len(good))


def test_what_is_left_out_has_the_general_defaults(session: Session) -> None:
    ids = [submit(session, kind="new"), *submit_many(session, [{"kind": "newer"}])]
    rows = session.execute(
        "select j.args::text, j.lane_id, j.priority, j.size, j.max_attempts, j.version, j.timeout_s, j.retry, j.tags, j.via::text, j.submitter = session_user, "
        "j.run_at = j.created_at, k.declared from jobyard.jobs j join jobyard.kinds k using (kind_id) where j.id = any (%s::uuid[])",
        [ids],
    ).fetchall()
    assert rows == [("{}", 1, 2, 1.0, 5, 1, None, None, None, "s", True, True, False)] * 2


def test_what_is_left_out_comes_from_the_kind(session: Session) -> None:
    session.execute("insert into jobyard.lanes (lane) values ('gpu')")
    session.execute(
        "insert into jobyard.kinds (kind, version, lane_id, priority, size_arg, size, timeout_s, max_attempts, retry, tags) "
        "values ('made', 3, 2, 0, 'film.minutes', 7, 60, 2, '{\"base_s\": 1}', '{\"a\": \"b\"}')"
    )
    args = {"film": {"minutes": 12.5}}
    ids = [
        submit(session, kind="made", args=args, tags={}),
        *submit_many(
            session, [{"kind": "made", "args": args, "tags": {}}, {"kind": "made", "size": 3, "max_attempts": 1, "tags": {"c": "d"}}]
        ),
    ]
    rows = session.execute(
        "select lane_id, priority, size, max_attempts, version, timeout_s, retry, tags from jobyard.jobs where id = any (%s::uuid[]) order by size desc",
        [ids],
    ).fetchall()
    assert rows == [(2, 0, 12.5, 2, 3, 60.0, {"base_s": 1}, {"a": "b"})] * 2 + [(2, 0, 3.0, 1, 3, 60.0, {"base_s": 1}, {"c": "d"})]


def test_an_argument_that_is_no_size_is_refused_by_name(session: Session) -> None:
    session.execute("insert into jobyard.kinds (kind, size_arg) values ('made', 'film.minutes')")
    sizes: list[Any] = ["5", 0, -1, 1e13, True, None, [1], {"minutes": 1}]
    wrong: list[Any] = [{}, {"film": 5}, {"film": []}, *[{"film": {"minutes": size}} for size in sizes]]
    for args in wrong:
        with pytest.raises(psycopg.Error, match=r'^argument "film.minutes" must be a number above 0.*made job') as one:
            submit(session, kind="made", args=args)
        with pytest.raises(psycopg.Error, match=r'^job 2: argument "film.minutes" must') as many:
            submit_many(session, [{"kind": "k"}, {"kind": "made", "args": args}])
        assert one.value.sqlstate == many.value.sqlstate == "JY002"


def test_the_same_id_is_one_job_and_the_first_content_counts(session: Session) -> None:
    job_id = new_job_id()
    assert submit(session, kind="k", id=job_id, args={"a": 1}) == job_id
    assert submit(session, kind="k", id=job_id, args={"a": 2}) == job_id
    assert submit_many(session, [{"kind": "k", "id": job_id, "args": {"a": 3}}, {"kind": "k", "id": job_id}]) == [job_id, job_id]
    assert session.execute("select args::text from jobyard.jobs").fetchall() == [('{"a": 1}',)]
    assert counts(session) == (1, 1)


def test_ids_come_back_in_order(session: Session) -> None:
    given = [new_job_id() for _ in range(300)]
    jobs = [{"kind": f"k{n % 7}", "id": job_id} if n % 3 else {"kind": "other"} for n, job_id in enumerate(given)]
    ids = submit_many(session, jobs)
    assert [n for n, (job_id, back) in enumerate(zip(given, ids, strict=True)) if n % 3 and job_id != back] == []
    assert counts(session) == (300, 300)


def test_L19_ids_of_the_last_seven_days_are_taken_and_have_their_partition(session: Session) -> None:
    now = time.time()
    for age in (0, 1, 3.5, 6.99):
        at = id_floor(now - age * 86_400)
        submit(session, kind="k", id=f"{at[:14]}7{at[15:19]}8{at[20:]}")
    ahead = id_floor(now + 3_500)
    submit(session, kind="k", id=f"{ahead[:14]}7{ahead[15:19]}8{ahead[20:]}")
    assert counts(session) == (5, 5)
    for wrong in (now - 7.01 * 86_400, now + 3_700):
        at = id_floor(wrong)
        with pytest.raises(psycopg.Error) as raised:
            submit(session, kind="k", id=f"{at[:14]}7{at[15:19]}8{at[20:]}")
        assert raised.value.sqlstate == "JY005"


def test_a_job_goes_with_the_callers_transaction(session: Session) -> None:
    with session.transaction() as transaction:
        submit(session, kind="k")
        submit_many(session, [{"kind": "k"}])
        raise psycopg.Rollback(transaction)
    assert counts(session) == (0, 0)


def test_many_must_be_an_array_of_objects(session: Session) -> None:
    wrong: list[tuple[object, str]] = [
        ({"kind": "k"}, "jobs"),
        ("x", "jobs"),
        ([{"kind": "k"}, 5], "job 2: "),
        ([[]], "job 1: "),
        ([None], "job 1: "),
    ]
    for jobs, named in wrong:
        with pytest.raises(psycopg.Error, match=named) as raised:
            submit_many(session, jobs)
        assert raised.value.sqlstate == "JY002"
    assert submit_many(session, []) == []


def test_an_unknown_parameter_of_submit_is_an_error(session: Session) -> None:
    with pytest.raises(psycopg.errors.UndefinedFunction):
        session.execute("select jobyard.submit('k', unique_key => 'x')")


def heard(session: Session) -> list[str]:
    session.execute("select 1")
    return [notice.payload for notice in session.notifies(timeout=0.2)]


def test_L25_submit_tells_a_leader_that_sleeps_and_only_that(session: Session, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as leader:
        leader.execute("listen jobyard")
        submit(session, kind="k")
        assert heard(leader) == ["1"]
        submit_many(session, [{"kind": "k"}, {"kind": "k"}])
        assert heard(leader) == ["1"]
        submit(session, kind="k", run_at="2199-01-01T00:00:00Z")
        submit_many(session, [{"kind": "k", "run_at": "2199-01-01T00:00:00Z"}])
        assert heard(leader) == []
        leader.execute("select pg_advisory_lock(1247, 1)")
        submit(session, kind="k")
        submit_many(session, [{"kind": "k"}])
        assert heard(leader) == []
        leader.execute("select pg_advisory_unlock(1247, 1)")
        submit(session, kind="k")
        assert heard(leader) == ["1"]
    assert session.execute(
        "select count(*) from pg_locks l join pg_database d on d.oid = l.database where locktype = 'advisory' and datname = current_database()"
    ).fetchone() == (0,)


def test_pending_knows_the_transaction_that_put_the_row(session: Session) -> None:
    with session.transaction():
        submit(session, kind="k")
        submit_many(session, [{"kind": "k"}])
        assert session.execute(
            "select distinct xid = pg_current_xact_id(), why::text, attempt, used, interruptions from jobyard.pending"
        ).fetchall() == [(True, "n", 0, 0, 0)]
