"""Plain functions: each attempt in a thread of a small pool. A thread can't be stopped from outside, only asked."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue

from jobyard.agent.core.actions import Why
from jobyard.agent.core.held import Held
from jobyard.agent.executors.attempt import Attempt, NotStarted, Surroundings, ours
from jobyard.api.context import bind
from jobyard.api.handler import HandlerSpec
from jobyard.contracts.reports import End

ours(__file__)


class Threads:
    """At most `slots` threads, started when they are needed. They are daemons: a function that never ends must not keep the process."""

    def __init__(self, specs: Mapping[str, HandlerSpec], around: Surroundings, slots: int) -> None:
        self._specs = specs
        self._around = around
        self._slots = slots
        self._attempts: dict[Held, Attempt] = {}
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()

    def start(self, held: Sequence[Held]) -> None:
        """Into the queue; a free thread takes each."""
        for one in held:
            attempt = Attempt(one, self._specs[one.job.kind], self._around)
            self._attempts[one] = attempt
            self._put(lambda attempt=attempt: contextvars.copy_context().run(self._run, attempt))  # type: ignore[misc]

    def stop(self, held: Held, why: Why) -> None:
        """current_job().cancel_requested becomes true. What has not begun is declined by itself."""
        attempt = self._attempts.get(held)
        if attempt is not None:
            attempt.stop(why)

    def close(self) -> None:
        """Idle threads end; busy ones when their function does, or with the process."""
        with self._lock:
            for _ in self._threads:
                self._work.put(None)

    async def call(self, function: Callable[[], object]) -> object:
        """Run a function in the pool, in the caller's context, and await its value on the loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def settle(value: object, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def work() -> None:
            value: object = None
            failed: BaseException | None = None
            try:
                value = context.run(function)
            except BaseException as error:  # handed over to who awaits it
                # A future refuses StopIteration, which would end the coroutine that awaits it.
                failed = RuntimeError(f"StopIteration: {error}") if isinstance(error, StopIteration) else error
            loop.call_soon_threadsafe(settle, value, failed)

        self._put(work)
        return await future

    def _put(self, work: Callable[[], object]) -> None:
        with self._lock:
            self._work.put(work)
            if self._work.qsize() > self._idle and len(self._threads) < self._slots:
                thread = threading.Thread(target=self._serve, name=f"jobyard-handler-{len(self._threads) + 1}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            work = self._work.get()
            with self._lock:
                self._idle -= 1
            if work is None:
                return
            with contextlib.suppress(BaseException):  # each tells its own end; a thread is never lost
                work()

    def _run(self, attempt: Attempt) -> None:
        facts = self._around.facts
        held = attempt.held
        try:
            arguments = attempt.arguments()
            bind(attempt.context())
            attempt.begin()
            assert attempt.began_at is not None  # noqa: S101 - so after begin
            facts.begun(held, attempt.began, attempt.began_at, attempt.deadline)
            end: End | None = attempt.returned(attempt.spec.function(**arguments))
        except NotStarted:
            end = None
        except BaseException as error:  # SystemExit, too: an attempt that failed
            end = attempt.raised(error)
        del self._attempts[held]
        if end is None:
            facts.declined(held)
        else:
            facts.ended([(held, end)])
