"""docs/master-db.md against a migrated database: its SQL runs as the roles that it names, its lists of columns and parameters are complete."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

import psycopg
import pytest

from jobyard.contracts import errors
from jobyard.contracts.errors import JobyardError

PAGE: Final = (Path(__file__).parents[2] / "docs" / "master-db.md").read_text(encoding="utf-8")
BLOCKS: Final = cast("list[str]", re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
ADMINISTRATOR: Final = "the database's administrator"
NOT_FOR_USERS: Final = {
    "add_partition", "analyze_history", "checked_reason", "command", "drop_partition", "fail", "flow_of", "forget_aside", "field_problem", "is_between_0_and",
    "is_far", "is_job_id", "is_moment", "is_retry", "is_tags", "is_too_deep", "job_problem", "make_partitions", "may_act_for",
    "priority_number", "refuse", "refuse_change", "refuse_while_job_exists", "setting", "shown", "size_in", "tell_leaders", "unfinished", "wake",
}  # fmt: skip

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def session(database_url: str) -> Iterator[Session]:
    """The documentation's jobs are there. Nothing of a test stays, roles neither."""
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "select jobyard.submit('transcribe', '{\"minutes\": 3}', tags => '{\"customer\": \"42\"}'), jobyard.submit('confirm_order')"
        )
        connection.commit()  # a job is due by the clock, and not in the transaction that submits it: that is older
        yield connection
        connection.rollback()


def rows(session: Session, statement: str, *values: object) -> list[tuple[object, ...]]:
    return session.execute(statement.encode(), values).fetchall()


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[1][:60])
def test_a_statement_runs_as_the_role_that_it_names(session: Session, block: str) -> None:
    role = block.splitlines()[0].removeprefix("-- as ")
    if role != ADMINISTRATOR:
        assert role in PAGE.partition("## Roles")[2]
        session.execute(f"set session authorization {role}".encode())
    session.execute(block.encode())


def test_statements_that_act_find_the_jobs_that_they_are_about(session: Session) -> None:
    (cancels,) = (block for block in BLOCKS if "jobyard.cancel(" in block)
    session.execute("set session authorization jobyard_operator")
    session.execute(cancels.split(";")[0].encode())
    session.execute("reset session authorization")
    assert rows(session, "select verb, args ->> 'reason' from jobyard.commands") == [("cancel", "wrong input")]


def test_all_views_are_listed_with_all_columns(session: Session) -> None:
    listed = {
        view: names(columns) for view, columns in re.findall(r"^\| `(\w+)` \| [^|]+ \| ((?:`\w+`(?:, )?){3,}) \|$", PAGE, re.MULTILINE)
    }
    there: dict[object, list[object]] = {}
    for view, column in rows(
        session,
        "select c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " where c.relnamespace = 'jobyard'::regnamespace and c.relkind = 'v' and a.attnum > 0 order by 1, a.attnum",
    ):
        there.setdefault(view, []).append(column)
    assert listed == there


def test_all_functions_are_listed_with_all_parameters(session: Session) -> None:
    listed = dict(re.findall(r"\*\*`jobyard\.(\w+)\(([^)]*)\)`\*\*", PAGE))
    there = {
        str(name): ", ".join(cast("list[str]", parameters))
        for name, parameters in rows(
            session,
            "select p.proname, array(select quote_ident(n) from unnest(p.proargnames[:p.pronargs]) with ordinality u(n, i) order by i)"
            " from pg_proc p where p.pronamespace = 'jobyard'::regnamespace",
        )
        if name not in NOT_FOR_USERS
    }
    assert listed == there


def test_types_of_parameters_are_those_of_the_function(session: Session) -> None:
    (table,) = re.findall(r"\*\*`jobyard\.submit\(.*?\n\n(\|.*?)\n\n", PAGE, re.DOTALL)
    shown = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", table, re.MULTILINE)
    (there,) = rows(
        session,
        "select p.proargnames, array(select t::regtype::text from unnest(p.proargtypes) with ordinality u(t, i) order by i)"
        " from pg_proc p where p.oid = 'jobyard.submit'::regproc",
    )
    short = {"timestamp with time zone": "timestamptz", "double precision": "float8", "integer": "int"}
    types = [short.get(name, name) for name in cast("list[str]", there[1])]
    assert shown == list(zip(cast("list[str]", there[0]), types, strict=True))


def test_sqlstates_are_those_that_the_functions_raise_and_become_the_errors_that_are_named(session: Session) -> None:
    from jobyard.client.refusals import by_code

    listed = dict(re.findall(r"^\| `(JY\d{3})` \|.*\| (?:`(\w+)`)? *\|$", PAGE, re.MULTILINE))
    (sources,) = rows(session, "select string_agg(prosrc, ' ') from pg_proc where pronamespace = 'jobyard'::regnamespace")
    assert set(listed) == set(re.findall(r"JY\d{3}", str(sources[0])))
    for code, error in listed.items():
        if error:
            kind: type[JobyardError] = getattr(errors, error)
            assert type(by_code(code, "message")) is kind


def test_roles_are_those_that_are_there(session: Session) -> None:
    listed = set(re.findall(r"^\| `(jobyard_\w+)` \|", PAGE, re.MULTILINE))
    assert listed == {role for (role,) in rows(session, "select rolname from pg_roles where rolname ~ '^jobyard_'")}
