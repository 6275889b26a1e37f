"""Requests: what is sent of a job, and what is refused before anything is sent."""

import os
import threading
import timeit
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from jobyard import App, InvalidArgs, InvalidJob, JobContext, JobRequest, RetryPolicy, WrongPlace
from jobyard.api.context import bound
from jobyard.contracts.ids import derived_job_id, is_job_id, new_job_id
from jobyard.contracts.job import NewJob
from jobyard.contracts.retry import Retrying

app = App()


@app.job(lane="media", priority="high", size="minutes", timeout=600, tags={"team": "a"}, version=2, retry=RetryPolicy(max_attempts=3))
async def transcribe(path: str, minutes: float = 2.5) -> dict[str, object]:
    return {"path": path, "minutes": minutes}


@app.job
def plain(x: int = 0) -> int:
    return x


@app.job(size="order.lines.count")
def deep(order: dict[str, Any]) -> None: ...


def price(minutes: float, rate: float = 2) -> float:
    return minutes * rate


@app.job(size=price)
def computed(minutes: float, rate: float = 3) -> None: ...


def test_a_plain_job_leaves_all_to_its_kind() -> None:
    request = plain.request(7)
    assert request.job == NewJob(kind="plain", args=request.job.args, id=str(request.id))
    assert is_job_id(str(request.id))
    assert request.args == {"x": 7}
    assert request.kind == "plain"


def test_a_handler_says_what_it_says() -> None:
    job = transcribe.request("a.wav", minutes=3).job
    assert (job.lane, job.priority, job.size, job.timeout_s, job.version, job.max_attempts) == ("media", "high", 3.0, 600.0, 2, 3)
    assert job.tags == {"team": "a"}
    assert job.retry == Retrying()


def test_options_stand_over_the_handler() -> None:
    moment = datetime(2027, 1, 1, tzinfo=UTC)
    given = new_job_id()
    changed = transcribe.options(lane="other", priority="low", size=7, run_at=moment, timeout=timedelta(minutes=1), tags={"b": "c"})
    changed = changed.options(max_attempts=1, submitter="ann", id=UUID(given), via="kafka")
    request = changed.request("a")
    job = request.job
    assert (job.lane, job.priority, job.size, job.run_at, job.timeout_s, job.max_attempts) == ("other", "low", 7.0, moment, 60.0, 1)
    assert (job.tags, job.submitter, job.id, request.via) == ({"b": "c"}, "ann", given, "kafka")
    assert transcribe.request("a").job.lane == "media"


def test_a_jobs_own_retry_policy() -> None:
    job = plain.options(retry=RetryPolicy(max_attempts=9, backoff="linear", base=1)).request().job
    assert (job.max_attempts, job.retry) == (9, Retrying(backoff="linear", base_s=1.0))
    with pytest.raises(InvalidJob, match="no_retry_for"):
        plain.options(retry=RetryPolicy(no_retry_for=(ValueError,))).request()


def test_delay_is_counted_from_now() -> None:
    before = datetime.now(UTC)
    run_at = plain.options(delay=timedelta(hours=1)).request().job.run_at
    assert run_at is not None
    assert before + timedelta(hours=1) <= run_at <= datetime.now(UTC) + timedelta(hours=1)


def test_sizes() -> None:
    assert transcribe.request("a").job.size == 2.5
    assert deep.request({"lines": {"count": 4}}).job.size == 4.0
    assert computed.request(2).job.size == 6.0
    calls: list[Callable[[], object]] = [
        lambda: deep.request({}),
        lambda: deep.request({"lines": {"count": "4"}}),
        lambda: computed.request(-1),
    ]
    for call in calls:
        with pytest.raises(InvalidJob, match=r"size must be a number above 0") as found:
            call()
        assert found.value.field == "size"


def test_requests_are_frozen_and_each_is_its_own_job() -> None:
    request = plain.request(1)
    assert request != plain.request(1)
    assert request == request
    assert len({request, request, plain.request(1)}) == 2
    with pytest.raises(AttributeError, match="can't be changed"):
        request.via = "sql"


def test_wrong_calls_are_found_before_anything_is_sent() -> None:
    wrong: Any = transcribe
    with pytest.raises(TypeError, match=r"transcribe\(\): missing a required argument: 'path'"):
        wrong.submit()
    with pytest.raises(InvalidArgs, match="argument minutes: Expected `float`, got `str`"):
        wrong.request("a", minutes="3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run_at": datetime(2027, 1, 1)}, "run_at 2027-01-01T00:00:00 must have a time zone"),  # noqa: DTZ001 - that is what is tested
        ({"run_at": "now"}, "run_at \"'now'\" must be a datetime"),
        ({"run_at": datetime(2300, 1, 1, tzinfo=UTC)}, "between the years 1970 and 2200"),
        ({"delay": -1}, "delay -1 must be"),
        ({"delay": 1e300}, "beyond the year 2200"),
        ({"delay": 1, "run_at": datetime(2027, 1, 1, tzinfo=UTC)}, "exclude each other"),
        ({"priority": "urgent"}, "priority 'urgent' is unknown"),
        ({"size": -1}, "size -1.0 must be"),
        ({"size": "x"}, "size \"'x'\" must be a number"),
        ({"max_attempts": 0}, "max_attempts 0 must be a whole number"),
        ({"max_attempts": 1.5}, "max_attempts '1.5' must be a whole number"),
        ({"timeout": float("inf")}, "timeout inf must be"),
        ({"tags": {"a": 1}}, "tag"),
        ({"lane": "A B"}, "lane 'A B' must be"),
        ({"submitter": "a\nb"}, "submitter"),
        ({"id": "5"}, "must be a UUIDv7"),
        ({"id": derived_job_id(datetime(2020, 1, 1, tzinfo=UTC).timestamp(), "x")}, "days old"),
        ({"via": "pigeon"}, "via \"'pigeon'\" must be"),
    ],
    ids=str,
)
def test_wrong_options_are_invalid_jobs(options: Any, message: str) -> None:
    with pytest.raises(InvalidJob) as found:
        plain.options(**options).request()
    assert message in str(found.value)


