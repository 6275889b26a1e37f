"""Submitting by SQL, on real Postgres: one, many, in the caller's transaction."""

import asyncio
import json
import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row

from jobyard import App, BulkResult, ConfigurationError, InvalidJob, JobRequest, NotFound, Refused, RetryPolicy, ServiceUnavailable
from jobyard.client import bulk
from jobyard.contracts.ids import new_job_id


@pytest.fixture
def app(database_url: str) -> Iterator[App]:
    with App(database_url=database_url) as made:
        made.job(kind="plain")(plain)
        yield made


def plain(x: int = 0) -> int:
    return x


def handler_of(app: App, kind: str = "other") -> Any:
    return app.job(kind=kind)(plain)


def count(url: str, table: str = "jobs") -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"select count(*) from jobyard.{table}".encode()).fetchone()
        assert row is not None
        return int(row[0])


def test_a_job_arrives_as_it_was_submitted(app: App, database_url: str) -> None:
    @app.job(
        priority="high", size="minutes", timeout=60, tags={"team": "ä"}, version=2, retry=RetryPolicy(max_attempts=3, backoff="linear")
    )
    def transcribe(path: str, minutes: float, exact: int) -> None: ...

    handle = transcribe.options(delay=3600).submit("a.wav", 3, 2**70)
    assert not handle.duplicate
    status = handle.status()
    assert (status.kind, status.version, status.lane, status.priority, status.size) == ("transcribe", 2, "default", "high", 3.0)
    assert (status.state, status.attempts, status.max_attempts) == ("scheduled", 0, 3)
    assert status.args == {"path": "a.wav", "minutes": 3, "exact": 2**70}
    assert status.tags == {"team": "ä"}
    assert status.submitted_via == "sql"
    assert (status.result, status.is_final, handle.history()) == (None, False, [])
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select retry, timeout_s from jobyard.jobs").fetchone()
    assert row is not None
    assert row[1] == 60
    assert row[0]["backoff"] == "linear"


def test_the_same_request_twice_is_one_job(app: App, database_url: str) -> None:
    request = handler_of(app).request(1)
    assert not request.submit().duplicate
    assert request.submit().duplicate
    assert asyncio.run(twin(app, request)).duplicate
    with psycopg.connect(database_url) as connection:
        assert request.submit(connection=connection).duplicate
    assert app.submit_many([request, request]) == BulkResult(0, 2, ())
    assert count(database_url) == count(database_url, "pending") == 1


async def twin(app: App, request: JobRequest[Any]) -> Any:
    async with app:
        return await request.submit_async()


def test_a_job_exists_if_and_only_if_its_transaction_commits(app: App, database_url: str) -> None:
    handler = handler_of(app)
    with psycopg.connect(database_url) as connection:
        lost = handler.options(connection=connection).submit(1)
        connection.rollback()
        with pytest.raises(NotFound, match="committed"):
            lost.status()
        with psycopg.Connection[DictRow].connect(database_url, row_factory=dict_row) as other:
            kept = handler.options(connection=other).submit(2)
            with pytest.raises(NotFound):
                kept.status()
        assert kept.status().args == {"x": 2}
    assert count(database_url) == count(database_url, "pending") == 1


def test_an_async_transaction_commits_or_not(app: App, database_url: str) -> None:
    handler = handler_of(app)

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            lost = await handler.options(connection=connection).submit_async(1)
            await connection.rollback()
            assert (await app.submit_many_async([handler.request(3)], connection=connection)).accepted == 1
            await connection.rollback()
            kept = await handler.request(2).submit_async(connection=connection)
            await connection.commit()
            with pytest.raises(TypeError, match="submit_async"):
                handler.options(connection=connection).submit(1)
        with pytest.raises(NotFound):
            await lost.status_async()
        assert (await kept.status_async()).args == {"x": 2}
        await app.close_async()

    asyncio.run(main())
    assert count(database_url) == 1


def test_a_sync_connection_may_be_used_on_an_event_loop(app: App, database_url: str) -> None:
    handler = handler_of(app)

    async def main() -> None:
        with psycopg.connect(database_url) as connection:
            handler.options(connection=connection).submit(1)
            await handler.options(connection=connection).submit_async(2)

    asyncio.run(main())
    assert count(database_url) == 2


