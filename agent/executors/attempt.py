"""One run of a handler: arguments, context, the last look at the lease, and what its end means."""

import asyncio
import os
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

import msgspec

from jobyard.agent.core.actions import Why
from jobyard.agent.core.held import Held
from jobyard.agent.core.verdict import TRACEBACK_BYTES, Failing, Verdict, broken, stopped, timed_out, verdict
from jobyard.agent.executors.executor import Clock, Facts
from jobyard.api.app import Middleware
from jobyard.api.context import JobContext
from jobyard.api.handler import HandlerSpec
from jobyard.contracts import storable
from jobyard.contracts.moments import later, moment
from jobyard.contracts.reports import NO_RESULT, End
from jobyard.contracts.retry import RetryPolicy
from jobyard.contracts.states import Outcome

PROGRESS_BYTES: Final = 2_000
_NULL: Final = b"null"
_SUCCEEDED: Final = Outcome.SUCCEEDED
_PLAIN: Final = RetryPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all attempts of an agent share. `middlewares`: outermost first. `process`: the agent's."""

    lane: str
    clock: Clock
    facts: Facts
    middlewares: Sequence[Middleware]
    max_result_bytes: int
    process: int = field(default_factory=os.getpid)

    def leave_if_forked(self) -> None:
        """A handler that forks and comes back in the child: that is no agent, and must not go on as one. It ends here, without a word."""
        if os.getpid() != self.process:
            os._exit(70)


class NotStarted(BaseException):
    """The lease had ended, or the attempt was to stop, before its handler was called. Passes through middleware; never leaves the executor."""


