"""Handlers: functions that App.job has made submittable, and what an agent must know of each (HandlerSpec)."""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, ParamSpec, Self, TypeVar, Unpack, cast
from uuid import UUID

import msgspec

from jobyard.api.handle import JobHandle
from jobyard.api.options import HandlerOptions, JobOptions, positive_seconds
from jobyard.api.request import JobRequest, check_options, request_of
from jobyard.api.shape import Shape
from jobyard.api.size import Size
from jobyard.client.client import Client
from jobyard.contracts.declaration import Declaration
from jobyard.contracts.job import NO_ARGS, NewJob, problem_of
from jobyard.contracts.priority import MEDIUM, NUMBERS
from jobyard.contracts.retry import RetryPolicy
from jobyard.contracts.rules import RULES
from jobyard.contracts.topics import problem_of_name

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class HandlerSpec:
    """What an agent must know to run jobs of a kind. `timeout_s`: None = none. `kind` is the handler's own, also under an alias."""

    kind: str
    version: int
    function: Callable[..., Any]
    is_async: bool
    policy: RetryPolicy
    timeout_s: float | None
    isolation: Literal["thread"]
    shape: Shape

    def decode_args(self, raw: bytes | msgspec.Raw) -> dict[str, object]:
        """The keyword arguments of a job. InvalidArgs if they do not fit."""
        return self.shape.arguments.decode(raw)

    def encode_result(self, value: object, most: int = RULES.max_result_bytes) -> bytes:
        """A result as JSON of at most `most` bytes. InvalidResult if it can't be one."""
        return self.shape.results.encode(value, most)


