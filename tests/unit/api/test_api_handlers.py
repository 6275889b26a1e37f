"""Defining handlers: names, options, what can't work."""

import functools
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from jobyard import App, AsyncHandler, Handler, InvalidArgs, JobContext, RetryPolicy, WrongPlace
from jobyard.contracts.declaration import Declaration
from jobyard.contracts.retry import Retrying

if TYPE_CHECKING:
    from datetime import tzinfo


def test_bare_and_with_options() -> None:
    app = App()

    @app.job
    def plain(x: int) -> int:
        """Doubles."""
        return 2 * x

    @app.job(kind="mail.send", aliases=["mail"], version=3, timeout=timedelta(minutes=1), retry=RetryPolicy(max_attempts=2))
    async def send(to: str) -> str:
        return to

    assert isinstance(plain, Handler)
    assert isinstance(send, AsyncHandler)
    assert plain(4) == 8
    assert plain.__doc__ == "Doubles."
    assert (plain.kind, plain.spec.version, plain.spec.timeout_s, plain.spec.is_async) == ("plain", 1, None, False)
    assert set(app.handlers) == {"plain", "mail.send", "mail"}
    spec = app.handlers["mail"]
    assert spec is app.handlers["mail.send"]
    assert (spec.kind, spec.version, spec.timeout_s, spec.is_async, spec.policy.max_attempts) == ("mail.send", 3, 60.0, True, 2)
    assert spec.isolation == "thread"
    assert spec.decode_args(b'{"to":"x"}') == {"to": "x"}
    assert spec.encode_result(None) == b"null"


def test_a_direct_call_of_an_async_handler_is_its_coroutine() -> None:
    app = App()

    @app.job
    async def answer() -> int:
        return 42

    call = answer()
    with pytest.raises(StopIteration) as done:
        call.send(None)
    assert done.value.value == 42


def test_arguments_may_be_called_as_they_like() -> None:
    app = App()

    @app.job
    def odd(self: int, connection: object = None, id: int = 0, kind: str = "", args: object = None) -> list[object]:  # noqa: A002 - tested
        return [self, connection, id, kind, args]

    request = odd.request(self=1, connection={"a": 1}, id=2, kind="x", args=[3])
    assert odd(**odd.spec.decode_args(request.job.args)) == [1, {"a": 1}, 2, "x", [3]]  # type: ignore[arg-type]  # any JSON
    assert odd(self=1) == [1, None, 0, "", None]


def test_a_kind_used_twice_is_an_error() -> None:
    app = App()
    app.job(kind="a", aliases=["b"])(lambda: None)
    for options in ({"kind": "a"}, {"kind": "b"}, {"kind": "c", "aliases": ["a"]}, {"kind": "d", "aliases": ["d"]}):
        with pytest.raises(ValueError, match="is taken"):
            app.job(**options)(lambda: None)  # pyright: ignore[reportCallIssue, reportArgumentType] - a table of options
    assert set(app.handlers) == {"a", "b"}


class Mailer:
    def __init__(self) -> None:
        self.sent: list[str] = []

    def send(self, to: str) -> int:
        self.sent.append(to)
        return len(self.sent)

    @staticmethod
    def check(to: str) -> bool:
        return "@" in to


def test_methods_are_bound_or_static() -> None:
    app = App()
    mailer = Mailer()
    handler = app.job(kind="mail.send")(mailer.send)
    assert handler.spec.function(**handler.spec.decode_args(b'{"to":"a"}')) == 1
    assert mailer.sent == ["a"]
    assert app.job(Mailer.check)("a@b")
    with pytest.raises(TypeError, match="without its object"):
        app.job(Mailer.send)


def test_callable_objects_and_partials() -> None:
    app = App()

    class Adder:
        async def __call__(self, a: int) -> int:
            return a

    def add(a: int, b: int) -> int:
        return a + b

    assert app.job(kind="object")(Adder()).spec.is_async
    partial = app.job(kind="partial")(functools.partial(add, b=2))
    assert partial.spec.function(**partial.spec.decode_args(b'{"a":1}')) == 3
    with pytest.raises(InvalidArgs):
        partial.spec.decode_args(b'{"a":"x"}')


def test_what_can_not_be_a_handler() -> None:
    app = App()

    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(TypeError, match="generator"):
            app.job(function)
    with pytest.raises(TypeError, match="has no name"):
        app.job(lambda: None)
    with pytest.raises(TypeError, match="no function"):
        app.job(Mailer)
    with pytest.raises(TypeError, match="no function"):
        app.job(5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType] - that is what is tested


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": ""}, "kind '' must be"),
        ({"kind": "a b"}, "kind 'a b' must be"),
        ({"aliases": ["ü"]}, "must be 1 to 200 printable"),
        ({"version": 0}, "version 0 must be a whole number"),
        ({"priority": "urgent"}, "priority 'urgent' is unknown"),
        ({"timeout": 0}, "timeout 0 must be"),
        ({"timeout": "1"}, "timeout \"'1'\" must be seconds"),
        ({"isolation": "process"}, "isolation='process' is unknown"),
        ({"lane": "Big Lane"}, "lane 'Big Lane' must be"),
        ({"tags": {"": "x"}}, "tags '': 'x' must be an object"),
        ({"size": 0}, "size=0 must be"),
        ({"size": "hours"}, "size='hours' names no argument; there are minutes"),
        ({"size": "minutes..x"}, "must be an argument's name"),
        ({"size": True}, "size=True must be"),
        ({"retry": 3}, "retry=3 must be a RetryPolicy"),
        ({"limits": {}}, "unknown option 'limits'"),
    ],
    ids=str,
)
def test_wrong_options_are_errors_at_decoration(options: dict[str, Any], message: str) -> None:
    app = App()

    def function(minutes: int) -> None: ...

    decorate: Callable[..., Any] = app.job
    with pytest.raises((ValueError, TypeError)) as found:
        decorate(**options)(function)
    assert message in str(found.value)
    assert not app.handlers