class Attempt:
    """Made by the turn thread, run by one other. `why` is set by the turn thread: from then on it is to stop.

    `began_at`: None until the handler is called. `deadline`: on the agent's clock without its jumps; None = no time-out.
    `task`: what to cancel, for a coroutine.
    """

    __slots__ = ("_around", "began", "began_at", "deadline", "held", "spec", "task", "timeout_s", "why")

    def __init__(self, held: Held, spec: HandlerSpec, around: Surroundings) -> None:
        self.held = held
        self.spec = spec
        self._around = around
        self.timeout_s = held.job.timeout_s or spec.timeout_s
        self.why: Why | None = None
        self.began = 0.0
        self.began_at: float | None = None
        self.deadline: float | None = None
        self.task: asyncio.Task[None] | None = None

    # ---- the turn thread ----

    def stop(self, why: Why) -> None:
        """It is to stop; the first reason counts."""
        if self.why is None:
            self.why = why

    def is_set(self) -> bool:
        """Whether it is to stop: the flag of its context. Any thread."""
        return self.why is not None

    # ---- the thread that calls the handler ----

    def begin(self) -> None:
        """The last thing before the call: look at the lease (A6, A7). NotStarted if the handler must not be called."""
        clock = self._around.clock
        now = clock.now()
        if self.why is not None or not self.held.life.lease.holds(now):
            raise NotStarted
        self.began = now
        self.began_at = clock.wall()
        if self.timeout_s is not None:
            self.deadline = clock.ran() + self.timeout_s

    def begin_in_middleware(self) -> None:
        """The same once more, after middleware has taken its time. A handler that it calls again is called again."""
        if self.why is not None or not self.held.life.lease.holds(self._around.clock.now()):
            raise NotStarted

    def _is_late(self) -> bool:
        return self.deadline is not None and self._around.clock.ran() >= self.deadline

    def arguments(self) -> dict[str, object]:
        """The handler's keyword arguments. InvalidArgs."""
        return self.spec.decode_args(self.held.job.args)

    def context(self) -> JobContext:
        """What current_job() is to be."""
        held, around = self.held, self._around
        job = held.job
        return JobContext(
            id=job.id,
            kind=job.kind,
            version=job.version,
            lane=around.lane,
            attempt=held.attempt,
            attempts_used=held.used,
            max_attempts=job.max_attempts,
            fence=held.fence,
            submitter=job.submitter,
            tags=job.tags,
            parent_id=job.parent,
            deadline=None if self.timeout_s is None else moment(later(around.clock.wall(), self.timeout_s)),
            on_progress=self._progress,
            cancelled=self,
            traceparent=job.traceparent,
        )

    def _progress(self, done: float, total: float | None, message: str) -> None:
        self._around.facts.progressed(self.held, done, total, storable.text(message, PROGRESS_BYTES))

    def wrapped(self, context: JobContext, call: Callable[[], Awaitable[object]]) -> Awaitable[object]:
        """The handler with all middleware around it."""
        for middleware in reversed(self._around.middlewares):
            call = _around(middleware, context, call)
        return call()

    def returned(self, value: object) -> End:
        """The end of an attempt whose handler has returned."""
        self._around.leave_if_forked()
        if self.timeout_s is not None and self._is_late():
            return self._failed(timed_out(self.timeout_s, None, "", self._failing()))
        try:
            raw = _NULL if value is None else self.spec.encode_result(value, self._around.max_result_bytes)
        except Exception as error:  # InvalidResult, or whatever a value's own code raises
            return self.raised(error)
        held = self.held
        return End(
            held.job.id,
            held.attempt,
            _SUCCEEDED,
            self.began_at,
            self._around.clock.wall(),
            msgspec.Raw(raw),
        )

    def raised(self, error: BaseException) -> End:
        """The end of an attempt whose handler has raised, or could not be called for its arguments. Whatever it raised: the agent lives."""
        self._around.leave_if_forked()
        try:
            return self._raised(error)
        except BaseException as wrong:  # of the exception's own code, which runs when one only looks at it
            return self._failed(broken(wrong))

    def _raised(self, error: BaseException) -> End:
        text = _traceback(error)
        failing = self._failing()
        if self.timeout_s is not None and self._is_late():
            return self._failed(timed_out(self.timeout_s, error, text, failing))
        if self.why is None or self.why == "timed_out":
            return self._failed(verdict(error, text, failing))
        return self._failed(stopped(self.why, error, text, failing))

    def _failing(self) -> Failing:
        held = self.held
        return Failing(held.job.id, held.attempt, held.used, self.spec.policy, held.job.retry)

    def _failed(self, ending: Verdict) -> End:
        held = self.held
        return End(
            held.job.id,
            held.attempt,
            ending.outcome,
            self.began_at,
            self._around.clock.wall(),
            NO_RESULT,
            ending.error,
            ending.retryable,
            ending.delay_s,
        )


def unfit(held: Held, spec: HandlerSpec | None, at: float) -> End:
    """The end of a job that this agent has no handler for, or (`spec`) an older one than it needs.

    The leader knows the kinds and versions from hello, and should not have sent it. An attempt that failed, so that it is seen in the audit and
    bounded; to be tried again, since another agent may know it.
    """
    job = held.job
    if spec is None:
        error = LookupError(f"this agent has no handler for kind {job.kind!r}")
    else:
        error = LookupError(f"this agent has kind {job.kind!r} in version {spec.version}, and the job needs {job.version}")
    ending = verdict(error, "", Failing(held.job.id, held.attempt, held.used, _PLAIN, held.job.retry))
    return End(held.job.id, held.attempt, ending.outcome, None, at, NO_RESULT, ending.error, ending.retryable, ending.delay_s)


def _around(middleware: Middleware, context: JobContext, call: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
    return lambda: middleware(context, call)


_OURS: Final = {__file__}


def ours(file: str) -> None:
    """Frames of this file are left out of tracebacks: they tell a user nothing."""
    _OURS.add(file)


def _traceback(error: BaseException) -> str:
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _OURS:
        trace = trace.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
    except BaseException as wrong:  # an exception's own code may be broken, or exit; the job has failed all the same
        return f"(its traceback can't be made: {type(wrong).__name__})"
    # What matters most stands at the end.
    return text if len(text) <= TRACEBACK_BYTES else "…\n" + text[-(TRACEBACK_BYTES - 200) :]
