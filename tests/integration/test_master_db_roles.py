"""What each role may and may not do, tried as a login role that has it; and that history is changed by nobody."""

import secrets
from collections.abc import Generator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.rows import TupleRow

Session = Connection[TupleRow]
ROLES = ("coordinator", "client", "operator", "auditor", "nobody")
HISTORY = ("jobs", "attempts", "job_events", "late_reports", "reopened")
HOT = ("pending", "bundles", "running", "agents", "buckets", "held_intake", "commands")
VIEWS = (
    "job_states",
    "job_status",
    "attempt_history",
    "job_timeline",
    "stuck_jobs",
    "lane_summary",
    "agent_load",
    "late_outcomes",
    "partitions",
    "kind_summary",
)
ALL = frozenset({"coordinator", "client", "operator", "auditor"})

# A statement, and who may run it. Every other role must be refused with 42501.
RIGHTS: dict[str, frozenset[str]] = {
    "select jobyard.submit('k')": frozenset({"client", "operator"}),
    "select jobyard.submit_many('[]')": frozenset({"client", "operator"}),
    "select jobyard.cancel(jobyard.uuidv7(now()))": frozenset({"client", "operator"}),
    "select jobyard.retry(jobyard.uuidv7(now()))": frozenset({"client", "operator"}),
    "select jobyard.reschedule(jobyard.uuidv7(now()), now())": frozenset({"client", "operator"}),
    "select * from jobyard.durations": frozenset({"operator", "coordinator"}),
    "insert into jobyard.durations values (1, 1, 0, 1, 1)": frozenset({"coordinator"}),
    "delete from jobyard.durations": frozenset(),
    "select jobyard.explain(jobyard.uuidv7(now()))": frozenset({"client", "operator"}),
    "select jobyard.command_answer(1)": frozenset({"client", "operator"}),
    "select jobyard.uuidv7(now())": frozenset({"client", "operator", "coordinator"}),
    "select jobyard.id_floor(now())": ALL,
    "select jobyard.id_time('01890000-0000-7000-8000-000000000000')": ALL,
    "select jobyard.find_jobs()": frozenset({"auditor", "operator", "coordinator"}),
    "select jobyard.operate('default', 'sync')": frozenset({"operator"}),
    "select jobyard.pause_lane('default')": frozenset({"operator"}),
    "select jobyard.fair_share('default', true)": frozenset({"operator"}),
    "select jobyard.resume_lane('default')": frozenset({"operator"}),
    "select jobyard.pause_kind('k')": frozenset({"operator"}),
    "select jobyard.resume_kind('k')": frozenset({"operator"}),
    "select jobyard.drain_agent('a')": frozenset({"operator"}),
    "select jobyard.resume_agent('a')": frozenset({"operator"}),
    "select jobyard.tell_leaders(1::smallint, 'sync', '{}')": frozenset(),
    "select * from jobyard.coordinators": frozenset({"operator", "coordinator"}),
    "select * from jobyard.drains": frozenset({"operator", "coordinator"}),
    "delete from jobyard.coordinators": frozenset({"coordinator"}),
    "insert into jobyard.drains (lane_id, name, actor) values (1, 'a', 'me')": frozenset(),
    "select jobyard.command('01890000-0000-7000-8000-000000000000', 'cancel', '{}')": frozenset(),
    "select jobyard.wake(1::smallint)": frozenset(),
    "select jobyard.may_act_for('x')": frozenset(),
    "select jobyard.fail('JY001', '', '')": frozenset(),
    "select jobyard.unfinished(jobyard.id_floor(now()), jobyard.id_floor(now()))": frozenset(),
    "select jobyard.add_partition('2040-01-01', '2040-01-02')": frozenset(),
    "select jobyard.make_partitions(now(), now())": frozenset({"coordinator"}),
    "select jobyard.analyze_history()": frozenset({"coordinator"}),
    "select jobyard.forget_aside()": frozenset({"coordinator"}),
    "create table jobyard.mine (x int)": frozenset(),
    "insert into jobyard.lanes (lane) values ('other')": frozenset({"operator"}),
    "insert into jobyard.leases (lane_id) values (7)": frozenset({"operator", "coordinator"}),
    "update jobyard.leases set epoch = 1": frozenset({"coordinator"}),
    "delete from jobyard.leases": frozenset(),
    "update jobyard.lanes set paused = true": frozenset({"operator", "coordinator"}),
    "delete from jobyard.lanes": frozenset(),
    "insert into jobyard.kinds (kind) values ('x')": frozenset({"operator", "coordinator"}),
    "delete from jobyard.kinds": frozenset(),
    "insert into jobyard.submitters values ('x', 'y')": frozenset({"operator"}),
    "delete from jobyard.submitters": frozenset({"operator"}),
    "update jobyard.settings set value = '1'": frozenset(),
    "select * from jobyard.settings": frozenset({"operator", "coordinator"}),
    "select * from jobyard.alembic_version": frozenset({"auditor", "operator", "coordinator"}),
    "insert into jobyard.quarantine (reason) values ('x')": frozenset({"coordinator"}),
    "select * from jobyard.quarantine": frozenset({"coordinator"}),
    "insert into jobyard.job_events (job_id, kind_id, lane_id, event) values (jobyard.uuidv7(now()), 1, 1, 'x')": frozenset(
        {"coordinator"}
    ),
    **{f"select * from jobyard.{view} limit 1": frozenset({"auditor", "operator", "coordinator"}) for view in VIEWS},
    **{f"select * from jobyard.{table} limit 1": frozenset({"coordinator"}) for table in HISTORY},
    **{f"select * from jobyard.{table} limit 1": frozenset({"coordinator"}) for table in HOT if table != "agents"},
    "select * from jobyard.agents": frozenset({"operator", "coordinator"}),
    **{f"delete from jobyard.{table}": frozenset({"coordinator"}) for table in HOT},
    **{f"delete from jobyard.{table}": frozenset() for table in (*HISTORY, "quarantine")},
    **{f"truncate jobyard.{table}": frozenset() for table in (*HISTORY, *HOT)},
    **{f"drop table jobyard.{table}": frozenset() for table in (*HISTORY, *HOT)},
    **{
        f"update jobyard.{table} set {column} = {column}": frozenset()
        for table, column in zip(HISTORY, ("id", "job_id", "job_id", "job_id", "job_id"), strict=True)
    },
}


