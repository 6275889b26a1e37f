"""One life cycle for all that lives long, and the one who looks after it: what dies takes the process down with its error."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from jobyard.process.signals import Signals

_log: Final = logging.getLogger(__name__)


class LongLived(Protocol):
    """Something that runs from `start` to `stop`. A failed start leaves nothing running, and may be tried again."""

    def start(self) -> None:
        """Begin; returns when it runs. Raises if it can't."""
        ...

    def stop(self) -> None:
        """End in order; returns when nothing of it runs any more. Twice, and before `start`, is safe."""
        ...


class Supervisor:
    """Threads whose death is not overlooked. `wake` is called, in the dying thread, when one ends by an exception."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._error: BaseException | None = None

    @property
    def error(self) -> BaseException | None:
        """What the first thread died of; None: none did."""
        return self._error

    def thread(self, name: str, body: Callable[[], None]) -> threading.Thread:
        """A thread, not yet started. A daemon: one that hangs must not keep the process from ending."""
        return threading.Thread(target=self._guarded, args=(name, body), name=name, daemon=True)

    def died(self, name: str, error: BaseException) -> None:
        """Say that something is dead that has no thread of its own here."""
        with self._lock:
            if self._error is None:
                self._error = error
        _log.critical("%s died: %s: %s", name, type(error).__name__, error)
        self._wake()

    def _guarded(self, name: str, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # told, and raised again in the main thread
            self.died(name, error)


class Worker:
    """A LongLived made of one thread: `body` is called with an Event, and returns soon after it is set."""

    def __init__(self, supervisor: Supervisor, name: str, body: Callable[[threading.Event], None]) -> None:
        self._supervisor = supervisor
        self._name = name
        self._body = body
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. RuntimeError if it runs already."""
        if self._thread is not None and self._thread.is_alive():
            raise RuntimeError(f"{self._name} runs already")
        self._stopping = stopping = threading.Event()
        self._thread = self._supervisor.thread(self._name, lambda: self._body(stopping))
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, and wait until it has. From the thread itself: only asks."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


def run(parts: Sequence[LongLived], signals: Signals, supervisor: Supervisor, hurry: Callable[[], None] = lambda: None) -> None:
    """Start the parts in order; wait for a signal or a death; stop them in reverse order. In the main thread, with `signals` entered.

    `signals.wake` must be the supervisor's `wake`. A second signal while they stop calls `hurry` once, in the main thread; the parts must
    end soon then. Raises what a part died of, or what a start or the first failed stop raised, after all the others were stopped.
    """
    started: list[LongLived] = []
    failed: BaseException | None = None
    try:
        for part in parts:
            part.start()
            started.append(part)
            if supervisor.error is not None or signals.orderly:
                break
        while supervisor.error is None and not signals.orderly:
            signals.wait(None)
    except BaseException as error:  # raised again below
        failed = error
    stop_failed = _stop(started, signals, hurry)
    # A first error explains those that came of it.
    first = failed or supervisor.error or stop_failed
    if first is not None:
        raise first


def _stop(parts: list[LongLived], signals: Signals, hurry: Callable[[], None]) -> BaseException | None:
    """In a thread of its own, so that the main thread hears a second signal."""
    errors: list[BaseException] = []

    def body() -> None:
        for part in reversed(parts):
            try:
                part.stop()
            except BaseException as error:  # the others must be stopped, too; the first is raised
                _log.error("%s could not be stopped: %s", type(part).__name__, error)
                errors.append(error)
        signals.wake()

    stopper = threading.Thread(target=body, name="stopper", daemon=True)
    stopper.start()
    hurried = False
    while stopper.is_alive():
        if signals.now and not hurried:
            hurried = True
            hurry()
        signals.wait(1.0)
    return errors[0] if errors else None
