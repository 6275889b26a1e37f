"""A TCP proxy between one side and one server, which breaks the network between them as a test says."""

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from jobyard.embedded.ports import HIGHEST, HOST, LOWEST, free

T = TypeVar("T")
Direction = Literal["up", "down"]
"""`up`: to the server; `down`: from it."""
BOTH: Final[tuple[Direction, ...]] = ("up", "down")
_CHUNK: Final = 64 * 1024
_HELD: Final = 64
"""Chunks that are on their way in one direction of a connection: then the sender's kernel must wait, as behind a slow network."""


def free_port() -> int:
    """One that nobody listens on, and that no outgoing connection gets."""
    rng = random.SystemRandom()
    while not free(port := rng.randrange(LOWEST, HIGHEST)):
        pass
    return port


@dataclass(eq=False)
class _Link:
    """One connection through the proxy. `held`: (due by the loop's clock, bytes; None: the sender has ended) in each direction."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    held: dict[Direction, "asyncio.Queue[tuple[float, bytes | None]]"] = field(
        default_factory=lambda: {way: asyncio.Queue[tuple[float, bytes | None]](_HELD) for way in BOTH}
    )
    tasks: list["asyncio.Task[None]"] = field(default_factory=list["asyncio.Task[None]"])

    def end(self, *, reset: bool) -> None:
        for writer in (self.client, self.server):
            connection: socket.socket | None = writer.get_extra_info("socket")
            if reset and connection is not None:
                with suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort() if reset else writer.close()


class Proxies:
    """The thread that all proxies of a test run in. Use as a context manager: its proxies end with it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._made: list[Proxy] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for proxy in self._made:
            proxy.drop()
        self.do(self._settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to(self, server_port: int, name: str = "") -> "Proxy":
        """A proxy on a port of its own to the server at `server_port`; it passes everything on at first."""
        proxy = Proxy(self, server_port, name)
        self._made.append(proxy)
        proxy.mend()
        return proxy

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        """Run it in the proxies' thread; its result."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    @staticmethod
    async def _settle() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Proxy:
    """One pair's network. `port` stays the same. Its methods may be called in any thread but the proxies' own.

    Nothing is ever doubled or reordered, and nothing is left out but where a connection ends.
    """

    def __init__(self, proxies: Proxies, server_port: int, name: str = "") -> None:
        self.name = name
        self.port = free_port()
        self.server_port = server_port
        self._proxies = proxies
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._stalled: set[Direction] = set()
        self._moved = asyncio.Event()
        self._latency_s = 0.0
        self._jitter_s = 0.0
        self._left: dict[Direction, int] = {}
        self._passed: dict[Direction, int] = dict.fromkeys(BOTH, 0)

    def __repr__(self) -> str:
        return f"Proxy({self.name})"

    # ---- what to break

    def mend(self) -> None:
        """Everything passes again; what was held by a stall is passed on."""
        self._proxies.do(self._mend())

    def drop(self) -> None:
        """All connections are closed, new ones are refused."""
        self._proxies.do(self._drop())

    def reset(self) -> None:
        """All connections end by RST at once; new ones pass."""
        self._proxies.do(self._end_all(reset=True))

    def stall(self, *ways: Direction) -> None:
        """Connections stay and are accepted, and nothing passes (in these directions; none named: in both): half open."""
        self._proxies.do(self._stall(ways or BOTH))

    def delay(self, latency_s: float, jitter_s: float = 0.0) -> None:
        """Everything takes so long in each direction, more or less by the jitter."""
        self._proxies.do(self._delay(latency_s, jitter_s))

    def cut_after(self, count: int, way: Direction = "up") -> None:
        """So many bytes more pass in this direction, then all connections are closed, in the midst of a message; new ones pass."""
        self._proxies.do(self._cut_after(count, way))

    # ---- for a time

    @contextmanager
    def dropped(self) -> Generator[None]:
        yield from self._while(self.drop)

    @contextmanager
    def stalled(self, *ways: Direction) -> Generator[None]:
        yield from self._while(lambda: self.stall(*ways))

    @contextmanager
    def delayed(self, latency_s: float, jitter_s: float = 0.0) -> Generator[None]:
        yield from self._while(lambda: self.delay(latency_s, jitter_s))

    def _while(self, begin: Callable[[], None]) -> Generator[None]:
        begin()
        try:
            yield
        finally:
            self.mend()

    # ---- asking

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._links)

    @property
    def is_counting(self) -> bool:
        """A cut is still to come."""
        return bool(self._left)

    def passed(self, way: Direction) -> int:
        """Bytes that went through in this direction, since the beginning."""
        return self._passed[way]

    # ---- in the proxies' thread

    async def _mend(self) -> None:
        self._stalled.clear()
        self._latency_s = self._jitter_s = 0.0
        self._left.clear()
        self._stir()
        if self._server is None:
            self._server = await asyncio.start_server(self._accepted, HOST, self.port, limit=_CHUNK, reuse_address=True)

    async def _drop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._end_all(reset=False)

    async def _end_all(self, *, reset: bool) -> None:
        for link in list(self._links):
            self._end(link, reset=reset)

    async def _stall(self, ways: tuple[Direction, ...]) -> None:
        self._stalled.update(ways)

    async def _delay(self, latency_s: float, jitter_s: float) -> None:
        self._latency_s, self._jitter_s = latency_s, jitter_s

    async def _cut_after(self, count: int, way: Direction) -> None:
        self._left[way] = count

    def _stir(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    def _end(self, link: _Link, *, reset: bool) -> None:
        if link in self._links:
            self._links.remove(link)
            link.end(reset=reset)
            for task in link.tasks:
                task.cancel()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection(HOST, self.server_port, limit=_CHUNK)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, to_server)
        if self._server is None:  # dropped meanwhile
            link.end(reset=False)
            return
        self._links.add(link)
        pairs: list[tuple[Direction, asyncio.StreamReader, asyncio.StreamWriter]] = [
            ("up", reader, to_server),
            ("down", from_server, writer),
        ]
        for way, source, sink in pairs:
            link.tasks += [asyncio.create_task(self._take(link, way, source)), asyncio.create_task(self._give(link, way, sink))]

    async def _take(self, link: _Link, way: Direction, source: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        held = link.held[way]
        last = 0.0
        try:
            while data := await source.read(_CHUNK):
                latency_s = self._latency_s
                if latency_s:
                    latency_s = max(0.0, latency_s + random.uniform(-self._jitter_s, self._jitter_s))
                last = max(last, loop.time() + latency_s)  # never past what was sent before
                await held.put((last, data))
        except OSError:
            pass  # ended without order: told to the other side as an end
        await held.put((last, None))

    async def _give(self, link: _Link, way: Direction, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while True:
                due, data = await link.held[way].get()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                while way in self._stalled:
                    await self._moved.wait()
                if data is None:
                    break
                left = self._left.get(way)
                if left is not None and left <= len(data):
                    sink.write(data[:left])
                    del self._left[way]
                    await self._end_all(reset=False)
                    return
                if left is not None:
                    self._left[way] = left - len(data)
                sink.write(data)
                self._passed[way] += len(data)
                await sink.drain()
        self._end(link, reset=False)
