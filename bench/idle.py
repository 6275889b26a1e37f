"""`python -m bench.idle [SECONDS] [AGENTS]`: what an idle coordinator costs: CPU, and statements that it sends to Postgres, a minute."""

import json
import sys
import time

import psycopg

from bench.product import product


def main(seconds: int, agents: int) -> None:
    """Start, wait until all is quiet, then count for some time."""
    with product() as jobyard, psycopg.connect(jobyard.database_url, autocommit=True) as connection:
        jobyard.start("coordinator", "coordinator", "run")
        for n in range(agents):
            jobyard.start(f"agent-{n}", "agent", "run", "bench.jobs:app", "--name", f"bench-{n}")
        jobyard.await_agents(agents)
        time.sleep(5)
        cpu, commits, began = jobyard.cpu_s("coordinator"), _transactions(connection), time.monotonic()
        agent_cpu = jobyard.cpu_s("agent-0") if agents else 0.0
        time.sleep(seconds)
        took = time.monotonic() - began
        figure = {
            "figure": "idle",
            "value": round((jobyard.cpu_s("coordinator") - cpu) / took * 100, 2),
            "unit": "% of a core",
            "conditions": {
                "agents": agents,
                "seconds": seconds,
                "transactions_a_minute": round((_transactions(connection) - commits) / took * 60),
                "agent_percent_of_a_core": round((jobyard.cpu_s("agent-0") - agent_cpu) / took * 100, 2) if agents else None,
            },
        }
        print(json.dumps(figure))


def _transactions(connection: "psycopg.Connection[tuple[object, ...]]") -> int:
    connection.execute("select pg_stat_clear_snapshot()")
    row = connection.execute("select xact_commit + xact_rollback from pg_stat_database where datname = current_database()").fetchone()
    assert row is not None
    return int(str(row[0]))


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given + [60, 2][len(given) :]))
