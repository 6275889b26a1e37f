"""Long work of different sizes: progress, cancelling, and agents that take as much as they can bear.

Run agents with `jobyard agent run examples.media:app --capacity 60`: minutes of sound at once, however many files that is.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypedDict

from jobyard import App, BulkResult, JobContext, Snooze, current_job

app = App()


class Transcript(TypedDict):
    words: int
    checksum: str


@app.middleware
async def timed(job: JobContext, call_next: Callable[[], Awaitable[object]]) -> object:
    """Around each attempt: how long it took, however it ended."""
    begin = time.monotonic()
    try:
        return await call_next()
    finally:
        job.log.info("%s took %.1f s", job.kind, time.monotonic() - begin)


@app.job(size="minutes", timeout=3600, version=2, aliases=["transcribe_file"])
def transcribe(path: Path, minutes: float) -> Transcript:
    """Counts the words of a text file, line by line. A plain function: it runs in a thread, and looks for a cancel itself."""
    if not path.exists():
        raise Snooze(60)  # the upload is not there yet: that is no failed attempt
    job = current_job()
    total, done, words, digest = path.stat().st_size, 0, 0, hashlib.sha256()
    with path.open("rb") as lines:
        for line in lines:
            job.raise_if_cancelled()
            words += len(line.split())
            digest.update(line)
            done += len(line)
            job.progress(done, total, f"{words} words")
    return {"words": words, "checksum": digest.hexdigest()}


def transcribe_folder(folder: Path) -> BulkResult:
    """Submits a job for each file of a folder: any number, in bounded memory."""
    return app.submit_many(transcribe.request(path, minutes=1 + path.stat().st_size / 1e6) for path in sorted(folder.glob("*.txt")))