def test_a_wrong_job_does_not_abort_the_callers_transaction(app: App, database_url: str) -> None:
    handler = handler_of(app)
    with psycopg.connect(database_url) as connection:
        connection.execute("create table mine (x int)")
        for wrong in ({"priority": "urgent"}, {"max_attempts": 0}, {"lane": "NO"}):
            with pytest.raises(InvalidJob):
                handler.options(connection=connection, **wrong).submit(1)
        with pytest.raises(InvalidJob, match="exclude each other"):
            handler.options(connection=connection, via="kafka").submit(1)
        connection.execute("insert into mine values (1)")
        handler.options(connection=connection).submit(1)
    assert count(database_url) == 1


def test_what_only_the_database_knows_is_refused_with_its_hint(app: App) -> None:
    with pytest.raises(InvalidJob, match=r"lane \"nowhere\" is no lane.*jobyard lane add") as found:
        handler_of(app).options(lane="nowhere").submit(1)
    assert found.value.code == "JY006"


def test_many_in_batches(app: App, database_url: str) -> None:
    handler = handler_of(app)
    first = handler.request(0)
    first.submit()
    made: list[JobRequest[Any]] = []

    def requests() -> Iterator[JobRequest[Any]]:
        for x in range(2 * bulk.BATCH + 10):
            made.append(handler.request(x))
            yield made[-1]
            if x == bulk.BATCH:
                assert count(database_url) == bulk.BATCH + 1, "a full batch is sent before more is asked for"
        yield first
        yield made[0]

    assert app.submit_many(requests()) == BulkResult(2 * bulk.BATCH + 10, 2, ())
    assert count(database_url) == count(database_url, "pending") == 2 * bulk.BATCH + 11
    assert handler.handle(made[5].id).status().args == {"x": 5}


def test_many_from_an_async_iterable(app: App, database_url: str) -> None:
    handler = handler_of(app)

    async def requests() -> AsyncIterator[JobRequest[Any]]:
        for x in range(bulk.BATCH + 1):
            yield handler.request(x)

    async def main() -> BulkResult:
        async with app:
            return await app.submit_many_async(requests())

    assert asyncio.run(main()) == BulkResult(bulk.BATCH + 1, 0, ())
    assert count(database_url) == bulk.BATCH + 1


def test_many_in_one_transaction_all_or_none(app: App, database_url: str) -> None:
    handler = handler_of(app)
    wrong = [handler.request(x) for x in range(bulk.BATCH + 5)] + [handler.options(lane="nowhere").request(1)]
    with (
        psycopg.connect(database_url, autocommit=True) as connection,
        pytest.raises(InvalidJob, match=f'job {bulk.BATCH + 5}: lane "nowhere"'),
    ):
        app.submit_many(wrong, connection=connection)
    assert count(database_url) == 0
    with psycopg.connect(database_url) as connection:
        assert app.submit_many(wrong[:5], connection=connection).accepted == 5
        connection.rollback()
    assert count(database_url) == 0


@pytest.mark.parametrize("where", ["own", "transaction", "autocommit", "async", "async transaction"])
def test_wrong_ones_are_skipped_and_named(app: App, database_url: str, where: str) -> None:
    handler = handler_of(app)
    items: list[Any] = [
        handler.request(0),
        handler.options(lane="nowhere").request(1),
        "no request",
        handler.options(connection=object()).request(3),
        handler.request(4),
    ]

    async def in_async_transaction() -> BulkResult:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            return await app.submit_many_async(items, connection=connection, on_invalid="skip")

    async def on_the_loop() -> BulkResult:
        async with app:
            return await app.submit_many_async(items, on_invalid="skip")

    match where:
        case "own":
            result = app.submit_many(items, on_invalid="skip")
        case "async":
            result = asyncio.run(on_the_loop())
        case "async transaction":
            result = asyncio.run(in_async_transaction())
        case _:
            with psycopg.connect(database_url, autocommit=where == "autocommit") as connection:
                result = app.submit_many(items, connection=connection, on_invalid="skip")
                if where == "transaction":
                    assert count(database_url) == 0, "the transaction is the caller's to commit"
    assert (result.accepted, result.duplicates) == (2, 0)
    # those that are found here come before those that only the database finds
    assert [(index, reason.split()[0]) for index, reason in sorted(result.invalid)] == [(1, "lane"), (2, "'no"), (3, "its")]
    assert count(database_url) == 2


def test_the_default_is_to_raise(app: App, database_url: str) -> None:
    items: Any = [handler_of(app).request(0), None]
    with pytest.raises(InvalidJob, match="job 1: None is no JobRequest"):
        app.submit_many(items)
    wrong: Any = "ignore"
    with pytest.raises(ValueError, match="on_invalid='ignore'"):
        app.submit_many([], on_invalid=wrong)
    assert count(database_url) == 0


