"""The application of an agent that a test starts as a process of its own."""

import asyncio
import time

from jobyard import App

app = App()


@app.job
async def quick() -> str:
    return "done"


@app.job
async def slow() -> str:
    await asyncio.sleep(1.5)
    return "finished in the grace period"


@app.job
async def endless() -> None:
    await asyncio.sleep(3600)


@app.job
async def blocks() -> None:
    time.sleep(5.0)


@app.job
def thread() -> str:
    time.sleep(0.8)
    return "from a thread"


@app.job
async def fails() -> None:
    raise ValueError("no")
