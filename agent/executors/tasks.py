"""`async def` handlers: each attempt a task on one event loop, in a thread of its own."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from jobyard.agent.core.actions import Why
from jobyard.agent.core.held import Held
from jobyard.agent.executors.attempt import Attempt, NotStarted, Surroundings, ours
from jobyard.api.context import bind
from jobyard.api.handler import HandlerSpec
from jobyard.contracts.reports import End
from jobyard.process.seldom import Seldom

_log: Final = logging.getLogger(__name__)
_T = TypeVar("_T")
_CLOSE_S: Final = 2.0
ours(__file__)

Call = Callable[[Callable[[], object]], Awaitable[object]]
"""Runs a plain function somewhere else than on the loop."""


class Tasks:
    """The event loop's thread. Jobs of one turn are handed to it in one call, and ends of one round of the loop told in one."""

    def __init__(self, specs: Mapping[str, HandlerSpec], around: Surroundings, call_elsewhere: Call | None = None) -> None:
        """`call_elsewhere`: for plain functions with middleware around them, which is async."""
        self._specs = specs
        self._around = around
        self._elsewhere = call_elsewhere
        self._attempts: dict[Held, Attempt] = {}
        self._ended: list[tuple[Held, End]] = []
        self._closing = False
        self._seldom = Seldom(_log)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="jobyard-handlers", daemon=True)
        self._thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            while not self._closing:
                # A handler may stop the loop, and a task or callback that it made may exit or be interrupted: asyncio lets that through. The other jobs go on.
                try:
                    self._loop.run_forever()
                    if not self._closing:
                        self._seldom.say(logging.ERROR, "stop", "a handler has stopped the event loop; it goes on")
                except BaseException as error:
                    self._seldom.say(logging.ERROR, type(error).__name__, f"{type(error).__name__} came out of the event loop; it goes on")
        finally:
            self._loop.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which handlers run."""
        return self._loop

    def call(self, what: Coroutine[Any, Any, _T], timeout_s: float | None = None) -> _T:
        """Run something on the loop and wait for it: to open and close resources. TimeoutError."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(timeout_s)

    def start(self, held: Sequence[Held]) -> None:
        """One call into the loop for all of them."""
        specs, around = self._specs, self._around
        attempts = [Attempt(one, specs[one.job.kind], around) for one in held]
        for attempt in attempts:
            self._attempts[attempt.held] = attempt
        self._loop.call_soon_threadsafe(self._begin, attempts)

    def stop(self, held: Held, why: Why) -> None:
        """A coroutine is cancelled where it waits. What has not begun is declined by itself."""
        attempt = self._attempts.get(held)
        if attempt is not None:
            attempt.stop(why)
            self._loop.call_soon_threadsafe(self._cancel, attempt)

    def close(self) -> None:
        """Stop the loop, and wait a moment for its thread. A handler that blocks it is left behind."""
        self._closing = True
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSE_S)

    # ---- on the loop ----

    def _begin(self, attempts: list[Attempt]) -> None:
        create = self._loop.create_task
        run = self._run_wrapped if self._around.middlewares else self._run
        for attempt in attempts:
            attempt.task = create(run(attempt))
        # Behind the first step of each: what has ended in it needs no telling.
        self._loop.call_soon(self._tell_begun, attempts)

    def _tell_begun(self, attempts: list[Attempt]) -> None:
        facts = self._around.facts
        for attempt in attempts:
            if attempt.task is not None and attempt.began_at is not None:
                facts.begun(attempt.held, attempt.began, attempt.began_at, attempt.deadline)

    def _cancel(self, attempt: Attempt) -> None:
        # Cancelled before its first step, a task never runs it, and nobody would tell its end: `begin` declines instead. A function in a
        # thread can't be cancelled; its context tells it.
        if attempt.task is not None and attempt.began_at is not None and attempt.spec.is_async:
            attempt.task.cancel()

    async def _run(self, attempt: Attempt) -> None:
        try:
            arguments = attempt.arguments()
            bind(attempt.context())
            attempt.begin()
            end = attempt.returned(await attempt.spec.function(**arguments))
        except NotStarted:
            self._declined(attempt)
            return
        except GeneratorExit as error:
            if self._gone:
                raise
            end = attempt.raised(error)
        except BaseException as error:  # SystemExit, too: an attempt that failed
            end = attempt.raised(error)
        self._end(attempt, end)

    async def _run_wrapped(self, attempt: Attempt) -> None:
        async def handler() -> object:
            attempt.begin_in_middleware()
            if attempt.spec.is_async:
                return await attempt.spec.function(**arguments)
            assert self._elsewhere is not None  # noqa: S101 - given wherever plain functions come here
            return await self._elsewhere(lambda: attempt.spec.function(**arguments))

        try:
            arguments = attempt.arguments()
            context = attempt.context()
            bind(context)
            attempt.begin()
            end = attempt.returned(await attempt.wrapped(context, handler))
        except NotStarted:
            self._declined(attempt)
            return
        except GeneratorExit as error:
            if self._gone:
                raise
            end = attempt.raised(error)
        except BaseException as error:
            end = attempt.raised(error)
        self._end(attempt, end)

    @property
    def _gone(self) -> bool:
        """Whether coroutines are thrown away with their loop; else a GeneratorExit was raised by a handler."""
        return not self._loop.is_running()

    def _declined(self, attempt: Attempt) -> None:
        attempt.task = None
        del self._attempts[attempt.held]
        self._around.facts.declined(attempt.held)

    def _end(self, attempt: Attempt, end: End) -> None:
        attempt.task = None
        del self._attempts[attempt.held]
        if not self._ended:
            self._loop.call_soon(self._tell_ended)
        self._ended.append((attempt.held, end))

    def _tell_ended(self) -> None:
        ended, self._ended = self._ended, []
        self._around.facts.ended(ended)
