"""An operator's login role is enough for all that operators do: each call of the command line's, under that role and no other."""

import secrets
from collections.abc import Generator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from jobyard.contracts.declaration import Declaration
from jobyard.master_db import audit, connection, declarations, operations
from jobyard.master_db.connection import Connection


@pytest.fixture
def operator(database_url: str) -> Generator[Connection]:
    """A session of a login role that is an operator and nothing else."""
    login = f"test_operator_{secrets.token_hex(4)}"
    parts = urlsplit(database_url)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'secret' in role jobyard_operator").format(sql.Identifier(login)))
        url = urlunsplit(parts._replace(netloc=f"{login}:secret@{parts.netloc.rpartition('@')[2]}"))
        with connection.connect(url, application_name="test", autocommit=True) as session:
            yield session
        admin.execute(sql.SQL("drop owned by {}").format(sql.Identifier(login)))
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(login)))


def test_an_operator_adds_a_lane_once(operator: Connection) -> None:
    assert operations.add_lane(operator, "reports")
    assert not operations.add_lane(operator, "reports")
    assert operations.lane(operator, "reports").lane == "reports"
    assert {lane.lane for lane in operations.lanes(operator)} == {"default", "reports"}


def test_an_operator_syncs_what_code_declares(operator: Connection) -> None:
    operations.add_lane(operator, "reports")
    declared = [Declaration(kind="report", lane="reports")]
    assert declarations.sync(operator, declared).added == ("report",)
    assert declarations.sync(operator, []).dropped == ("report",)


def test_an_operator_looks_at_everything_and_commands_every_job(operator: Connection, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as other:
        row = other.execute("select jobyard.submit('k')::text").fetchone()
        assert row is not None
        job = str(row[0])
    status = audit.job_status(operator, job)
    assert status is not None
    assert status.kind == "k"
    assert [found.job_id for found in audit.find_jobs(operator, audit.Filter())] == [status.job_id]
    assert audit.attempt_history(operator, job) == []
    assert [happening.event for happening in audit.job_timeline(operator, job)] == ["submitted"]
    assert audit.late_outcomes(operator, job) == []
    assert audit.stuck_jobs(operator) == []
    assert operations.agents(operator) == []
    numbers = [operations.cancel(operator, job, "wrong"), operations.reschedule(operator, job, priority="low")]
    numbers.append(operations.operate(operator, "default", "sync"))
    assert [operations.answer(operator, number) for number in numbers] == [None, None, None]
