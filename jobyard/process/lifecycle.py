"""Who looks after the threads of a process: what dies takes the process down with its error."""

import logging
import threading
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger(__name__)


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
