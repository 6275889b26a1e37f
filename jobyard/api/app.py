"""App: what a program defines its handlers on, and submits their jobs with."""

import importlib
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType, TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeAlias, TypeVar, Unpack, cast, overload
from uuid import UUID

from jobyard.api.context import JobContext
from jobyard.api.handle import JobHandle
from jobyard.api.handler import AsyncHandler, Handler, HandlerSpec, spec_of
from jobyard.api.options import HandlerOptions
from jobyard.api.request import JobRequest, problem_now
from jobyard.api.resource import AnyResource, Resource
from jobyard.api.size import Size
from jobyard.client import bulk
from jobyard.client.bulk import BulkItem, BulkResult, OnInvalid
from jobyard.client.client import Client, Overrides, SubmitVia
from jobyard.client.lookup import Json
from jobyard.contracts.declaration import Declaration

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

CallNext: TypeAlias = Callable[[], Awaitable[object]]
Middleware: TypeAlias = Callable[[JobContext, CallNext], Awaitable[object]]
_M = TypeVar("_M", bound=Middleware)


class JobDecorator(Protocol):
    """What `app.job(…)` with options gives."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncHandler[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Handler[P, R]: ...


class App:
    """Handlers by kind, resources and middleware, and the way to submit. Opens nothing until used, and anew after a fork or close()."""

    def __init__(
        self,
        *,
        imports: Sequence[str] = (),
        namespace: str | None = None,
        submitter: str | None = None,
        lane: str | None = None,
        database_url: str | None = None,
        kafka_bootstrap_servers: str | None = None,
        kafka_options: Mapping[str, str] | None = None,
        submit_via: SubmitVia | None = None,
    ) -> None:
        """`imports`: modules with handlers, imported by load(). All others: in place of the settings of the same name (None: those count)."""
        if isinstance(imports, str):
            raise TypeError(f"imports={imports!r} must be a list of module names")
        self._imports = tuple(imports)
        self._client = Client(
            Overrides(
                database_url=database_url,
                kafka_bootstrap_servers=kafka_bootstrap_servers,
                kafka_options=None if kafka_options is None else dict(kafka_options),
                namespace=namespace,
                lane=lane,
                submitter=submitter,
                submit_via=submit_via,
            )
        )
        self._handlers: dict[str, HandlerSpec] = {}
        self._defined: list[Handler[..., Any]] = []
        self._resources: list[AnyResource] = []
        self._middlewares: list[Middleware] = []

    # ------------------------------------------------------------------ defining

    @overload
    def job(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncHandler[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> Handler[P, R]: ...
    @overload
    def job(self, /, **options: Unpack[HandlerOptions]) -> JobDecorator: ...
    def job(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a handler: `@app.job`, `@app.job(…)`, or `app.job(kind="…")(object.method)`.

        TypeError or ValueError for what can't work: a signature that JSON can't feed, a kind that is taken, a generator.
        """
        given = cast("HandlerOptions", options)
        if function is not None:
            return self._define(function, given)

        def define(later: Callable[..., Any]) -> Handler[..., Any]:
            return self._define(later, given)

        return define

    def _define(self, function: Callable[..., Any], options: HandlerOptions) -> Handler[..., Any]:
        spec = spec_of(function, options)
        sort = AsyncHandler[..., Any] if spec.is_async else Handler[..., Any]
        handler = sort(spec, options, self._client, Size(spec.kind, options.get("size"), spec.shape), {})
        kinds = (spec.kind, *handler.aliases)
        for kind in kinds:
            taken = self._handlers.get(kind)
            if taken is not None or kinds.count(kind) > 1:
                other = handler if taken is None else taken.function
                raise ValueError(f"kind {kind!r} is taken by {getattr(other, '__module__', '?')}.{getattr(other, '__qualname__', other)}")
        for kind in kinds:
            self._handlers[kind] = spec
        self._defined.append(handler)
        return handler

    @overload
    def resource(self, function: Callable[[], AsyncIterator[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, function: Callable[[], Iterator[T]], /) -> Resource[T]: ...
    def resource(self, function: Any, /) -> Any:
        """A generator that opens something, yields it once, and closes it: opened once in each agent."""
        made = Resource[Any](function)
        self._resources.append(made)
        return made

    def middleware(self, function: _M, /) -> _M:
        """An `async def m(job, call_next): return await call_next()`, around each attempt. The first one defined is the outermost."""
        if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004 - an object's own
            raise TypeError(f"middleware {function!r} must be an async def")
        self._middlewares.append(function)
        return function

    # ------------------------------------------------------------------ what an agent needs

    @property
    def handlers(self) -> Mapping[str, HandlerSpec]:
        """The handlers by kind, aliases too."""
        return MappingProxyType(self._handlers)

    @property
    def middlewares(self) -> tuple[Middleware, ...]:
        """The middlewares, outermost first."""
        return tuple(self._middlewares)

    def load(self) -> None:
        """Import `imports`, so that all handlers are known. TypeError if one of them can't work; whatever an import raises."""
        for name in self._imports:
            importlib.import_module(name)
        for handler in self._defined:
            handler.spec.shape.complete()

    @asynccontextmanager
    async def resources(self) -> AsyncGenerator[None]:
        """Opens all resources in the order of their definition, and closes them in reverse."""
        async with AsyncExitStack() as stack:
            for resource in self._resources:
                await resource.open_in(stack)
            yield

    def declarations(self) -> list[Declaration]:
        """What `app sync` writes: one for each kind, aliases too. Call load() before."""
        return [declaration for handler in self._defined for declaration in handler.declarations()]

    # ------------------------------------------------------------------ submitting

    def submit_many(self, requests: Iterable[JobRequest[Any]], *, connection: object = None, on_invalid: OnInvalid = "raise") -> BulkResult:
        """Submit many jobs, in bounded memory. With a connection in its transaction; else a batch of 1,000 at a time is committed.

        `on_invalid`: "raise" stops at the first wrong one (earlier batches stay submitted), "skip" goes on and tells which.
        """
        return bulk.submit_many(self._client, _items(requests), connection, on_invalid)

    async def submit_many_async(
        self,
        requests: Iterable[JobRequest[Any]] | AsyncIterable[JobRequest[Any]],
        *,
        connection: object = None,
        on_invalid: OnInvalid = "raise",
    ) -> BulkResult:
        """submit_many(), for the event loop, from a plain or an async iterable."""
        items = _items_async(requests) if isinstance(requests, AsyncIterable) else _items(requests)
        return await bulk.submit_many_async(self._client, items, connection, on_invalid)

    def handle(self, job_id: UUID | str) -> JobHandle[Json]:
        """The handle of a job that was submitted before, of whatever kind; its result is plain JSON. No I/O."""
        return JobHandle(self._client, job_id, None)

    # ------------------------------------------------------------------ ending

    def close(self) -> None:
        """Close what was opened to submit and to look; the next use reads the settings again and opens anew."""
        self._client.close()

    async def close_async(self) -> None:
        """close(), for the event loop."""
        await self._client.close_async()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close_async()


def _item(index: int, request: object) -> BulkItem:
    if not isinstance(request, JobRequest):
        return BulkItem(index, None, problem=f"{request!r} is no JobRequest; make one with handler.request(…)")
    known: JobRequest[Any] = request  # pyright: ignore[reportUnknownVariableType] - the type of its result doesn't matter
    if known.has_connection:
        return BulkItem(index, None, problem="its options name a connection; give it to submit_many() instead")
    problem = problem_now(known.job)
    return BulkItem(index, None if problem else known.job, known.via, problem or "")


def _items(requests: Iterable[object]) -> Iterator[BulkItem]:
    for index, request in enumerate(requests):
        yield _item(index, request)


async def _items_async(requests: AsyncIterable[object]) -> AsyncIterator[BulkItem]:
    index = 0
    async for request in requests:
        yield _item(index, request)
        index += 1
