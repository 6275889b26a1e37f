"""How long to wait, and how often to look."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from jobyard.contracts.endings import seconds

FIRST_S: Final = 0.02
LONGEST_S: Final = 1.0
ON_ITS_WAY_S: Final = 10.0
"""How long a job that is not known yet may still be on its way, or a command without an answer."""

UNANSWERED_S: Final = 30.0
"""How long a wait bears a database that has answered before, and does not now."""


def pauses(timeout: timedelta | float | None) -> Iterator[float]:
    """Seconds to sleep between looks: 20 ms at first, half as much again each time, 1 s at most. Ends when the time is up; None: never.

    Also with a time-out of 0 there is one look.
    """
    end = None if timeout is None else time.monotonic() + seconds(timeout)
    pause = FIRST_S
    while True:
        left = pause if end is None else end - time.monotonic()
        yield max(0.0, min(pause, left))
        if end is not None and time.monotonic() >= end:
            return
        pause = min(LONGEST_S, pause * 1.5)
