"""The handlers that benchmarks run."""

import asyncio

from jobyard import App

app = App()


@app.job
async def noop(x: str) -> None:
    """Does nothing."""


@app.job(kind="bench.sleep")
async def sleep(seconds: float) -> None:
    """Lasts for some time."""
    await asyncio.sleep(seconds)
