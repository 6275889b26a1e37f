"""The housekeeper: once an hour, partitions made ahead, old ones dropped, statistics kept fresh. In each coordinator; one at a time works."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from jobyard.contracts.errors import JobyardError

_log = logging.getLogger(__name__)

_EVERY_S: Final = 3600.0
_AGAIN_S: Final = 60.0
"""After a failure, or while somebody holds a lock on an old partition."""


class Housekeeper:
    """`keep`: does all that is due; True: something is left to be tried again soon."""

    def __init__(self, keep: Callable[[], bool]) -> None:
        self._keep = keep
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeper", daemon=True)

    def start(self) -> None:
        """Begin, with a first round at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round at hand; nobody need wait for it."""
        self._stop.set()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            try:
                wait_s = _AGAIN_S if self._keep() else _EVERY_S
            except JobyardError as error:
                _log.warning("housekeeping failed, tried again in %.0f s: %s", _AGAIN_S, error)
                wait_s = _AGAIN_S
            except Exception:
                # Its mistakes must not end the leaders of this process, whose work goes on for a week without new partitions.
                _log.exception("housekeeping failed, tried again in %.0f s", _AGAIN_S)
                wait_s = _AGAIN_S
