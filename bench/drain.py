"""`python -m bench.drain [JOBS] [AGENTS] [SLOTS] [SUBMITTERS]`: jobs a second of a backlog of no-op jobs with 100 bytes of arguments.

With submitters (0: none named) the lane shares fairly among them, and their jobs lie mixed.
"""

import json
import sys
import time

import psycopg

from bench.product import product

JOBS, AGENTS, SLOTS, SUBMITTERS = 100_000, 2, 100, 0


def main(jobs: int, agents: int, slots: int, submitters: int) -> None:
    """Queue, then start coordinator and agents, then measure between the first and the last end as the audit tells them."""
    with product() as jobyard, psycopg.connect(jobyard.database_url, autocommit=True) as connection:
        before = _ended(connection)
        connection.execute("select jobyard.fair_share('default', %s)", (submitters > 0,))
        _queue(connection, jobs, submitters)
        connection.execute("vacuum analyze jobyard.pending")
        began = time.monotonic()
        jobyard.start("coordinator", "coordinator", "run")
        for n in range(agents):
            jobyard.start(f"agent-{n}", "agent", "run", "bench.jobs:app", "--name", f"bench-{n}", "--slots", str(slots))
        deadline = time.monotonic() + 300
        while (ended := _ended(connection) - before) < jobs:
            if time.monotonic() > deadline:
                raise SystemExit(f"{jobs - ended} jobs have not ended after 300 s")
            time.sleep(0.25)
        whole = time.monotonic() - began
        row = connection.execute(
            "select extract(epoch from max(finished_at) - min(placed_at))::float8, count(distinct fence) from jobyard.attempts where attempt = 1"
            " and job_id in (select job_id from jobyard.attempts order by job_id desc limit %s)",
            (jobs,),
        ).fetchone()
        assert row is not None
        figure = {
            "figure": "drain",
            "value": round(jobs / row[0]),
            "unit": "jobs/s",
            "conditions": {
                "jobs": jobs,
                "agents": agents,
                "slots": slots,
                "submitters": submitters,
                "bundles": row[1],
                "with_start_s": round(whole, 1),
                "cpu_s": {name: round(jobyard.cpu_s(name), 1) for name in jobyard.processes},
            },
        }
        print(json.dumps(figure))


def _queue(connection: "psycopg.Connection[tuple[object, ...]]", jobs: int, submitters: int) -> None:
    for start in range(0, jobs, 5000):
        batch: list[dict[str, object]] = [{"kind": "noop", "args": {"x": "a" * 88}} for _ in range(min(5000, jobs - start))]
        if submitters:
            for number, job in enumerate(batch, start):
                job["submitter"] = f"submitter-{number % submitters}"
        connection.execute("select count(*) from jobyard.submit_many(%s::jsonb)", (json.dumps(batch),))


def _ended(connection: "psycopg.Connection[tuple[object, ...]]") -> int:
    row = connection.execute("select count(*) from jobyard.attempts where final is not null").fetchone()
    assert row is not None
    return int(str(row[0]))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given + [JOBS, AGENTS, SLOTS, SUBMITTERS][len(given) :]))
