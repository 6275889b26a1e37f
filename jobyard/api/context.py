"""current_job(): what a handler can know and say about the job that runs it."""

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from types import MappingProxyType
from typing import Final, Protocol
from uuid import UUID

from jobyard.contracts.ids import new_job_id

_logger: Final = logging.getLogger("jobyard.job")
_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})


class Flag(Protocol):
    """A threading.Event, or whatever else can tell that the attempt is to stop; asked from any thread."""

    def is_set(self) -> bool: ...


class JobContext:
    """One attempt of one job, as its handler sees it. May be used from any thread of the handler."""

    __slots__ = (
        "_cancelled",
        "_job_id",
        "_log",
        "_on_progress",
        "_parent",
        "attempt",
        "attempts_used",
        "deadline",
        "fence",
        "kind",
        "lane",
        "max_attempts",
        "submitter",
        "tags",
        "traceparent",
        "version",
    )

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - the name that users know it by
        kind: str,
        version: int,
        lane: str,
        attempt: int,
        attempts_used: int,
        max_attempts: int,
        fence: int,
        submitter: str | None,
        tags: Mapping[str, str] | None,
        parent_id: str | None,
        deadline: datetime | None,
        on_progress: Callable[[float, float | None, str], None],
        cancelled: Flag,
        traceparent: str | None = None,
    ) -> None:
        """`attempt`: its number in the audit. `attempts_used`: those before it that count against `max_attempts`. `deadline`: None = no time-out.

        `on_progress` is called in the handler's thread. `cancelled` is set for a cancel, a time-out and a shut-down alike.
        """
        self._job_id = id
        self.kind = kind
        self.version = version
        self.lane = lane
        self.attempt = attempt
        self.attempts_used = attempts_used
        self.max_attempts = max_attempts
        self.fence = fence
        self.submitter = submitter
        self.tags: Mapping[str, str] = _NO_TAGS if tags is None else MappingProxyType(dict(tags))
        self._parent = parent_id
        self.deadline = deadline
        self.traceparent = traceparent
        self._on_progress = on_progress
        self._cancelled = cancelled
        self._log: logging.LoggerAdapter[logging.Logger] | None = None

    def __repr__(self) -> str:
        return f"JobContext(id={self._job_id!r}, kind={self.kind!r}, attempt={self.attempt})"

    @property
    def id(self) -> UUID:
        """The job's id."""
        return UUID(self._job_id)

    @property
    def parent_id(self) -> UUID | None:
        """The job that submitted this one, or None."""
        return None if self._parent is None else UUID(self._parent)

    @property
    def cancel_requested(self) -> bool:
        """Whether this attempt is to stop: cancelled, out of time, or its agent shuts down. A plain function should look at it now and then."""
        return self._cancelled.is_set()

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger (`jobyard.job`) whose records carry job_id, kind, lane and attempt."""
        if self._log is None:
            facts = {"job_id": self._job_id, "kind": self.kind, "lane": self.lane, "attempt": self.attempt}
            self._log = logging.LoggerAdapter(_logger, facts)
        return self._log

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the job is; kept at most once a second. ValueError if a number is not finite."""
        for name, number in (("done", done), ("total", total)):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{name}={number} must be a finite number")
        self._on_progress(float(done), None if total is None else float(total), message)

    def raise_if_cancelled(self) -> None:
        """Raise asyncio.CancelledError, as async code gets it by itself, if this attempt is to stop."""
        if self._cancelled.is_set():
            raise asyncio.CancelledError("the attempt is to stop")


_current: Final[ContextVar[JobContext | None]] = ContextVar("jobyard_current_job", default=None)


@contextmanager
def bound(context: JobContext) -> Generator[None]:
    """Make `context` the current job inside the block, in this thread or task and those that copy its context."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def bind(context: JobContext) -> None:
    """The same for the rest of this task, or of a copied context: an agent gives each attempt its own."""
    _current.set(context)


def running_job() -> JobContext | None:
    """The job that an agent runs here, or None outside of one."""
    return _current.get()


def current_job() -> JobContext:
    """The job that runs here. Outside an agent (a handler called directly, say) a stand-in with a fresh id, which logs progress."""
    return _current.get() or _stand_in()


def _stand_in() -> JobContext:
    def log_progress(done: float, total: float | None, message: str) -> None:
        _logger.info("progress: %g of %s %s", done, "unknown" if total is None else f"{total:g}", message)

    return JobContext(
        id=new_job_id(),
        kind="none",
        version=1,
        lane="none",
        attempt=1,
        attempts_used=0,
        max_attempts=1,
        fence=0,
        submitter=None,
        tags=None,
        parent_id=None,
        deadline=None,
        on_progress=log_progress,
        cancelled=threading.Event(),
    )