def test_annotations_that_come_later_are_evaluated_at_load() -> None:
    app = App()

    def function(x: object) -> None: ...

    function.__annotations__["x"] = "Later"  # as a class further down in the module would be
    early = app.job(kind="early")(function)

    with pytest.raises(TypeError, match=r"early: an annotation can't be evaluated.*Later"):
        app.load()
    globals()["Later"] = int
    try:
        app.load()
        assert early.spec.decode_args(b'{"x":1}') == {"x": 1}
    finally:
        del globals()["Later"]


def test_a_type_checking_import_is_named() -> None:
    app = App()

    @app.job
    def zoned(zone: "tzinfo") -> None: ...

    with pytest.raises(TypeError, match="TYPE_CHECKING"):
        zoned.spec.decode_args(b"{}")


def test_load_imports_modules() -> None:
    app = App(imports=["jobyard_test_jobs"])
    module = types.ModuleType("jobyard_test_jobs")
    sys.modules["jobyard_test_jobs"] = module
    try:
        app.load()
    finally:
        del sys.modules["jobyard_test_jobs"]
    with pytest.raises(ModuleNotFoundError):
        App(imports=["jobyard_no_such_module"]).load()
    with pytest.raises(TypeError, match="list of module names"):
        App(imports="shop")


def test_declarations_name_what_the_code_says() -> None:
    app = App()

    @app.job(
        aliases=["old"],
        version=2,
        lane="media",
        priority="high",
        size="minutes",
        timeout=5,
        tags={"team": "a"},
        retry=RetryPolicy(max_attempts=3, base=timedelta(seconds=1)),
    )
    def transcribe(minutes: float) -> None: ...

    @app.job(size=lambda: 3.0)
    def plain() -> None: ...

    retry = Retrying(base_s=1.0)
    expected = [
        Declaration(
            kind=kind,
            version=2,
            lane="media",
            priority=1,
            size_arg="minutes",
            timeout_s=5.0,
            max_attempts=3,
            retry=retry,
            tags={"team": "a"},
        )
        for kind in ("transcribe", "old")
    ]
    assert app.declarations() == [*expected, Declaration(kind="plain")]


async def _resources(app: App, log: list[str], *, fail: bool) -> None:
    async with app.resources():
        log.append("inside")
        if fail:
            raise RuntimeError("inside")


def drive(work: Awaitable[Any]) -> None:
    """Run what never really waits."""
    step = work.__await__()
    with pytest.raises(StopIteration):
        next(step)


def test_resources_open_in_order_and_close_in_reverse() -> None:
    app, log = App(), list[str]()

    @app.resource
    async def pool() -> AsyncIterator[str]:
        log.append("pool opens")
        try:
            yield "the pool"
        finally:
            log.append("pool closes")

    @app.resource
    def cache() -> Iterator[int]:
        log.append(f"cache opens on {pool.get()}")
        yield 7
        log.append(f"cache closes before {pool.get()}")

    with pytest.raises(WrongPlace, match="not open"):
        pool.get()
    for _ in range(2):
        log.clear()
        drive(_resources(app, log, fail=False))
        assert log == ["pool opens", "cache opens on the pool", "inside", "cache closes before the pool", "pool closes"]
    with pytest.raises(WrongPlace):
        cache.get()
    log.clear()
    with pytest.raises(RuntimeError, match="inside"):
        _resources(app, log, fail=True).send(None)
    assert log[-1] == "pool closes"


def test_a_resource_is_a_generator_without_arguments() -> None:
    app = App()

    def needs(x: int) -> Iterator[int]:
        yield x

    with pytest.raises(TypeError, match="must need no argument"):
        app.resource(needs)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType] - that is what is tested
    with pytest.raises(TypeError, match="must be a function that yields"):
        app.resource(lambda: iter([1]))


def test_middlewares_keep_their_order() -> None:
    app = App()

    @app.middleware
    async def outer(job: JobContext, call_next: Callable[[], Awaitable[object]]) -> object:
        return await call_next()

    @app.middleware
    async def inner(job: JobContext, call_next: Callable[[], Awaitable[object]]) -> object:
        return await call_next()

    def plain(job: JobContext, call_next: Callable[[], Awaitable[object]]) -> Awaitable[object]:
        return call_next()

    assert app.middlewares == (outer, inner)
    with pytest.raises(TypeError, match="async def"):
        app.middleware(plain)
