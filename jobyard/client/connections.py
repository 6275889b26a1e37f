"""Connections to the Master DB: one's own, opened when needed, and those that callers pass in."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import psycopg

from jobyard.client.address import parameters
from jobyard.client.refusals import translated
from jobyard.contracts.errors import ServiceUnavailable

Sync: TypeAlias = psycopg.Connection[Any]
Async: TypeAlias = psycopg.AsyncConnection[Any]
T = TypeVar("T")

MOST_IDLE: Final = 4
"""Idle connections that are kept open, a process (an event loop, for async ones)."""
_DEFAULTS: Final[dict[str, str]] = {
    "application_name": "jobyard-client",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


def sync_one(connection: object) -> Sync | None:
    """The caller's connection if it is a sync one, None if it is an async one. TypeError for anything else."""
    if isinstance(connection, psycopg.Connection):
        return connection  # pyright: ignore[reportUnknownVariableType] - the type of its rows doesn't matter
    if isinstance(connection, psycopg.AsyncConnection):
        return None
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise TypeError(f"connection is a {kind}; it must be a psycopg 3 Connection or AsyncConnection to the Master DB")


def async_one(connection: object) -> Async | None:
    """The caller's connection if it is an async one, None if it is a sync one. TypeError for anything else."""
    return None if sync_one(connection) is not None else connection  # type: ignore[return-value]  # sync_one knows two types


class Connections:
    """A tiny pool. Each statement is committed at once. After a fork the child opens its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Sync] = []
        self._idle_async: dict[asyncio.AbstractEventLoop, list[Async]] = {}

    def forget(self) -> None:
        """In the child of a fork: the sockets are the parent's. Nothing is closed, nothing is said on them."""
        _inherited.extend(self._idle)
        for connections in self._idle_async.values():
            _inherited.extend(connections)
        self._begin()

    def _parameters(self) -> dict[str, Any]:
        return {**_DEFAULTS, **parameters(self._url)}

    def run(self, call: Callable[[Sync], T], *, fresh: bool = False) -> T:
        """Call with a connection for this thread. One that lay idle and turns out to be dead is replaced, once. `fresh`: take none that lay idle."""
        with sorted_errors():
            idle = None if fresh else self._take()
            if idle is not None:
                try:
                    return call(idle)
                except ServiceUnavailable:
                    if not idle.closed:
                        raise
                    self._drop_idle()  # the others are as old
                finally:
                    self._give_back(idle)
            connection = psycopg.connect(autocommit=True, prepare_threshold=None, **self._parameters())
            try:
                return call(connection)
            finally:
                self._give_back(connection)

    def _take(self) -> Sync | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Sync) -> None:
        if _is_clean(connection):
            with self._lock:
                if len(self._idle) < MOST_IDLE and not self._closed:
                    self._idle.append(connection)
                    return
        connection.close()

    async def run_async(self, call: Callable[[Async], Awaitable[T]], *, fresh: bool = False) -> T:
        """run() for a task of the running loop."""
        with sorted_errors():
            idle = None if fresh else self._take_async()
            if idle is not None:
                try:
                    return await call(idle)
                except ServiceUnavailable:
                    if not idle.closed:
                        raise
                    self._drop_idle_async()
                finally:
                    await self._give_back_async(idle)
            connection = await psycopg.AsyncConnection.connect(autocommit=True, prepare_threshold=None, **self._parameters())
            try:
                return await call(connection)
            finally:
                await self._give_back_async(connection)

    def _take_async(self) -> Async | None:
        with self._lock:
            idle = self._of_loop(asyncio.get_running_loop())
            return idle.pop() if idle else None

    def _drop_idle_async(self) -> None:
        with self._lock:
            for connection in self._idle_async.pop(asyncio.get_running_loop(), []):
                connection.pgconn.finish()

    async def _give_back_async(self, connection: Async) -> None:
        if _is_clean(connection):
            with self._lock:
                idle = self._of_loop(asyncio.get_running_loop())
                if len(idle) < MOST_IDLE and not self._closed:
                    idle.append(connection)
                    return
        await connection.close()

    def _of_loop(self, loop: asyncio.AbstractEventLoop) -> list[Async]:
        """Idle connections of this loop. Those of loops that have ended are closed on the way."""
        for other in [known for known in self._idle_async if known.is_closed()]:
            for connection in self._idle_async.pop(other):
                connection.pgconn.finish()
        return self._idle_async.setdefault(loop, [])

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close what lies idle, for good. What is in use closes when it is given back."""
        with self._lock:
            self._closed = True
            others, self._idle_async = self._idle_async, {}
        self._drop_idle()
        for connections in others.values():
            for connection in connections:
                connection.pgconn.finish()  # not close(), which its own loop would have to run


@contextmanager
def sorted_errors(needs: str | None = None) -> Generator[None]:
    """Turns Postgres' errors into those that users know. `needs`: the role that gives the right for what is done."""
    try:
        yield
    except psycopg.Error as error:
        known = translated(error, needs)
        if known is None:
            raise
        raise known from error


@contextmanager
def whole(connection: Sync) -> Generator[None]:
    """All or nothing: the caller's transaction, or one of its own on a connection that commits each statement."""
    if connection.autocommit:
        with connection.transaction():
            yield
    else:
        yield


@asynccontextmanager
async def whole_async(connection: Async) -> AsyncGenerator[None]:
    """whole() for an async connection."""
    if connection.autocommit:
        async with connection.transaction():
            yield
    else:
        yield


@contextmanager
def savepoint(connection: Sync) -> Generator[None]:
    """What fails inside leaves the caller's transaction usable."""
    if not connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        connection.execute("select")  # begins the caller's transaction: else the block below would be one of its own, and commit
    with connection.transaction():
        yield


@asynccontextmanager
async def savepoint_async(connection: Async) -> AsyncGenerator[None]:
    """savepoint() for an async connection."""
    if not connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        await connection.execute("select")
    async with connection.transaction():
        yield


def _is_clean(connection: Sync | Async) -> bool:
    return not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


_inherited: Final[list[object]] = []  # kept for ever, so that no destructor speaks on a parent's socket
