"""Handlers that do what no handler should. Each has what must become of its attempt: (outcome, type of the error), and None for a good one."""

import asyncio
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Final, NoReturn, TypeAlias

from jobyard import App, Fail, Retry, RetryPolicy, Snooze, current_job
from jobyard.api import context as api_context

Expected: TypeAlias = tuple[str, str | None]
app = App()
EXPECTED: Final[dict[str, Expected]] = {}
ONCE: Final = RetryPolicy(max_attempts=2, base=1.0, jitter=0)
MEGABYTES: Final = 100 * 1_048_576
SUCCEEDED: Final[Expected] = ("succeeded", None)
UNFIT: Final[Expected] = ("failed", "jobyard.InvalidResult")


def returns(kind: str, expected: Expected, make: Callable[[], object]) -> None:
    """Two handlers, a coroutine and a plain function, that return what is made."""

    async def coroutine() -> Any:
        return make()

    def plain() -> Any:
        return make()

    for name, handler in ((f"{kind}.async", coroutine), (f"{kind}.plain", plain)):
        app.job(kind=name, retry=ONCE)(handler)
        EXPECTED[name] = expected


def raises(kind: str, error: str, make: Callable[[], BaseException], outcome: str = "failed", of_async: str | None = None) -> None:
    """Two handlers that raise what is made. `of_async`: the type that a coroutine makes of it."""

    def throw() -> NoReturn:
        raise make()

    returns(kind, (outcome, error), throw)
    if of_async is not None:
        EXPECTED[f"{kind}.async"] = (outcome, of_async)


# ---- results


class Hangs:
    """Takes its time to be shown, and is no JSON."""

    def __repr__(self) -> str:
        time.sleep(0.3)
        return "at last"


class Raises:
    """Whatever is done with it raises."""

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __str__(self) -> str:
        raise ValueError("no str")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("nothing here")


class Exits:
    """Showing it ends the process, it hopes."""

    def __repr__(self) -> str:
        raise SystemExit(3)


def itself() -> object:
    found: list[object] = []
    found.append(found)
    return found


def nested(levels: int) -> object:
    found: object = 1
    for _ in range(levels):
        found = [found]
    return found


def endless() -> Iterator[int]:
    while True:
        yield 1


async def slowly() -> AsyncIterator[int]:
    yield 1


async def never_awaited() -> int:
    return 1


def a_coroutine() -> Coroutine[Any, Any, int]:
    warnings.simplefilter("ignore", RuntimeWarning)
    return never_awaited()


returns("nul", UNFIT, lambda: "a\x00b")
returns("nul.inside", UNFIT, lambda: {"a": [{"b\x00": 1}]})
returns("surrogate", UNFIT, lambda: "a\ud800b")
returns("nan", UNFIT, lambda: float("nan"))
returns("infinity.inside", UNFIT, lambda: {"a": [float("inf")]})
returns("bytes", SUCCEEDED, lambda: b"abc")  # as base64
returns("bytes.bad", SUCCEEDED, lambda: b"\xff\xfe")
returns("set", SUCCEEDED, lambda: {1, 2})
returns("itself", UNFIT, itself)
returns("deep", UNFIT, lambda: nested(10_000))
returns("deep.enough", UNFIT, lambda: nested(300))
returns("large", UNFIT, lambda: "x" * MEGABYTES)
returns("generator", UNFIT, endless)
returns("generator.async", UNFIT, slowly)
returns("coroutine", UNFIT, a_coroutine)
returns("object", UNFIT, object)
returns("object.raises", UNFIT, Raises)
returns("object.hangs", UNFIT, Hangs)
returns("object.exits", ("failed", "SystemExit"), Exits)
returns("keys", UNFIT, lambda: {(1, 2): 3, "a": object()})
returns("huge.integer", SUCCEEDED, lambda: 2**63)
returns("function", UNFIT, lambda: nested)


# ---- errors


class NoText(Exception):
    """Its text raises."""

    def __str__(self) -> str:
        raise KeyError("no text")


class ExitingText(Exception):
    """Its text exits."""

    def __str__(self) -> str:
        raise SystemExit(4)


class WrongText(Exception):
    """Its text is none."""

    def __str__(self) -> Any:
        return 5


