"""A job that is not sent yet, with its id: sending it twice is one job."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

import msgspec

from jobyard.api.context import JobContext, running_job
from jobyard.api.handle import JobHandle
from jobyard.api.options import HandlerOptions, JobOptions, Via, as_float, aware, delay_seconds, positive_seconds
from jobyard.api.shape import Shape
from jobyard.api.size import Size
from jobyard.client.client import Client
from jobyard.client.lookup import Json
from jobyard.contracts.errors import InvalidJob
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import NewJob, Problem, problem_of, problem_of_id, shown
from jobyard.contracts.job_fields import shown_value
from jobyard.contracts.retry import RetryPolicy
from jobyard.contracts.rules import RULES, Rules
from jobyard.contracts.topics import problem_of_name

R_co = TypeVar("R_co", covariant=True)


class JobRequest(Generic[R_co]):
    """Immutable. `job`: as it is sent. Submit it again after ServiceUnavailable: it is the same job."""

    __slots__ = ("_client", "_connection", "_shape", "job", "via")

    job: NewJob
    via: Via | None
    _client: Client
    _shape: Shape
    _connection: object

    def __init__(self, job: NewJob, client: Client, shape: Shape, via: Via | None, connection: object) -> None:
        for name, value in (("job", job), ("via", via), ("_client", client), ("_shape", shape), ("_connection", connection)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a JobRequest can't be changed; make another one with other options (.{name})")

    def __repr__(self) -> str:
        return f"JobRequest(id={self.job.id!r}, kind={self.job.kind!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobRequest) and self.job == other.job

    def __hash__(self) -> int:
        return hash(self.job.id)

    @property
    def id(self) -> UUID:
        """The job's id, made when this was."""
        return UUID(self.job.id)

    @property
    def kind(self) -> str:
        """The handler's name."""
        return self.job.kind

    @property
    def args(self) -> dict[str, Json]:
        """The arguments as they are sent."""
        return cast("dict[str, Json]", msgspec.json.decode(self.job.args))

    @property
    def has_connection(self) -> bool:
        """Whether options(connection=…) gave it a transaction."""
        return self._connection is not None

    def submit(self, *, connection: object = None) -> JobHandle[R_co]:
        """Submit it: in the transaction of `connection`, if there is one. Blocks. ServiceUnavailable: whether it got there is unknown."""
        duplicate = self._client.submit(self.job, self.via, self._connection if connection is None else connection)
        return self._handle(duplicate)

    async def submit_async(self, *, connection: object = None) -> JobHandle[R_co]:
        """submit(), for the event loop."""
        duplicate = await self._client.submit_async(self.job, self.via, self._connection if connection is None else connection)
        return self._handle(duplicate)

    def _handle(self, duplicate: bool) -> JobHandle[R_co]:
        return JobHandle(self._client, cast("str", self.job.id), self._shape, duplicate=duplicate)