def test_unknown_options_are_type_errors() -> None:
    with pytest.raises(TypeError, match="unknown option 'unique_key'"):
        plain.options(unique_key="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - that is what is tested


def test_arguments_over_the_limit_are_refused() -> None:
    @app.job(kind="text")
    def text(body: str) -> None: ...

    with pytest.raises(InvalidJob, match="1048588 bytes of JSON are more than the 1048576") as found:
        text.request("x" * 1048577)
    assert found.value.code == "JY010"
    with pytest.raises(InvalidJob, match="NUL"):
        text.request("\x00")


def unheard(done: float, total: float | None, message: str) -> None: ...


def context(**more: Any) -> JobContext:
    facts: dict[str, Any] = {
        "id": "01a22dcd-a6b8-767c-809c-7dd958532c65",
        "kind": "outer",
        "version": 1,
        "lane": "default",
        "attempt": 2,
        "attempts_used": 1,
        "max_attempts": 5,
        "fence": 9,
        "submitter": "ann",
        "tags": None,
        "parent_id": None,
        "deadline": None,
        "on_progress": unheard,
        "cancelled": threading.Event(),
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    return JobContext(**{**facts, **more})


def test_what_a_job_submits_has_it_as_parent() -> None:
    with bound(context()):
        job = plain.request().job
        other = plain.options(submitter="ben").request().job
    assert (job.parent, job.submitter) == ("01a22dcd-a6b8-767c-809c-7dd958532c65", "ann")
    assert job.traceparent == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert other.submitter == "ben"
    assert plain.request().job.parent is None


def test_waiting_inside_a_handler_is_an_error() -> None:
    handle = app.handle(new_job_id())
    with bound(context()), pytest.raises(WrongPlace, match="must not wait for another job"):
        handle.wait(0)
    with bound(context()), pytest.raises(WrongPlace, match="must not wait"):
        plain.handle(handle.id).result(0)


def test_handles_need_a_job_id() -> None:
    with pytest.raises(InvalidJob, match="must be a UUIDv7"):
        app.handle("7")
    given = new_job_id()
    assert app.handle(given.upper()) == plain.handle(UUID(given))


def test_blocking_calls_on_a_running_loop_name_their_twin() -> None:
    request = plain.request()
    handle = plain.handle(request.id)

    async def all_of_them() -> None:
        for call, name in (
            (request.submit, "submit_async"),
            (plain.submit, "submit_async"),
            (handle.status, "status_async"),
            (handle.wait, "wait_async"),
            (handle.result, "result_async"),
            (handle.history, "history_async"),
            (handle.cancel, "cancel_async"),
            (handle.retry, "retry_async"),
        ):
            with pytest.raises(WrongPlace, match=name):
                call()
        with pytest.raises(WrongPlace, match="submit_many_async"):
            app.submit_many([request])

    import asyncio

    asyncio.run(all_of_them())


def test_a_connection_of_an_unknown_type_is_named() -> None:
    with pytest.raises(TypeError, match=r"connection is a builtins\.object; it must be a psycopg 3 Connection"):
        plain.options(connection=object()).submit()
    with pytest.raises(TypeError, match="it must be a psycopg 3 Connection"):
        app.submit_many([plain.request()], connection="dsn")


def test_a_forgotten_connection_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = App(submit_via="connection")
    handler = strict.job(kind="strict")(lambda: None)
    with pytest.raises(ValueError, match="connection is missing"):
        handler.submit()


def test_without_addresses_the_settings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from jobyard import settings

    for name in [name for name in os.environ if name.startswith("JOBYARD_")]:
        monkeypatch.delenv(name)
    settings.client_settings.cache_clear()
    alone = App()
    handler = alone.job(kind="alone")(lambda: None)
    with pytest.raises(ValueError, match="JOBYARD_DATABASE_URL"):
        handler.submit()
    with pytest.raises(ValueError, match="JOBYARD_KAFKA_BOOTSTRAP_SERVERS"):
        handler.options(via="kafka").submit()
    settings.client_settings.cache_clear()


def test_a_request_is_cheap() -> None:
    best = min(timeit.repeat(lambda: plain.request(1), number=500, repeat=5)) / 500
    assert best < 200e-6, f"{best * 1e6:.0f} µs"  # 10 µs on an idle machine


def test_requests_tell_what_they_are() -> None:
    request: JobRequest[int] = plain.request(1)
    assert repr(request) == f"JobRequest(id='{request.id}', kind='plain')"
    assert repr(plain.handle(request.id)) == f"JobHandle('{request.id}')"
    assert repr(plain) == "Handler('plain')"