class Handler(Generic[P, R_co]):
    """What `@app.job` gives for a plain function. Called directly, it is that function. `Handler[..., Any]` takes any handler, async ones too."""

    def __init__(self, spec: HandlerSpec, defaults: HandlerOptions, client: Client, size: Size, options: JobOptions) -> None:
        self.spec = spec
        self._defaults = defaults
        self._client = client
        self._size = size
        self._options = options
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(spec.function, name):
                setattr(self, name, getattr(spec.function, name))
        self.__wrapped__ = spec.function

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec.kind!r})"

    @property
    def kind(self) -> str:
        """The name under which its jobs go."""
        return self.spec.kind

    @property
    def aliases(self) -> tuple[str, ...]:
        """Old kinds that it still runs."""
        return tuple(self._defaults.get("aliases", ()))

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The function itself, here and now."""
        return cast("R_co", self.spec.function(*args, **kwargs))

    def options(self, **options: Unpack[JobOptions]) -> Self:
        """A copy whose jobs get these options, on top of those of this one."""
        check_options(options)
        merged: JobOptions = {**self._options, **options}
        return type(self)(self.spec, self._defaults, self._client, self._size, merged)

    def request(self, /, *args: P.args, **kwargs: P.kwargs) -> JobRequest[R_co]:
        """A job with its id, not sent yet. TypeError: the arguments don't fit the signature. InvalidJob: something of it is wrong."""
        return self._request(args, kwargs)

    def submit(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Submit a job. Blocks. ServiceUnavailable: whether it got there is unknown; use request() to be able to submit the same job again."""
        return self._request(args, kwargs).submit()

    async def submit_async(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """submit(), for the event loop."""
        return await self._request(args, kwargs).submit_async()

    def handle(self, job_id: UUID | str) -> JobHandle[R_co]:
        """The handle of a job of this kind that was submitted before. No I/O."""
        return JobHandle(self._client, job_id, self.spec.shape)

    def declarations(self) -> list[Declaration]:
        """What `app sync` writes of it: its kind and its aliases."""
        given = self._defaults
        policy = self.spec.policy
        return [
            Declaration(
                kind=kind,
                version=self.spec.version,
                lane=given.get("lane"),
                priority=NUMBERS[given["priority"]] if "priority" in given else MEDIUM,
                size_arg=self._size.path,
                size=self._size.fixed or 1.0,
                timeout_s=self.spec.timeout_s,
                max_attempts=policy.max_attempts,
                retry=policy.retrying if "retry" in given else None,
                tags=dict(given["tags"]) if "tags" in given else None,
            )
            for kind in (self.spec.kind, *self.aliases)
        ]

    def _request(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> JobRequest[R_co]:
        return request_of(self.spec.kind, self.spec.shape, self._size, self._defaults, self._options, self._client, args, kwargs)


class AsyncHandler(Handler[P, Any], Generic[P, R_co]):
    """What `@app.job` gives for an `async def`: a direct call gives its coroutine."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """The coroutine of the function itself."""
        return cast("Coroutine[Any, Any, R_co]", self.spec.function(*args, **kwargs))

    def request(self, /, *args: P.args, **kwargs: P.kwargs) -> JobRequest[R_co]:
        """A job with its id, not sent yet. TypeError: the arguments don't fit the signature. InvalidJob: something of it is wrong."""
        return self._request(args, kwargs)

    def submit(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Submit a job. Blocks, so not on an event loop, unless `connection` is a sync one."""
        return self._request(args, kwargs).submit()

    async def submit_async(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Submit a job. ServiceUnavailable: whether it got there is unknown; use request() to be able to submit the same job again."""
        return await self._request(args, kwargs).submit_async()

    def handle(self, job_id: UUID | str) -> JobHandle[R_co]:
        """The handle of a job of this kind that was submitted before. No I/O."""
        return JobHandle(self._client, job_id, self.spec.shape)


def spec_of(function: Callable[..., Any], options: HandlerOptions) -> HandlerSpec:
    """The spec of a function. TypeError for what can't be a handler, ValueError (InvalidJob among them) for a wrong option."""
    given: Any = function
    if isinstance(function, staticmethod):
        given = function.__func__  # pyright: ignore[reportUnknownMemberType] - any callable
    if not callable(given) or inspect.isclass(given):
        raise TypeError(f"{given!r} is no function")
    kind = options["kind"] if "kind" in options else _own_name(given)
    call: Any = given if inspect.isroutine(given) else getattr(given, "__call__", given)  # noqa: B004 - an object's own, to see whether it is async
    if any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in (given, call)):
        raise TypeError(f"{kind}: a generator can't be a handler; its result must be one value")
    _refuse_unbound(kind, given)
    _check_options(kind, options)
    return HandlerSpec(
        kind=kind,
        version=options.get("version", 1),
        function=given,
        is_async=inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(call),
        policy=options.get("retry", RetryPolicy()),
        timeout_s=positive_seconds("timeout", options["timeout"]) if "timeout" in options else None,
        isolation=options.get("isolation", "thread"),
        shape=Shape(kind, given),
    )


def _own_name(function: Callable[..., Any]) -> str:
    name: str = getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise TypeError(f"{function!r} has no name; give one: app.job(kind=…)")
    return name


def _refuse_unbound(kind: str, function: Callable[..., Any]) -> None:
    """A function in a class body has no object to be called on."""
    parent = getattr(function, "__qualname__", "").rpartition(".")[0]
    if parent and not parent.endswith("<locals>") and not inspect.ismethod(function):
        first = next(iter(inspect.signature(function).parameters), None)
        if first in ("self", "cls"):
            raise TypeError(
                f"{kind}: a method can't be a handler without its object. Make it static, or use app.job(kind={kind!r})(object.method)"
            )


_KNOWN = frozenset(HandlerOptions.__annotations__) | frozenset(HandlerOptions.__optional_keys__)


def _check_options(kind: str, options: HandlerOptions) -> None:
    unknown = sorted(set(options) - _KNOWN)
    if unknown:
        raise TypeError(f"{kind}: unknown option {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}")
    if options.get("isolation", "thread") != "thread":
        raise ValueError(f"{kind}: isolation={options.get('isolation')!r} is unknown; only 'thread' is")
    if not isinstance(options.get("retry", RetryPolicy()), RetryPolicy):
        raise TypeError(f"{kind}: retry={options.get('retry')!r} must be a RetryPolicy")
    if "lane" in options:
        problem = problem_of_name("lane", options["lane"])
        if problem:
            raise ValueError(f"{kind}: {problem}")
    for name in (kind, *options.get("aliases", ())):
        wrong = problem_of(
            NewJob(
                kind=name,
                args=NO_ARGS,
                priority=options.get("priority"),
                version=options.get("version"),
                tags=dict(options["tags"]) if "tags" in options else None,
            ),
            RULES,
        )
        if wrong:
            raise ValueError(f"{kind}: {wrong.message}. {wrong.hint}")
