"""The schema from empty, down and up again; what is refused; several at once."""

import threading
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from jobyard import migrations
from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.master_db import check, connection

SCHEMA = (Path(__file__).parent / "schema.sql").read_text(encoding="utf-8")


def schema(url: str) -> list[str]:
    with psycopg.connect(url) as session:
        session.execute("set search_path = pg_catalog")
        return [row[0] for row in session.execute(SCHEMA.encode()).fetchall()]


def test_down_and_up_again_gives_the_same_schema(empty_database_url: str) -> None:
    migrations.upgrade(empty_database_url)
    before = schema(empty_database_url)
    assert len(before) > 300
    migrations.downgrade(empty_database_url, "base")
    assert migrations.current(empty_database_url) is None
    with psycopg.connect(empty_database_url) as session:
        left = session.execute(
            "select relname::text from pg_class where relnamespace = 'jobyard'::regnamespace and relkind in ('r', 'v', 'p', 'S')"
        ).fetchall()
        functions = session.execute("select proname::text from pg_proc where pronamespace = 'jobyard'::regnamespace").fetchall()
    assert (left, functions) == ([("alembic_version",)], [])
    migrations.upgrade(empty_database_url)
    assert schema(empty_database_url) == before


def test_each_step_down_and_up_again_works(empty_database_url: str) -> None:
    migrations.upgrade(empty_database_url)
    before = schema(empty_database_url)
    for _ in range(int(migrations.head())):
        migrations.downgrade(empty_database_url, "-1")
    for _ in range(int(migrations.head())):
        migrations.upgrade(empty_database_url, "+1")
    assert migrations.current(empty_database_url) == migrations.head()
    assert schema(empty_database_url) == before


def test_an_upgrade_with_jobs_in_the_tables_and_back_leaves_nothing_open(empty_database_url: str) -> None:
    migrations.upgrade(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as session:
        session.execute("select jobyard.submit('k')")
    migrations.downgrade(empty_database_url, "base")
    migrations.upgrade(empty_database_url)
    with psycopg.connect(empty_database_url) as session:
        assert session.execute("select count(*) from jobyard.jobs").fetchone() == (0,)


def test_an_upgrade_of_what_is_up_to_date_does_nothing(database_url: str) -> None:
    before = schema(database_url)
    migrations.upgrade(database_url)
    assert schema(database_url) == before


def test_the_default_lane_and_its_lease_are_there(database_url: str) -> None:
    with psycopg.connect(database_url) as session:
        assert session.execute(
            "select lane_id, lane, epoch, fence, lease_until = '-infinity' from jobyard.lanes join jobyard.leases using (lane_id)"
        ).fetchall() == [(1, "default", 0, 0, True)]


def test_who_may_not_look_or_change_is_told_what_is_needed(database_url: str, empty_database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as session:
        session.execute("create role only_client login password 'x' in role jobyard_client")
        try:
            for call, url, needed in (
                (migrations.current, database_url, "Grant it jobyard_auditor"),
                (migrations.upgrade, database_url, "member of jobyard_owner"),
                (migrations.upgrade, empty_database_url, "Use a superuser, or a member of jobyard_owner"),
            ):
                with pytest.raises(ConfigurationError, match=needed):
                    call(make_conninfo(url, user="only_client", password="x"))
        finally:
            session.execute("drop role only_client")


def test_an_upgrade_waits_for_another_one(empty_database_url: str) -> None:
    failures: list[BaseException] = []

    def upgrade() -> None:
        try:
            migrations.upgrade(empty_database_url)
        except BaseException as error:  # told by the assertion
            failures.append(error)

    holder = psycopg.connect(empty_database_url, autocommit=True)
    holder.execute("select pg_advisory_lock(1247, -1)")
    thread = threading.Thread(target=upgrade)
    thread.start()
    with psycopg.connect(empty_database_url, autocommit=True) as look:
        for _ in range(200):
            waiting = look.execute(
                "select count(*) from pg_locks l join pg_database d on d.oid = l.database "
                "where locktype = 'advisory' and not granted and datname = current_database()"
            )
            if waiting.fetchone() == (1,):
                break
            thread.join(0.05)
        else:
            pytest.fail("the upgrade did not wait")
        assert look.execute("select to_regclass('jobyard.jobs')").fetchone() == (None,)
    holder.close()
    thread.join(60)
    assert failures == []
    assert migrations.current(empty_database_url) == migrations.head()


def test_a_database_that_is_not_utf8_is_refused(empty_database_url: str) -> None:
    name = urlsplit(empty_database_url).path[1:] + "_latin"
    url = urlunsplit(urlsplit(empty_database_url)._replace(path=f"/{name}"))
    with psycopg.connect(empty_database_url, autocommit=True) as session:
        session.execute(f"create database {name} encoding 'LATIN1' locale 'C' template template0".encode())
        try:
            with pytest.raises(ConfigurationError, match=r"LATIN1.*UTF8"):
                migrations.upgrade(url)
            with pytest.raises(ConfigurationError, match="LATIN1"):
                connection.connect(url, application_name="test")
        finally:
            session.execute(f"drop database {name} with (force)".encode())


def test_a_server_that_is_not_there_is_service_unavailable() -> None:
    with pytest.raises(ServiceUnavailable, match="refused"):
        migrations.upgrade("postgresql://postgres@127.0.0.1:1/none")
    with pytest.raises(ServiceUnavailable, match="refused"):
        migrations.current("postgresql://postgres@127.0.0.1:1/none")


def test_a_url_that_cannot_be_read_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="URL"):
        migrations.upgrade("host")


def test_check_tells_what_is_missing(empty_database_url: str) -> None:
    with connection.connect(empty_database_url, application_name="test", autocommit=True) as session:
        assert [finding.mend for finding in check.check(session, migrations.head()) if finding.fatal] == ['run "jobyard db upgrade"']
        migrations.upgrade(empty_database_url, "0002")
        found = [finding for finding in check.check(session, migrations.head()) if finding.fatal]
        assert [finding.what for finding in found] == [f"the schema is at revision 0002, the code needs {migrations.head()}"]
        migrations.upgrade(empty_database_url)
        assert not [finding for finding in check.check(session, migrations.head()) if finding.fatal]
        assert [finding.what for finding in check.check(session, "0001")][
            -1
        ] == f"the schema is at revision {migrations.head()}, newer than the code's 0001"


def test_a_role_without_superuser_rights_can_install(empty_database_url: str) -> None:
    name = urlsplit(empty_database_url).path[1:]
    with psycopg.connect(empty_database_url, autocommit=True) as session:
        session.execute(f"create role {name}_installer login createrole password 'secret'".encode())
        session.execute(f"grant create on database {name} to {name}_installer".encode())
        for role in ("jobyard_owner", "jobyard_client", "jobyard_auditor", "jobyard_operator", "jobyard_coordinator"):
            session.execute(f"grant {role} to {name}_installer".encode())
        parts = urlsplit(empty_database_url)
        url = urlunsplit(parts._replace(netloc=f"{name}_installer:secret@{parts.netloc.rpartition('@')[2]}"))
        try:
            migrations.upgrade(url)
            assert session.execute(
                "select distinct proowner::regrole::text from pg_proc where pronamespace = 'jobyard'::regnamespace"
            ).fetchall() == [("jobyard_owner",)]
        finally:
            session.execute(f"drop owned by {name}_installer".encode())
            session.execute(f"drop role {name}_installer".encode())
