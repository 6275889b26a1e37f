"""A server that is there, whose packets are acknowledged, and that answers nothing: who asks it gives up in bounded time."""

import time
import uuid
from collections.abc import Callable, Generator

import pytest
from faults.network import through
from faults.proxy import Proxies, Proxy
from lane_store_builders import Database
from psycopg.conninfo import conninfo_to_dict

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.rules import Rules
from jobyard.master_db.connection import Connection, Timeouts, connect, errors
from jobyard.master_db.lane_store import PostgresLaneStore
from jobyard.master_db.notices import PostgresNotices

SHORT = Timeouts(statement_s=0.3, unanswered_s=0.7)
SLACK_S = 3.0
"""What a loaded machine may add."""


@pytest.fixture
def proxy(database_url: str) -> Generator[Proxy]:
    with Proxies() as proxies:
        yield proxies.to(int(conninfo_to_dict(database_url)["port"] or 5432))


@pytest.fixture
def session(database_url: str, proxy: Proxy) -> Generator[Connection]:
    with connect(through(database_url, proxy), application_name="test", autocommit=True, timeouts=SHORT) as connection:
        yield connection


def in_a_pipeline(connection: Connection) -> None:
    with connection.pipeline():
        connection.execute("begin")
        connection.execute("select 1")
        connection.execute("commit")


def in_a_copy(connection: Connection) -> None:
    with connection.cursor() as cursor, cursor.copy("copy one from stdin") as copy:
        for _ in range(200):  # more than the kernels take in
            copy.write(b"1\n" * 50_000)


ASKED: dict[str, Callable[[Connection], object]] = {
    "statement": lambda connection: connection.execute("select 1"),
    "pipeline": in_a_pipeline,
    "copy": in_a_copy,
}


@pytest.mark.parametrize("ask", ASKED)
def test_L1_a_silent_server_is_given_up(ask: str, session: Connection, proxy: Proxy) -> None:
    session.execute("create temporary table one (n int)")
    with proxy.stalled():
        begun = time.monotonic()
        with pytest.raises(ServiceUnavailable, match="silent for 1 s"), errors():
            ASKED[ask](session)
        assert SHORT.silent_s <= time.monotonic() - begun < SHORT.silent_s + SLACK_S
    assert session.closed


def test_a_server_that_lives_says_itself_that_a_statement_takes_too_long(session: Connection) -> None:
    with pytest.raises(ServiceUnavailable, match="statement timeout"), errors():
        session.execute("select pg_sleep(20)")
    assert session.execute("select 1").fetchall() == [(1,)]


def test_one_who_waits_for_notices_waits_through_silence(database_url: str, proxy: Proxy) -> None:
    opened = Database.open(database_url)
    notices = PostgresNotices(through(database_url, proxy), "default")
    try:
        assert notices.wait(0.0)
        with proxy.stalled():
            assert not notices.wait(0.3)
        opened.admin.execute("select pg_notify('jobyard', lane_id::text) from jobyard.lanes where lane = 'default'")
        assert notices.wait(10.0)
    finally:
        notices.close()
        opened.close()


def test_L3_a_leader_gives_a_silent_database_up_and_the_next_one_leads(database_url: str, proxy: Proxy) -> None:
    opened = Database.open(database_url)
    rules = Rules(takeover_s=0.5)
    stalled = PostgresLaneStore(through(database_url, proxy), "default", str(uuid.uuid4()), rules)
    try:
        term = stalled.seize()
        assert term is not None
        offsets = stalled.snapshot().offsets
        with proxy.stalled():
            begun = time.monotonic()
            with pytest.raises(ServiceUnavailable, match="silent"):
                stalled.write([], dict(offsets), 0, term)
            assert time.monotonic() - begun < rules.takeover_s + 5.0 + SLACK_S
            other = opened.store().seize()  # the lease is over meanwhile
        assert other is not None
        assert other.epoch == term.epoch + 1
    finally:
        stalled.close()
        opened.close()
