"""Commands: recorded by functions, decided by a leader (here: by hand), asked for by their number."""

import secrets
import threading
from collections.abc import Generator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from jobyard.contracts.errors import ConfigurationError, InvalidJob, NotFound, Refused, WaitTimeout
from jobyard.contracts.ids import id_floor, new_job_id
from jobyard.master_db import connection, declarations, operations, retention
from jobyard.master_db.connection import Connection


@pytest.fixture
def operator(database_url: str) -> Generator[Connection]:
    with connection.connect(database_url, application_name="test", autocommit=True) as session:
        yield session


@pytest.fixture
def client(database_url: str) -> Generator[Connection]:
    login = f"test_client_{secrets.token_hex(4)}"
    parts = urlsplit(database_url)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'secret' in role jobyard_client").format(sql.Identifier(login)))
        url = urlunsplit(parts._replace(netloc=f"{login}:secret@{parts.netloc.rpartition('@')[2]}"))
        with connection.connect(url, application_name="test", autocommit=True) as session:
            yield session
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(login)))


def submitted(session: Connection, extra: str = "") -> str:
    row = session.execute(f"select jobyard.submit('k'{extra})::text".encode()).fetchone()
    assert row is not None
    return str(row[0])


def recorded(operator: Connection) -> list[tuple[object, ...]]:
    return operator.execute(
        "select job_id, lane_id, verb, actor = session_user, args, answered_at from jobyard.commands order by command_id"
    ).fetchall()


def end(operator: Connection, job_id: str, state: str = "failed") -> None:
    operator.execute(
        "insert into jobyard.attempts (job_id, fence, placed_at, finished_at, agent_id, bucket, kind_id, outcome, final, lane_id, attempt) "
        "values (%s::uuid, 1, now(), clock_timestamp(), 1, 0, 1, %s::text::jobyard.outcome, %s::text::jobyard.job_state, 1, 1)",
        [job_id, state, state],
    )


def test_a_command_is_recorded_for_the_jobs_lane(operator: Connection) -> None:
    job_id = submitted(operator)
    operations.cancel(operator, job_id, "no longer wanted")
    operations.reschedule(operator, job_id, priority="high")
    assert recorded(operator) == [
        (job_id, 1, "cancel", True, {"reason": "no longer wanted"}, None),
        (job_id, 1, "reschedule", True, {"run_at": None, "priority": "high"}, None),
    ]


def test_only_the_submitter_and_operators_may_act_on_a_job(operator: Connection, client: Connection) -> None:
    theirs, mine = submitted(operator), submitted(client)
    with pytest.raises(Refused, match=theirs) as raised:
        operations.cancel(client, theirs)
    assert raised.value.code == "JY008"
    operations.cancel(client, mine)
    operations.retry(operator, mine)
    operator.execute("insert into jobyard.submitters values (%s, session_user)", [client.info.user])
    operations.cancel(client, theirs)


def test_only_with_a_grant_may_a_role_submit_for_another(operator: Connection, client: Connection) -> None:
    for statement in (
        "select jobyard.submit('k', submitter => 'shop')",
        'select jobyard.submit_many(\'[{"kind": "k"}, {"kind": "k", "submitter": "shop"}]\')',
    ):
        with pytest.raises(psycopg.Error, match=r'submitter "shop" may not be submitted for by role test_client') as raised:
            client.execute(statement.encode())
        assert raised.value.sqlstate == "JY008"
    operator.execute("insert into jobyard.submitters values (%s, 'shop')", [client.info.user])
    job_id = submitted(client, ", submitter => 'shop'")
    operations.cancel(client, job_id)
    assert operator.execute("select submitter from jobyard.jobs").fetchall() == [("shop",)]


def test_an_ended_job_is_refused_at_once_but_for_a_retry(operator: Connection) -> None:
    by_attempt, by_event = submitted(operator), submitted(operator)
    end(operator, by_attempt)
    operator.execute(
        "insert into jobyard.job_events (job_id, kind_id, lane_id, event, final) values (%s::uuid, 1, 1, 'cancelled', 'cancelled')",
        [by_event],
    )
    for job_id in (by_attempt, by_event):
        with pytest.raises(Refused, match="has ended") as raised:
            operations.cancel(operator, job_id)
        assert raised.value.code == "JY009"
        with pytest.raises(Refused):
            operations.reschedule(operator, job_id, priority="high")
        operations.retry(operator, job_id)
        operator.execute("insert into jobyard.reopened (job_id, at, max_attempts) values (%s::uuid, clock_timestamp(), 10)", [job_id])
        operations.cancel(operator, job_id)


def test_L21_a_young_unknown_job_is_left_to_the_leaders_and_an_old_one_is_not_found(operator: Connection) -> None:
    young = new_job_id()
    operations.cancel(operator, young)
    assert recorded(operator) == [(young, None, "cancel", True, {"reason": None}, None)]
    old = id_floor(1_700_000_000)
    for job_id in (f"{old[:14]}7{old[15:19]}8{old[20:]}", "00000000-0000-4000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff"):
        with pytest.raises(NotFound, match=job_id):
            operations.cancel(operator, job_id)