@pytest.fixture
def logins(database_url: str) -> Generator[dict[str, str]]:
    """The URL of a login role for each of ROLES, and for the owner."""
    suffix = secrets.token_hex(4)
    parts = urlsplit(database_url)
    made = {role: f"test_{role}_{suffix}" for role in (*ROLES, "owner")}
    with psycopg.connect(database_url, autocommit=True) as admin:
        for role, login in made.items():
            admin.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(login)))
            if role != "nobody":
                admin.execute(sql.SQL("grant {} to {}").format(sql.Identifier(f"jobyard_{role}"), sql.Identifier(login)))
        yield {role: urlunsplit(parts._replace(netloc=f"{login}:secret@{parts.netloc.rpartition('@')[2]}")) for role, login in made.items()}
        for login in made.values():
            admin.execute(sql.SQL("drop owned by {}").format(sql.Identifier(login)))
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(login)))


def refused(session: Session, statement: str) -> bool:
    """Whether a statement is refused for lack of rights. It is undone in any case; other refusals count as allowed."""
    try:
        with session.transaction(force_rollback=True):
            session.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege:
        return True
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith("JY"):
            raise
    return False


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_it_must_and_nothing_else(logins: dict[str, str], role: str) -> None:
    wrong: list[str] = []
    with psycopg.connect(logins[role], autocommit=True) as session:
        for statement, allowed in RIGHTS.items():
            if refused(session, statement) == (role in allowed):
                wrong.append(f"{role} {'may not' if role in allowed else 'may'}: {statement}")
    assert wrong == []