class Pretending(Exception):
    """Says that it is of another class, or raises when asked."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - what nobody should do
        raise RuntimeError("no class")


def renamed() -> BaseException:
    found = type("Renamed", (Exception,), {})
    found.__qualname__ = "a\ud800\x00b" * 1_000
    found.__module__ = 5  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue] - what nobody should do
    error: BaseException = found("x")
    return error


def chain(length: int) -> BaseException:
    first: BaseException = ValueError(0)
    for n in range(length):
        later = ValueError(n)
        later.__cause__ = first
        first = later
    return first


def groups(depth: int) -> BaseException:
    found: Exception = ValueError("innermost")
    for _ in range(depth):
        parts: list[Exception] = [found, ValueError("beside")]
        found = ExceptionGroup("g", parts)
    return found


def spoilt_snooze(delay: object) -> BaseException:
    error = Snooze(1.0)
    error.delay_s = delay  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue] - what nobody should do
    return error


def recursion() -> BaseException:
    def even(n: int) -> int:
        return odd(n + 1)

    def odd(n: int) -> int:
        return even(n + 1)

    try:
        even(0)
    except RecursionError as error:
        return error
    raise AssertionError


raises("error.nul", "ValueError", lambda: ValueError("a\x00b\ud800c\n"))
raises("error.large", "ValueError", lambda: ValueError("x" * MEGABYTES))
raises("error.no-text", "hostile_jobs.NoText", NoText)
raises("error.exiting-text", "hostile_jobs.ExitingText", ExitingText)
raises("error.wrong-text", "hostile_jobs.WrongText", WrongText)
raises("error.pretending", "Unreadable", Pretending)
raises("error.renamed", "", renamed)
raises("error.group", "ExceptionGroup", lambda: groups(3))
raises("error.groups", "ExceptionGroup", lambda: groups(10_000))
raises("error.chain", "ValueError", lambda: chain(10_000))
raises("error.recursion", "RecursionError", recursion)
raises("exit", "SystemExit", lambda: SystemExit(0))
raises("interrupt", "KeyboardInterrupt", KeyboardInterrupt)
raises("generator-exit", "GeneratorExit", GeneratorExit)
raises("cancelled", "asyncio.exceptions.CancelledError", asyncio.CancelledError)
raises("stop", "StopIteration", lambda: StopIteration(1), of_async="RuntimeError")
raises("stop.async", "StopAsyncIteration", lambda: StopAsyncIteration(1))
raises("base", "BaseException", lambda: BaseException("b"))
raises("timeout", "TimeoutError", TimeoutError)
raises("fail.nul", "jobyard.Fail", lambda: Fail("a\x00b"))
raises("retry.nan", "jobyard.Retry", lambda: Retry(float("nan")))
raises("retry.negative", "jobyard.Retry", lambda: Retry(-1e12))
raises("retry.long", "jobyard.Retry", lambda: Retry(1e300))
raises("snooze.none", "", lambda: spoilt_snooze(None), "snoozed")
raises("snooze.text", "", lambda: spoilt_snooze("soon"), "snoozed")
raises("snooze.huge", "", lambda: spoilt_snooze(10**400), "snoozed")
raises("snooze.nan", "", lambda: spoilt_snooze(float("nan")), "snoozed")
raises("snooze.negative", "", lambda: spoilt_snooze(-5), "snoozed")
raises("snooze.infinite", "", lambda: spoilt_snooze(float("inf")), "snoozed")


# ---- what they do to the process


def does(expected: Expected) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def register(handler: Callable[[], Any]) -> Callable[[], Any]:
        kind = f"does.{handler.__name__}"
        app.job(kind=kind, retry=ONCE)(handler)
        EXPECTED[kind] = expected
        return handler

    return register


@does(("failed", "RuntimeError"))
async def closes_the_loop() -> None:
    asyncio.get_running_loop().close()


@does(SUCCEEDED)
async def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()


@does(SUCCEEDED)
async def leaves_a_task_that_exits() -> None:
    async def exits() -> None:
        raise SystemExit(5)

    asyncio.get_running_loop().create_task(exits())
    await asyncio.sleep(0.05)


@does(SUCCEEDED)
async def leaves_a_callback_that_interrupts() -> None:
    def interrupts() -> None:
        raise KeyboardInterrupt

    asyncio.get_running_loop().call_soon(interrupts)
    await asyncio.sleep(0.05)


@does(("failed", "asyncio.exceptions.CancelledError"))
async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


@does(SUCCEEDED)
async def cancels_itself_and_returns() -> int:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return 1


@does(SUCCEEDED)
def replaces_the_current_job() -> None:
    api_context._current.set(None)  # pyright: ignore[reportPrivateUsage] - what nobody should do
    current_job().progress(1)


@does(("failed", "ValueError"))
def says_nonsense_of_its_progress() -> None:
    current_job().progress(float("nan"))


@does(("failed", "AttributeError"))
def changes_its_context() -> None:
    current_job().id = "another"  # type: ignore[misc, assignment] # pyright: ignore[reportAttributeAccessIssue] - what nobody should do


@does(SUCCEEDED)
def says_much_of_its_progress() -> None:
    job = current_job()
    job.progress(1e308, -1e308, "x\x00\ud800" * 1_000_000)
    for n in range(2_000):
        job.progress(n)

    def later() -> None:
        job.progress(2)
        time.sleep(0.5)
        job.progress(3, None, "after the end")

    threading.Thread(target=later, daemon=True).start()
    time.sleep(0.6)


@does(SUCCEEDED)
def forks_and_comes_back_twice() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    return 0


@does(SUCCEEDED)
def sets_the_recursion_limit() -> None:
    sys.setrecursionlimit(220)


@does(SUCCEEDED)
def disturbs_logging() -> None:
    time.sleep(3.0)  # after the others, whose own lines it would break

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("disk full")

    logging.getLogger().handlers[:] = [Broken()]
    logging.getLogger().setLevel(logging.DEBUG)
    for name in ("jobyard", "jobyard.agent"):
        logging.getLogger(name).addFilter(lambda record: 1 / 0)  # type: ignore[arg-type, return-value] # pyright: ignore[reportArgumentType] - what nobody should do


@does(SUCCEEDED)
def prints_much() -> None:
    line = "x" * 1_048_575 + "\n"
    for _ in range(100):
        sys.stdout.write(line)


@does(SUCCEEDED)
def closes_stderr() -> None:
    """To which logging writes, if nobody has told it where."""
    sys.stderr.close()


@app.job
async def good() -> str:
    await asyncio.sleep(0.01)
    return "good"


@app.job
def good_too() -> str:
    return "good"
