"""Notices of the database → inbox: wakes a leader that sleeps. One thread; without it the leader still looks every second."""

import logging
import threading

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.coordinator.inbox import Inbox
from jobyard.coordinator.seams import Notices

_log = logging.getLogger(__name__)
_WAIT_S = 1.0


class Listener:
    """The listening thread of one leadership."""

    def __init__(self, notices: Notices, inbox: Inbox, lane: str) -> None:
        self._notices = notices
        self._inbox = inbox
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"listener-{lane}", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Ends within a second, by itself; nobody need wait for it."""
        self._stop.set()

    def _run(self) -> None:
        failing = False
        try:
            while not self._stop.is_set():
                try:
                    if self._notices.wait(_WAIT_S):
                        self._inbox.wake()
                    failing = False
                except ServiceUnavailable as error:
                    if not failing:
                        _log.warning("no notices from the database, looking every second instead: %s", error)
                    failing = True
                    self._stop.wait(_WAIT_S)
        except Exception as error:
            self._inbox.fail(error)
        finally:
            self._notices.close()
