"""Log lines about what may come a thousand times: the first of each kind at once, then one a minute that says how many there were."""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 60.0
_KINDS: Final = 50
"""So many kinds are told apart; further ones count as the last."""


class Seldom:
    """Used by one thread. Never raises, whatever the application has made of logging."""

    def __init__(self, log: logging.Logger, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._every_s = every_s
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def say(self, level: int, kind: str, text: str, **facts: object) -> None:
        """One line, unless one of this kind was said within `every_s`: then it is counted. `facts`: go along as `extra`."""
        if kind not in self._said and len(self._said) >= _KINDS:
            kind = next(reversed(self._said))
        now = self._clock()
        at, silent = self._said.get(kind, (float("-inf"), 0))
        if now - at < self._every_s:
            self._said[kind] = (at, silent + 1)
            return
        self._said[kind] = (now, 0)
        more = f" ({silent} more like it since the last line)" if silent else ""
        safely(self._log, level, f"{text}{more}", facts)


def safely(log: logging.Logger, level: int, text: str, facts: dict[str, object]) -> None:
    """A line of a thread that must go on, though a handler or filter that the application has installed raises."""
    with contextlib.suppress(Exception):  # there is nobody to tell
        log.log(level, "%s", text, extra=facts)