def test_bad_commands_are_refused_by_name(operator: Connection) -> None:
    job_id = submitted(operator)
    with pytest.raises(InvalidJob, match="run_at or priority"):
        operations.reschedule(operator, job_id)
    with pytest.raises(InvalidJob, match="priority"), connection.errors():
        operator.execute("select jobyard.reschedule(%s::uuid, priority => 'urgent')", [job_id])
    with pytest.raises(InvalidJob, match="reason"):
        operations.cancel(operator, job_id, "x" * 1001)
    with pytest.raises(InvalidJob, match='lane "nowhere"'):
        operations.operate(operator, "nowhere", "sync")
    with pytest.raises(InvalidJob, match="verb"):
        operations.operate(operator, "default", "drop table")


def test_an_answer_is_read_by_its_asker_and_by_operators_only(operator: Connection, client: Connection) -> None:
    theirs = operations.cancel(operator, submitted(operator))
    mine = operations.cancel(client, submitted(client))
    assert (operations.answer(client, mine), operations.answer(operator, theirs)) == (None, None)
    operator.execute("update jobyard.commands set answered_at = now(), answer = 'cancelled'")
    assert operations.answer(client, theirs) is None
    for session, number in ((client, mine), (operator, mine), (operator, theirs)):
        found = operations.answer(session, number)
        assert found is not None
        assert (found.code, found.answer) == (None, "cancelled")


def test_waiting_ends_with_the_answer_or_its_refusal_or_the_time(operator: Connection, database_url: str) -> None:
    number = operations.cancel(operator, submitted(operator))
    with pytest.raises(WaitTimeout, match=f"command {number}"):
        operations.wait_for_answer(operator, number, timeout_s=0.05)

    looked = threading.Event()

    def leader() -> None:
        looked.wait(10)
        with psycopg.connect(database_url, autocommit=True) as session:
            session.execute("update jobyard.commands set answered_at = now(), answer = 'cancelled' where command_id = %s", [number])

    thread = threading.Thread(target=leader)
    thread.start()

    def pause(_: float) -> None:
        looked.set()
        thread.join(10)

    assert operations.wait_for_answer(operator, number, pause=pause).answer == "cancelled"
    for code, error in (("JY009", Refused), ("JY007", NotFound), ("JY008", Refused)):
        operator.execute("update jobyard.commands set code = %s where command_id = %s", [code, number])
        with pytest.raises(error, match="cancelled"):
            operations.wait_for_answer(operator, number)


def test_a_command_wakes_a_leader_that_sleeps(operator: Connection, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as leader:
        leader.execute("listen jobyard")
        operations.operate(operator, "default", "sync")
        assert [notice.payload for notice in leader.notifies(timeout=5, stop_after=1)] == ["1"]


def test_lanes_are_added_once_with_their_lease(operator: Connection) -> None:
    assert operations.add_lane(operator, "gpu")
    assert not operations.add_lane(operator, "gpu")
    assert [(lane.lane, lane.epoch, lane.leader) for lane in operations.lanes(operator)] == [("default", 0, None), ("gpu", 0, None)]
    assert operations.lane(operator, "gpu").lane == "gpu"
    with pytest.raises(NotFound, match="nowhere"):
        operations.lane(operator, "nowhere")
    for name in ("Gpu", "-gpu", "g" * 64, "", "a.b"):
        with pytest.raises(InvalidJob, match="lower-case"):
            operations.add_lane(operator, name)


def test_agents_are_listed_live_and_shown_with_their_past(operator: Connection) -> None:
    operator.execute("insert into jobyard.kinds (kind) values ('b'), ('a')")
    operator.execute(
        "insert into jobyard.agents (incarnation, capacity, lost_after_s, slots, lane_id, name, host, kinds, versions, ended_at) values "
        "(gen_random_uuid(), 4, 15, 10, 1, 'one', 'h', '{1,2}', '{1,1}', now()), (gen_random_uuid(), 4, 15, 10, 1, 'one', 'h', '{1,2}', '{1,1}', null)"
    )
    (live,) = operations.agents(operator)
    assert (live.agent, live.kinds, live.placed, live.size_placed) == ("one", ["a", "b"], 0, 0.0)
    assert operations.agents(operator, lane="other") == []
    assert [row.ended_at is None for row in operations.agent(operator, "one")] == [True, False]
    with pytest.raises(NotFound, match="two"):
        operations.agent(operator, "two")


def test_a_role_without_rights_is_told_which_to_grant(client: Connection) -> None:
    with pytest.raises(ConfigurationError, match="Grant it jobyard_auditor"):
        operations.lanes(client)
    with pytest.raises(ConfigurationError, match="Grant it jobyard_operator"):
        operations.add_lane(client, "other")
    with pytest.raises(ConfigurationError, match="Grant it jobyard_operator"):
        declarations.sync(client, [])
    with pytest.raises(ConfigurationError, match="Grant it jobyard_coordinator"):
        retention.prune(client)


def test_a_role_without_any_right_is_told_that_commands_need_the_clients(database_url: str, operator: Connection) -> None:
    operator.execute("create role nobody_at_all login password 'x'")
    try:
        url = make_conninfo(database_url, user="nobody_at_all", password="x")
        with (
            connection.connect(url, application_name="test") as nobody,
            pytest.raises(ConfigurationError, match="Grant it jobyard_client, which submits"),
        ):
            operations.cancel(nobody, new_job_id())
    finally:
        operator.execute("drop role nobody_at_all")
