"""`python -m bench.due [JOBS] [MOST] [ROUNDS]`: what reading ahead costs a job, the dearest step of a drain.

Plain jobs with 100 bytes of arguments, read as a leader does, MOST at a time from the first to the last. On an embedded Postgres of the bench's own; with
JOBYARD_DATABASE_URL on that database, which must be migrated, and keeps what was put there: so two versions of the program can take turns on the same rows.
"""

import json
import os
import statistics
import sys
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from bench.product import FOLDER
from jobyard import migrations
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.questions import DueQuestion, Questions
from jobyard.master_db.lane_store import PostgresLaneStore

JOBS, MOST, ROUNDS = 50_000, 2_000, 9


def main(jobs: int, most: int, rounds: int) -> None:
    """Fill, read all of it several times, and print the median round."""
    with _database() as url:
        _fill(url, jobs)
        store = PostgresLaneStore(url, "default", str(uuid.uuid4()), Rules(lease_s=3600.0))
        term = store.seize()
        assert term is not None
        try:
            store.snapshot()
            _read(store, jobs, most)  # the first round fills caches
            rounds_us = [_read(store, jobs, most) for _ in range(rounds)]
        finally:
            store.release(term)
            store.close()
    wall, own = (statistics.median(column) for column in zip(*rounds_us, strict=True))
    print(json.dumps({
        "figure": "due", "value": round(wall, 2), "unit": "us/job",
        "conditions": {"jobs": jobs, "most": most, "rounds": rounds, "cpu_of_the_leader_us": round(own, 2), "best_us": round(min(rounds_us)[0], 2)},
    }))  # fmt: skip


def _read(store: PostgresLaneStore, jobs: int, most: int) -> tuple[float, float]:
    """µs a job, and how much of it was CPU of this process."""
    until, after, seen = time.time() + 1, (0.0, ""), 0
    began, cpu = time.perf_counter(), time.process_time()
    while True:
        (answer,) = store.ask(Questions(due=[DueQuestion(2, "noop", 0, after, until, most)])).due
        seen += len(answer.rows)
        if len(answer.rows) < most:
            break
        after = (answer.rows[-1].job.run_at, answer.rows[-1].job.id)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    if seen < jobs:
        raise SystemExit(f"{seen} of {jobs} jobs were read")
    return took / seen * 1e6, used / seen * 1e6


def _fill(url: str, jobs: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("select count(*) from jobyard.pending").fetchone()
        assert row is not None
        for start in range(row[0], jobs, 5_000):
            batch = [{"kind": "noop", "args": {"x": "a" * 88}}] * min(5_000, jobs - start)
            connection.execute("select count(*) from jobyard.submit_many(%s::jsonb)", (json.dumps(batch),))
        connection.execute("vacuum analyze jobyard.pending, jobyard.jobs")


@contextmanager
def _database() -> Generator[str]:
    given = os.environ.get("JOBYARD_DATABASE_URL")
    if given:
        yield given
        return
    from jobyard.embedded.services import Services

    FOLDER.mkdir(parents=True, exist_ok=True)
    with Services(FOLDER, owned=True) as services:
        migrations.upgrade(services.database_url)
        yield services.database_url


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*(given + [JOBS, MOST, ROUNDS][len(given) :]))