def test_an_id_that_is_held_by_an_open_transaction_waits_for_its_end(app: App, database_url: str) -> None:
    request = handler_of(app).request(1)
    handles: list[Any] = []
    with psycopg.connect(database_url) as connection:
        request.submit(connection=connection)
        thread = threading.Thread(target=lambda: handles.append(request.submit()))
        thread.start()
        connection.rollback()
    thread.join(20)
    assert not handles[0].duplicate
    assert count(database_url) == 1


def test_a_role_submits_for_itself_alone(app: App, database_url: str) -> None:
    role = f"r{new_job_id().replace('-', '')}"
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"create role {role} login password 'x' in role jobyard_client".encode())
        try:
            url = make_conninfo(database_url, user=role, password="x")
            with App(database_url=url) as own:
                handle = own.job(kind="mine")(plain).submit(1)
                assert app.handle(handle.id).status().submitter == role
                with pytest.raises(Refused, match="may not be submitted for") as found:
                    own.job(kind="theirs")(plain).options(submitter="somebody").submit(1)
                assert found.value.code == "JY008"
                with pytest.raises(ConfigurationError, match="jobyard_auditor"):
                    handle.status()
        finally:
            admin.execute(f"drop role {role}".encode())


def test_a_database_without_the_schema_names_the_mend(empty_database_url: str) -> None:
    with App(database_url=empty_database_url) as app, pytest.raises(ConfigurationError, match="jobyard db upgrade"):
        handler_of(app).submit(1)


def test_nobody_answers() -> None:
    with App(database_url="postgresql://nobody@127.0.0.1:1/none?connect_timeout=2") as app:
        with pytest.raises(ServiceUnavailable, match="Postgres"):
            handler_of(app).submit(1)
        with pytest.raises(ServiceUnavailable, match="Postgres"):
            asyncio.run(twin(app, handler_of(app, "b").request(1)))


def test_a_connection_that_died_is_replaced(app: App, database_url: str) -> None:
    handler = handler_of(app)
    handler.submit(1)

    async def main() -> None:
        await handler.submit_async(2)
        kill_clients(database_url)
        await handler.submit_async(3)
        await app.close_async()

    kill_clients(database_url)
    handler.submit(4)
    asyncio.run(main())
    assert count(database_url) == 4


def kill_clients(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and application_name = 'jobyard-client'"
        )


def clients(url: str) -> int:
    with psycopg.connect(url) as admin:
        row = admin.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'jobyard-client'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_it_opens_nothing_until_used_and_anew_after_close(app: App, database_url: str) -> None:
    handler = handler_of(app)
    handler.request(1)
    assert clients(database_url) == 0
    handler.submit(1)
    handler.submit(2)
    assert clients(database_url) == 1
    app.close()
    handler.submit(3)
    assert count(database_url) == 3


def test_many_threads_share_few_connections(app: App, database_url: str) -> None:
    handler = handler_of(app)
    threads = [threading.Thread(target=lambda: [handler.submit(x) for x in range(5)]) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert count(database_url) == 60
    assert 1 <= clients(database_url) <= 4


def test_connections_of_an_ended_loop_do_not_pile_up(app: App, database_url: str) -> None:
    handler = handler_of(app)
    for x in range(3):
        asyncio.run(submitted(handler, x))
    assert clients(database_url) <= 2
    app.close()


async def submitted(handler: Any, x: int) -> Any:
    return await handler.submit_async(x)


def _child(handler: Any, said: Any) -> None:
    said.send((os.getpid(), str(handler.submit(2).id)))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_after_a_fork_the_child_opens_its_own(app: App, database_url: str) -> None:
    handler = handler_of(app)
    first = handler.submit(1)
    hear, said = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_child, args=(handler, said))
    child.start()
    assert hear.poll(30), "the child did not submit"
    pid, job_id = hear.recv()
    child.join(30)
    assert pid != os.getpid()
    assert child.exitcode == 0
    third = handler.submit(3)
    assert [app.handle(h).status().args["x"] for h in (first.id, job_id, third.id)] == [1, 2, 3]


def test_arguments_keep_what_postgres_can_keep(app: App, database_url: str) -> None:
    @app.job
    def anything(value: object) -> None: ...

    values: list[object] = [2**200, -(2**63) - 1, 0.1, 'ü \U0001f600 " \\ \n', [None, True, {"": {}}], "\\u0000 literally"]
    for value in values:
        assert anything.submit(value).status().args == {"value": value}
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select args::text from jobyard.jobs order by id").fetchall()
    assert [json.loads(row[0])["value"] for row in rows] == values
