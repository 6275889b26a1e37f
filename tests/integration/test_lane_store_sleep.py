"""The lane store asleep and awake (L25, D8)."""

import time
from collections.abc import Generator

import psycopg
import pytest
from lane_store_builders import Database, Led

from jobyard.master_db.notices import PostgresNotices


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def led(database: Database) -> Led:
    return Led(database)


def test_L25_submit_notifies_only_a_leader_that_sleeps(database: Database, led: Led) -> None:
    notices = PostgresNotices(database.url, "default")
    assert notices.wait(0.0)  # the session is new
    led.store.wake()
    database.admin.execute("select jobyard.submit('k')")
    assert not notices.wait(0.2)
    led.store.sleep()
    database.admin.execute("select jobyard.submit('k')")
    assert notices.wait(10)
    led.store.wake()
    database.admin.execute("select jobyard.submit('k')")
    assert not notices.wait(0.2)
    notices.close()


def test_L25_a_notice_for_another_lane_wakes_nobody_here(database: Database, led: Led) -> None:
    other = database.add_lane("other")
    notices = PostgresNotices(database.url, "default")
    notices.wait(0.0)
    database.admin.execute("select pg_notify('jobyard', %s)", [str(other)])
    assert not notices.wait(0.2)
    notices.close()


def test_L25_a_sleeper_is_settled_when_all_that_were_open_have_ended(database: Database, led: Led) -> None:
    led.meet("k")
    led.store.wake()
    assert led.ask().settled
    slow = database.client()
    slow.execute("select jobyard.submit('k')")  # saw the lock: tells nobody
    led.store.sleep()
    assert not led.ask().settled
    database.admin.execute("select jobyard.submit('k')")
    assert not led.ask().settled
    slow.commit()
    answers = led.ask()
    assert answers.settled
    assert [one.kind for one in answers.fresh] == ["k"]


def test_L25_while_a_predecessor_holds_the_lock_looks_try_again(database: Database, led: Led) -> None:
    lane_id = database.value("select lane_id from jobyard.lanes")
    paused = psycopg.connect(database.admin_url, autocommit=True)
    paused.execute("select pg_advisory_lock(1247, %s)", [lane_id])
    led.store.wake()
    led.ask()
    assert database.value("select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 1247") == 1
    paused.close()
    until = time.monotonic() + 10
    while True:
        led.ask()
        held = database.value(
            "select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 1247 and objid = %s", lane_id
        )
        if held == 1 and database.value("select not pg_try_advisory_lock_shared(1247, %s)", lane_id):
            break
        database.admin.execute("select pg_advisory_unlock_all()")
        assert time.monotonic() < until
