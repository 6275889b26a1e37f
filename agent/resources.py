"""The application's resources: opened before the first job, closed after the last, both in one task of the handlers' loop."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from jobyard.agent.executors.tasks import Tasks


class Resources:
    """Opens and closes in the same task, as what is built on cancel scopes demands."""

    def __init__(self, tasks: Tasks, resources: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._tasks = tasks
        self._resources = resources
        self._closing: asyncio.Event | None = None
        self._kept: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Blocks until all are open. Raises what one of them raised; those before it are closed then."""
        self._tasks.call(self._open())

    def close(self, timeout_s: float) -> None:
        """Close them, for at most `timeout_s`: TimeoutError. Raises what closing raised."""
        self._tasks.call(self._close(), timeout_s)

    async def _open(self) -> None:
        self._closing = asyncio.Event()
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._kept = asyncio.create_task(self._keep(opened, self._closing))
        await asyncio.wait([opened, self._kept], return_when=asyncio.FIRST_COMPLETED)
        if self._kept.done():
            opened.cancel()
            self._kept.result()

    async def _keep(self, opened: asyncio.Future[None], closing: asyncio.Event) -> None:
        async with self._resources():
            opened.set_result(None)
            await closing.wait()

    async def _close(self) -> None:
        if self._closing is not None and self._kept is not None:
            self._closing.set()
            await self._kept
