"""Pauses and drains by SQL: written at once in the caller's transaction, with who did it, and told to the leaders."""

from collections.abc import Generator

import psycopg
import pytest
from lane_store_builders import Database, Led
from psycopg.errors import DatabaseError

from jobyard.contracts.errors import InvalidJob, NotFound
from jobyard.coordinator.core import events
from jobyard.coordinator.core.questions import Modes, Questions
from jobyard.master_db import operations
from jobyard.master_db.connection import Connection, connect


@pytest.fixture
def session(database_url: str) -> Generator[Connection]:
    with connect(database_url, application_name="test", autocommit=True) as opened:
        yield opened


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


def joined(session: Connection, name: str, lane_id: int = 1) -> None:
    session.execute(
        "insert into jobyard.agents (incarnation, capacity, lost_after_s, slots, lane_id, name, host, kinds, versions)"
        " values (gen_random_uuid(), 1, 15, 1, %s, %s, 'h', '{}', '{}')",
        [lane_id, name],
    )


def commands(session: Connection) -> list[tuple[object, ...]]:
    return session.execute("select verb, lane_id, actor = session_user, args from jobyard.commands order by command_id").fetchall()


def test_a_pause_is_written_with_its_actor_and_told(session: Connection) -> None:
    (number,) = operations.pause_lane(session, "default", "the warehouse is down")
    found = operations.lane(session, "default")
    assert (found.paused, found.paused_reason) == (True, "the warehouse is down")
    assert found.paused_by is not None
    since = found.paused_at
    operations.pause_lane(session, "default")  # again: it is paused since then
    assert operations.lane(session, "default").paused_at == since
    assert commands(session)[0] == ("pause_lane", 1, True, {"reason": "the warehouse is down"})
    assert operations.answer(session, number) is None
    operations.resume_lane(session, "default")
    found = operations.lane(session, "default")
    assert (found.paused, found.paused_at, found.paused_by, found.paused_reason) == (False, None, None, None)


def test_a_kind_is_paused_in_every_lane(session: Connection) -> None:
    operations.add_lane(session, "other")
    session.execute("select jobyard.submit('k')")
    assert len(operations.pause_kind(session, "k", "a bug")) == 2
    found = operations.kind(session, "k")
    assert (found.paused, found.paused_reason, found.waiting, found.agents, found.declared) == (True, "a bug", 1, 0, False)
    assert [(verb, args) for verb, _, _, args in commands(session)] == [("pause_kind", {"kind": "k", "reason": "a bug"})] * 2
    assert len(operations.resume_kind(session, "k")) == 2
    assert not operations.kind(session, "k").paused


def test_a_drain_is_of_agents_that_live_and_a_resume_of_those_that_were_drained(session: Connection) -> None:
    operations.add_lane(session, "other")
    joined(session, "anna")
    joined(session, "anna", 2)
    assert len(operations.drain_agent(session, "anna", stop=True, reason="a new disk")) == 2
    assert len(operations.drain_agent(session, "anna", lane="other")) == 1
    rows = session.execute("select lane_id, name, stop, reason from jobyard.drains order by 1").fetchall()
    assert rows == [(1, "anna", True, "a new disk"), (2, "anna", False, None)]
    session.execute("update jobyard.agents set ended_at = now(), state = 'lost'")
    assert len(operations.resume_agent(session, "anna")) == 2
    assert session.execute("select count(*) from jobyard.drains").fetchone() == (0,)


def test_what_is_not_there_is_refused(session: Connection) -> None:
    for call, error in (
        (lambda: operations.pause_lane(session, "none"), InvalidJob),
        (lambda: operations.resume_lane(session, "none"), InvalidJob),
        (lambda: operations.fair_share(session, "none", True), InvalidJob),
        (lambda: operations.pause_kind(session, "none"), NotFound),
        (lambda: operations.resume_kind(session, "none"), NotFound),
        (lambda: operations.drain_agent(session, "none"), NotFound),
        (lambda: operations.resume_agent(session, "none"), NotFound),
        (lambda: operations.kind(session, "none"), NotFound),
        (lambda: operations.pause_lane(session, "default", "x" * 1001), InvalidJob),
    ):
        with pytest.raises(error):
            call()
    with pytest.raises(DatabaseError, match="no agent"):
        session.execute("select jobyard.drain_agent(null)")
    assert commands(session) == []


def test_a_pause_counts_with_the_transaction_that_makes_it(session: Connection, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("select jobyard.pause_lane('default')")
        assert not operations.lane(session, "default").paused
        other.rollback()
    assert not operations.lane(session, "default").paused


def test_the_store_gives_modes_at_the_take_over_and_when_asked_and_ends_drains(database: Database, database_url: str) -> None:
    with connect(database_url, application_name="test", autocommit=True) as session:
        database.admin.execute("insert into jobyard.kinds (kind) values ('k')")
        joined(session, "anna")
        joined(session, "bert")
        operations.pause_kind(session, "k")
        operations.drain_agent(session, "anna", stop=True)
        led = Led(database)
        assert led.store.snapshot().modes == Modes(False, frozenset({"k"}), {"anna": True})
        operations.pause_lane(session, "default")
        operations.drain_agent(session, "bert")
        assert led.store.ask(Questions(modes=True)).modes == Modes(True, frozenset({"k"}), {"anna": True, "bert": False})
        led.write(events.DrainEnded("anna"))
        assert led.store.ask(Questions(modes=True)).modes == Modes(True, frozenset({"k"}), {"bert": False})
        operations.fair_share(session, "default", True)
        assert led.store.ask(Questions(modes=True)).modes == Modes(True, frozenset({"k"}), {"bert": False}, fair_share=True)
        assert led.store.ask(Questions()).modes is None


def test_L12_a_repair_is_a_row_of_job_events_for_each_job_that_is_there(database: Database) -> None:
    led = Led(database)
    jobs = [one.id for one in led.accept(2)]
    nobody = "018f0000-0000-7000-8000-000000000001"
    led.write(events.Repaired("L12", "cancelled", 7, [*jobs, nobody], "anna", led.term.now))
    rows = database.admin.execute("select job_id::text, event, detail from jobyard.job_events order by job_id").fetchall()
    detail = {"rule": "L12", "action": "cancelled", "fence": 7, "agent": "anna"}
    assert rows == [(job, "repaired", detail) for job in sorted(jobs)]
    timeline = database.admin.execute(
        "select event from jobyard.job_timeline where job_id = %s and event = 'repaired'", [jobs[0]]
    ).fetchall()
    assert timeline == [("repaired",)]
