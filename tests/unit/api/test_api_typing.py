"""What the type checkers see. They check this file strictly; running it shows that the names are there."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, assert_type

from jobyard import App, AsyncHandler, Handler, JobContext, JobHandle, JobRequest, JobStatus, Resource
from jobyard.client.lookup import Json

app = App()


@app.job
def double(x: int) -> int:
    return 2 * x


@app.job(priority="high", size="minutes")
async def transcribe(path: str, minutes: float = 1) -> list[str]:
    return [path]


@app.job()
def nothing() -> None: ...


class Mailer:
    def send(self, to: str, *, cc: str = "") -> bool:
        return True


send = app.job(kind="mail.send")(Mailer().send)


@app.resource
async def pool() -> AsyncIterator[bytes]:
    yield b""


@app.resource
def cache() -> Iterator[dict[str, int]]:
    yield {}


@app.middleware
async def timed(job: JobContext, call_next: Callable[[], Awaitable[object]]) -> object:
    return await call_next()


def takes_any(handler: Handler[..., Any]) -> str:
    return handler.kind


def sync_types() -> None:
    assert_type(double(1), int)
    assert_type(double.submit(1), JobHandle[int])
    assert_type(double.submit(1).result(5), int)
    assert_type(double.submit(1).wait(), JobStatus)
    assert_type(double.request(x=1), JobRequest[int])
    assert_type(double.request(x=1).submit(connection=None), JobHandle[int])
    assert_type(double.options(priority="low", delay=5).submit(1), JobHandle[int])
    assert_type(transcribe.submit("a", minutes=2).result(), list[str])
    assert_type(transcribe.options(size=3).request("a"), JobRequest[list[str]])
    assert_type(transcribe.handle("…").result(), list[str])
    assert_type(send("a", cc="b"), bool)
    assert_type(send.submit("a"), JobHandle[bool])
    assert_type(app.handle("…").result(), Json)
    assert_type(pool, Resource[bytes])
    assert_type(pool.get(), bytes)
    assert_type(cache.get(), dict[str, int])
    takes_any(double)
    takes_any(transcribe)
    app.submit_many(double.request(i) for i in range(3))


async def async_types() -> None:
    await assert_type(transcribe("a"), Coroutine[Any, Any, list[str]])
    assert_type(await transcribe("a"), list[str])
    assert_type(await double.submit_async(1), JobHandle[int])
    assert_type(await (await transcribe.submit_async("a")).result_async(), list[str])
    assert_type(await transcribe.request("a").submit_async(), JobHandle[list[str]])


def wrong_types() -> None:
    """Each ignore is needed: both checkers report an ignore that is not."""
    double.submit("1")  # type: ignore[arg-type]  # a wrong argument is found
    double.submit()  # type: ignore[call-arg]  # a missing one
    double.request(1, y=2)  # type: ignore[call-arg]  # an unknown one
    transcribe.submit("a", minutes="2")  # type: ignore[arg-type]  # async handlers, too
    double.options(priority="urgent")  # type: ignore[arg-type]  # an unknown priority
    double.options(colour="red")  # type: ignore[call-arg]  # an unknown option
    app.job(isolation="process")  # type: ignore[call-overload]  # not there


def test_the_names_are_there() -> None:
    assert double(2) == 4
    assert type(double) is Handler
    assert type(transcribe) is AsyncHandler
    assert takes_any(send) == "mail.send"
    nothing()
