"""The application of the compose test. It says which machine ran a job: in a container, that is its own."""

import asyncio
import os
import socket

from jobyard import App

app = App()


@app.job
async def where(n: int) -> dict[str, object]:
    return {"n": n, "host": socket.gethostname(), "uid": os.getuid(), "database": "JOBYARD_DATABASE_URL" in os.environ}


@app.job
async def patient(n: int, seconds: float) -> int:
    await asyncio.sleep(seconds)
    return n
