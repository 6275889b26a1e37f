"""SIGTERM and SIGINT: the first asks for an orderly end, the second for an immediate one. Main thread only."""

import contextlib
import select
import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Catches the two signals while it is entered; the handlers of before come back at the end.

    The main thread waits in `wait`, on a socket that the interpreter writes to when a signal comes: an Event set by a handler could deadlock
    with the wait that it interrupts. Any thread may `wake` it.
    """

    def __init__(self) -> None:
        self._asked = 0
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("signals can be caught in the main thread only")
        inlet, outlet = self._sockets = socket.socketpair()
        inlet.setblocking(False)
        outlet.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(inlet.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._caught) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            # None: a handler that was not set from Python; it can't be put back
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup_before)
        for end in self._sockets or ():
            end.close()

    @property
    def orderly(self) -> bool:
        """Whether somebody wants the process to end."""
        return self._asked > 0

    @property
    def now(self) -> bool:
        """Whether it must end at once: a second signal came."""
        return self._asked > 1

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for a signal or a wake, for at most `timeout_s` (None: for ever). False: neither came. One that came before counts."""
        if self._sockets is None:
            raise RuntimeError("signals are waited for only while they are caught")
        _, outlet = self._sockets
        readable, _, _ = select.select([outlet], [], [], timeout_s)
        if not readable:
            return False
        with contextlib.suppress(BlockingIOError):
            while outlet.recv(4096):
                pass
        return True

    def wake(self) -> None:
        """End `wait`, from any thread. Before the beginning and after the end: nothing happens."""
        if self._sockets is not None:
            with contextlib.suppress(OSError):  # full: it will wake anyway; closed: nobody waits
                self._sockets[0].send(b"\0")

    def _caught(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
