"""Submitting by Kafka, on a real broker: what was accepted lies in the intake topic."""

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from jobyard import App, BulkResult, ConfigurationError, ServiceUnavailable
from jobyard.contracts import codec
from jobyard.contracts.job import NewJob
from jobyard.contracts.rules import RULES
from jobyard.contracts.topics import lane_topics
from jobyard.embedded.services import Addresses
from jobyard.kafka.admin import ensure_topics
from jobyard.kafka.consumer import Message, open_consumer


@pytest.fixture
def app(services: Addresses, database_url: str, namespace: str) -> Iterator[App]:
    ensure_topics(services.kafka_bootstrap_servers, {}, namespace, "default")
    with App(
        database_url=database_url, kafka_bootstrap_servers=services.kafka_bootstrap_servers, namespace=namespace, submit_via="kafka"
    ) as made:
        yield made


def plain(x: int = 0, text: str = "") -> int:
    return x


def messages(services: Addresses, namespace: str, jobs: int, lane: str = "default") -> list[list[NewJob]]:
    """The messages of the intake topic, read until they hold that many jobs."""
    found: list[list[NewJob]] = []
    consumer = open_consumer(services.kafka_bootstrap_servers, {}, namespace=namespace)
    try:
        consumer.assign([(lane_topics(namespace, lane).intake.name, 0, 0)])
        deadline = time.monotonic() + 30
        while sum(map(len, found)) < jobs:
            assert time.monotonic() < deadline, f"{sum(map(len, found))} of {jobs} jobs came"
            read = consumer.poll(1.0)
            if isinstance(read, Message):
                intake = codec.decode_intake(read.value, lane, time.time(), RULES)
                assert not intake.bad
                assert not intake.refused
                found.append(intake.jobs)
    finally:
        consumer.close()
    return found


def test_a_job_lies_in_the_intake_topic_when_submit_returns(app: App, services: Addresses, namespace: str) -> None:
    handler = app.job(kind="plain", priority="low")(plain)
    handle = handler.submit(2**70)
    assert not handle.duplicate
    [[job]] = messages(services, namespace, 1)
    assert (job.kind, job.id, job.priority, bytes(job.args)) == ("plain", str(handle.id), "low", b'{"x":%d}' % 2**70)


def test_the_same_request_has_the_same_id_whichever_way(app: App, services: Addresses, database_url: str, namespace: str) -> None:
    handler = app.job(kind="plain")(plain)
    request = handler.request(1)
    request.submit()
    request.submit()
    by_sql = handler.options(via="sql", id=request.id).submit(1)
    assert messages(services, namespace, 2) == [[request.job], [request.job]]
    assert by_sql.id == request.id
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select id from jobyard.jobs").fetchall() == [(request.id,)]


def test_async(app: App, services: Addresses, namespace: str) -> None:
    handler = app.job(kind="plain")(plain)

    async def main() -> None:
        async with app:
            await handler.submit_async(1)
            assert await app.submit_many_async(handler.request(x) for x in range(5)) == BulkResult(5, 0, ())

    asyncio.run(main())
    assert [len(jobs) for jobs in messages(services, namespace, 6)] == [1, 5]


def test_many_are_cut_at_1_mib(app: App, services: Addresses, namespace: str) -> None:
    handler = app.job(kind="plain")(plain)
    result = app.submit_many(handler.request(x, "ü" * 5000) for x in range(500))
    assert result == BulkResult(500, 0, ())
    found = messages(services, namespace, 500)
    assert len(found) >= 5
    assert [job.args for jobs in found for job in jobs] == sorted((job.args for jobs in found for job in jobs), key=number)
    assert all(len(codec.encode_intake(jobs)) <= RULES.batch_bytes for jobs in found)
    app.close()
    handler.submit(1)


def number(args: Any) -> int:
    import json

    return int(json.loads(bytes(args))["x"])


def test_ways_may_be_mixed(app: App, services: Addresses, database_url: str, namespace: str) -> None:
    handler = app.job(kind="plain")(plain)
    by_sql = handler.options(via="sql")
    result = app.submit_many([handler.request(1), by_sql.request(2), handler.request(3)])
    assert result == BulkResult(3, 0, ())
    assert len(messages(services, namespace, 2)[0]) == 2
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from jobyard.jobs").fetchone() == (1,)
        skipped = app.submit_many([handler.options(via="kafka").request(4), handler.request(5)], connection=connection, on_invalid="skip")
    assert (skipped.accepted, [index for index, _ in skipped.invalid]) == (1, [0])


def test_many_threads(app: App, services: Addresses, namespace: str) -> None:
    handler = app.job(kind="plain")(plain)
    threads = [threading.Thread(target=lambda: [handler.submit(x) for x in range(10)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({job.id for jobs in messages(services, namespace, 80) for job in jobs}) == 80


def test_a_lane_without_topics_names_the_mend(app: App) -> None:
    handler = app.job(kind="plain")(plain)
    with pytest.raises(ConfigurationError, match="nowhere"):
        handler.options(lane="nowhere").submit(1)


def test_a_broker_that_does_not_answer(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobyard.client.kafka.ANSWER_S", 1.5)
    with App(kafka_bootstrap_servers="127.0.0.1:1", namespace=namespace, submit_via="kafka") as app:
        request = app.job(kind="plain")(plain).request(1)
        with pytest.raises(ServiceUnavailable, match="submitting the same request again is one job"):
            request.submit()


def _child(handler: Any, said: Any) -> None:
    said.send(str(handler.submit(2).id))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_after_a_fork_the_child_opens_its_own(app: App, services: Addresses, namespace: str) -> None:
    handler = app.job(kind="plain")(plain)
    handler.submit(1)
    hear, said = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_child, args=(handler, said))
    child.start()
    assert hear.poll(30), "the child did not submit"
    child.join(30)
    assert child.exitcode == 0
    handler.submit(3)
    assert [number(job.args) for jobs in messages(services, namespace, 3) for job in jobs] == [1, 2, 3]
