"""The application of the acceptance tests: jobs of many sorts, each of which writes its starts and ends to a journal outside of Jobyard."""

import asyncio
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jobyard import App, RetryPolicy, Snooze, current_job

JOURNAL: Final = "ACCEPTANCE_JOURNAL"
"""The environment's name for the journal's file."""
SNOOZE_S: Final = 0.5

app = App()


@contextmanager
def journalled() -> Generator[None]:
    """One line at the start and one at the end, each in one write: what a killed process has written stays."""
    job = current_job()
    what: dict[str, object] = {"job": str(job.id), "attempt": job.attempt, "fence": job.fence, "pid": os.getpid()}
    file = os.open(os.environ[JOURNAL], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(event: str) -> None:
        # the monotonic clock is the machine's, the same in all processes
        os.write(file, json.dumps({**what, "event": event, "at": time.monotonic()}).encode() + b"\n")

    try:
        write("start")
        try:
            yield
        except BaseException:
            write("raised")
            raise
        write("returned")
    finally:
        os.close(file)


@app.job
async def tiny(n: int) -> int:
    with journalled():
        return n


@app.job(priority="high")
def thread(n: int) -> int:
    with journalled():
        time.sleep(1.0)
        return n


@app.job(priority="low")
async def task(n: int) -> int:
    with journalled():
        await asyncio.sleep(1.0)
        return n


@app.job(retry=RetryPolicy(max_attempts=20, base=0.2, cap=1))
async def unsteady(n: int) -> int:
    with journalled():
        if current_job().attempts_used < 2:
            raise ConnectionResetError("cut off")
        return n


@app.job(retry=RetryPolicy(max_attempts=2, base=0.2))
def broken(n: int) -> int:
    with journalled():
        raise ValueError(f"{n} is wrong")


@app.job
async def snoozing(n: int) -> int:
    with journalled():
        if current_job().attempt == 1:
            raise Snooze(SNOOZE_S)
        return n


@app.job(retry=RetryPolicy(max_attempts=1))
async def single(n: int) -> int:
    with journalled():
        await asyncio.sleep(1.0)
        return n


@app.job
async def patient(n: int, first_s: float, again_s: float) -> int:
    """Takes `first_s` in its first attempt, `again_s` in the later ones."""
    with journalled():
        await asyncio.sleep(first_s if current_job().attempt == 1 else again_s)
        return n


@app.job
async def blocking(n: int, seconds: float) -> int:
    """What an async function must never do: it stops the event loop."""
    with journalled():
        time.sleep(seconds)
        return n


@app.job(retry=RetryPolicy(max_attempts=1))
def wanting(path: str) -> str:
    with journalled():
        return Path(path).read_text()


@app.job
async def echo(value: Any) -> tuple[str, Any]:
    """What came, as Python shows it, and itself."""
    return repr(value), value