def test_every_function_and_table_is_in_the_table_of_rights_or_closed_to_all(database_url: str) -> None:
    told = " ".join(RIGHTS)
    with psycopg.connect(database_url) as session:
        functions = session.execute(
            "select distinct proname::text from pg_proc p cross join unnest(array['jobyard_coordinator', "
            "'jobyard_client', 'jobyard_operator', 'jobyard_auditor']) r "
            "where pronamespace = 'jobyard'::regnamespace and has_function_privilege(r, p.oid, 'execute')"
        ).fetchall()
        public = session.execute(
            "select proname::text from pg_proc where pronamespace = 'jobyard'::regnamespace and (proacl is null or exists (select "
            "from aclexplode(proacl) where grantee = 0))"
        ).fetchall()
        tables = session.execute(
            "select relname::text from pg_class where relnamespace = 'jobyard'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition"
        ).fetchall()
    assert public == []
    assert {row[0] for row in functions if f"jobyard.{row[0]}(" not in told} == {"setting", "drop_partition"}
    assert [row[0] for row in tables if f"jobyard.{row[0]} " not in f"{told} "] == []


def test_functions_with_the_owners_rights_look_only_where_the_owner_writes(database_url: str) -> None:
    with psycopg.connect(database_url) as session:
        found = session.execute(
            "select proname::text from pg_proc where pronamespace = 'jobyard'::regnamespace and prosecdef "
            "and (proowner::regrole::text <> 'jobyard_owner' or not coalesce('search_path=jobyard, pg_catalog, pg_temp' = any (proconfig), false))"
        ).fetchall()
        many = session.execute("select count(*) from pg_proc where pronamespace = 'jobyard'::regnamespace and prosecdef").fetchone()
    assert found == []
    assert many is not None
    assert many[0] >= 12


def test_a_clients_own_objects_do_not_come_before_ours(logins: dict[str, str]) -> None:
    with psycopg.connect(logins["client"], autocommit=True) as session:
        session.execute("create temp table jobs (id uuid)")
        session.execute("create temp table kinds (kind text)")
        session.execute("create function pg_temp.job_problem(text) returns text language sql as 'select 1'")
        session.execute("set search_path = pg_temp, public")
        session.execute("select jobyard.submit('k'), jobyard.submit_many('[{\"kind\": \"k\"}]')")
        assert session.execute("select count(*) from pg_temp.jobs").fetchone() == (0,)


@pytest.mark.parametrize("login", ["superuser", "owner", "coordinator", "operator"])
def test_history_is_changed_by_nobody(logins: dict[str, str], database_url: str, login: str) -> None:
    wrong: list[str] = []
    with psycopg.connect(database_url, autocommit=True) as admin:
        job = admin.execute("select jobyard.submit('k')").fetchone()
        assert job is not None
        admin.execute("insert into jobyard.reopened (job_id, max_attempts) values (%s, 5)", job)
        admin.execute(
            "insert into jobyard.late_reports (job_id, fence, agent_id, outcome, closed_job) values (%s, 1, 1, 'failed', false)", job
        )
        partitions = [
            row[0]
            for row in admin.execute(
                "select inhrelid::regclass::text from pg_inherits where inhparent::regclass::text ~ '^jobyard.(jobs|attempts|job_events)$'"
            )
        ]
    assert len(partitions) >= 15
    with psycopg.connect(database_url if login == "superuser" else logins[login], autocommit=True) as session:
        if login == "owner":
            session.execute("set role jobyard_owner")
        for table in [*(f"jobyard.{table}" for table in HISTORY), *partitions]:
            column = "id" if table.startswith("jobyard.jobs") else "job_id"
            for statement in (f"update {table} set {column} = {column}", f"delete from {table}", f"truncate {table}"):
                try:
                    with session.transaction(force_rollback=True):
                        session.execute(statement.encode())
                    wrong.append(statement)
                except psycopg.Error as error:
                    if error.sqlstate not in ("JY090", "42501") or (login in ("superuser", "owner") and error.sqlstate != "JY090"):
                        wrong.append(f"{statement}: {error}")
    assert wrong == []