def request_of(
    kind: str,
    shape: Shape,
    size: Size,
    defaults: HandlerOptions,
    options: JobOptions,
    client: Client,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> JobRequest[Any]:
    """Bind, encode and check. What neither `defaults` (the handler's) nor `options` name is left to the kind as it was synced."""
    arguments = shape.arguments
    given = arguments.bind(args, kwargs)
    raw = arguments.encode(given)
    parent = running_job()
    now = datetime.now(UTC)
    for name in ("lane", "priority", "submitter"):
        _demand(options, name, str, "a text")
    _demand(options, "retry", RetryPolicy, "a RetryPolicy")
    _demand(options, "tags", Mapping, "a mapping of texts to texts")
    policy = options.get("retry") or defaults.get("retry")
    if "retry" in options and options["retry"].no_retry_for:
        raise InvalidJob("retry: no_retry_for belongs to the handler; one job's policy can't name exceptions", field="retry")
    timeout = options.get("timeout", defaults.get("timeout"))
    tags = options.get("tags", defaults.get("tags"))
    job = NewJob(
        kind=kind,
        args=msgspec.Raw(raw),
        id=_id(options),
        lane=options.get("lane", defaults.get("lane")),
        priority=options.get("priority", defaults.get("priority")),
        size=_size(options["size"]) if "size" in options else size.of(given, raw),
        run_at=_run_at(options, now),
        timeout_s=None if timeout is None else positive_seconds("timeout", timeout),
        max_attempts=_attempts(options, policy),
        retry=None if policy is None else policy.retrying,
        version=defaults.get("version"),
        submitter=options.get("submitter", None if parent is None else parent.submitter),
        tags=None if tags is None else _tags(tags),
        parent=_parent(parent),
        traceparent=None if parent is None else parent.traceparent,
    )
    _check(job, now, client.settings.rules)
    via = options.get("via")
    if via not in (None, "sql", "kafka"):
        raise InvalidJob(f"via {shown(repr(via))} must be 'sql' or 'kafka'", field="via")
    return JobRequest(job, client, shape, via, options.get("connection"))


def check_options(options: Mapping[str, object]) -> None:
    """TypeError for an option that no job has."""
    unknown = sorted(set(options) - _KNOWN)
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}")


_KNOWN = JobOptions.__required_keys__ | JobOptions.__optional_keys__


def problem_now(job: NewJob) -> str | None:
    """What is wrong with a job that is about to be sent: its id may have grown too old. None: nothing."""
    problem = problem_of_id(job.id or "", datetime.now(UTC).timestamp(), RULES)
    return None if problem is None else f"{problem.message}. {problem.hint}"


def _check(job: NewJob, now: datetime, rules: Rules) -> None:
    problem = problem_of(job, rules) or problem_of_id(job.id or "", now.timestamp(), rules)
    if problem is None and job.lane is not None:
        what = problem_of_name("lane", job.lane)
        problem = None if what is None else Problem("JY006", "lane", what)
    if problem is not None:
        raise InvalidJob(f"{job.kind}: {problem.message}", field=problem.field, code=problem.code, hint=problem.hint)


def _demand(options: JobOptions, name: str, kind: type, what: str) -> None:
    """Untyped callers give anything."""
    value: object = options.get(name)
    if value is not None and not isinstance(value, kind):
        raise InvalidJob(f"{name} {shown_value(value)} must be {what}", field=name)


def _id(options: JobOptions) -> str:
    given = options.get("id")
    return new_job_id() if given is None else str(given).lower()


def _parent(parent: JobContext | None) -> str | None:
    return None if parent is None else str(parent.id)


def _size(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidJob(f"size {shown(repr(value))} must be a number", field="size")
    return as_float(value)


def _attempts(options: JobOptions, policy: RetryPolicy | None) -> int | None:
    if "max_attempts" not in options:
        return None if policy is None else policy.max_attempts
    given = options["max_attempts"]
    if isinstance(given, bool) or not isinstance(given, int):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
        raise InvalidJob(f"max_attempts {shown(repr(given))} must be a whole number", field="max_attempts")
    return given


def _run_at(options: JobOptions, now: datetime) -> datetime | None:
    if "run_at" in options and "delay" in options:
        raise InvalidJob("run_at and delay exclude each other", field="delay")
    if "run_at" in options:
        return aware("run_at", options["run_at"])
    if "delay" in options:
        try:
            return now + timedelta(seconds=delay_seconds(options["delay"]))
        except OverflowError:
            raise InvalidJob(f"delay {shown_value(options['delay'])} leads beyond the year 2200", field="delay") from None
    return None


def _tags(tags: Mapping[str, object]) -> dict[str, str]:
    for name, value in tags.items():
        if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
            raise InvalidJob(f"tags {shown(repr(name))}: {shown(repr(value))} must be a text with a text as value", field="tags")
    return cast("dict[str, str]", dict(tags))
