"""Jobs for one agent: beside the mixed ones, an agent that aims at some names has a kind for each of them, and nobody else has it."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from jobyard import App, RetryPolicy, current_job
from jobyard.api.handler import AsyncHandler
from promises.mixed_jobs import app as mixed
from promises.mixed_jobs import journalled

AIMS: Final = "ACCEPTANCE_AIMS"
"""The environment's name for the names that this agent aims at, parted by spaces."""

app = mixed


async def aimed(
    n: int, first_s: float = 0.0, again_s: float = 0.1, signals: str = "", waits: str = "", fails: bool = False, stubborn: bool = False
) -> int:
    """Takes `first_s` in its first attempt, `again_s` in the later ones.

    In the first attempt only: `signals` is sent to its own process before anything else, it `waits` until a file of this name is there, and it `fails`.
    `stubborn`: it does not heed a cancellation.
    """
    first = current_job().attempt == 1
    if first and signals:
        signal.pthread_kill(threading.get_ident(), signal.Signals[signals])  # to this thread: here and now
    with journalled():
        until = time.monotonic() + (first_s if first else again_s)
        while first and waits and not Path(waits).exists():
            await asyncio.sleep(0.02)
        if first and fails:
            raise ConnectionResetError("cut off")
        while (left := until - time.monotonic()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not stubborn:
                    raise
        return n


def define(to: App, names: Iterable[str]) -> dict[str, AsyncHandler[Any, int]]:
    """A kind for each name, with its handler."""
    return {name: to.job(kind=f"aimed.{name}", priority="critical", retry=RetryPolicy(base=0.2))(aimed) for name in names}


define(app, os.environ.get(AIMS, "").split())
