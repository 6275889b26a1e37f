"""`python -m bench.failover [KILLS] [AGENT_KILLS]`: how long nothing is placed after a coordinator is killed, and how long an agent's jobs wait after it is.

Coordinator: two run; the one that leads is killed (kill -9); measured until a job that was submitted after the kill is placed. Agent: one that holds jobs
is killed; measured until the first of them is placed elsewhere, less `lost_after`, which is what it may be silent for.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable

import psycopg

from bench.product import Product, product

LOST_AFTER_S = 3.0
_PATIENCE_S = 60.0
Session = psycopg.Connection[tuple[object, ...]]


def main(kills: int, agent_kills: int) -> None:
    """Both figures, a line each."""
    os.environ["JOBYARD_LOST_AFTER_S"] = str(LOST_AFTER_S)
    os.environ["JOBYARD_UNREACHABLE_AFTER_S"] = "1.5"
    with product() as jobyard, psycopg.connect(jobyard.database_url, autocommit=True) as connection:
        names = itertools.count()
        for _ in range(2):
            jobyard.start(f"coordinator-{next(names)}", "coordinator", "run")
        for n in range(2):
            jobyard.start(f"agent-{n}", "agent", "run", "bench.jobs:app", "--name", f"agent-{n}", "--slots", "4")
        jobyard.await_agents(2)
        _tell("coordinator killed, placing again", [_coordinator_killed(jobyard, connection, names) for _ in range(kills)], {})
        conditions = {"lost_after_s": LOST_AFTER_S}
        _tell(
            "agent killed, placed elsewhere beyond lost_after",
            [_agent_killed(jobyard, connection, n) for n in range(agent_kills)],
            conditions,
        )


def _coordinator_killed(jobyard: Product, connection: Session, names: "itertools.count[int]") -> float:
    leader = _leader(jobyard, connection)
    process = jobyard.processes.pop(leader)
    killed = time.monotonic()
    process.kill()
    process.wait()
    job = _submit(connection, 0.0)
    _until(lambda: _one(connection, "select count(*) from jobyard.attempts where job_id = %s", job) == 1, 0.005)
    row = connection.execute(
        "select extract(epoch from clock_timestamp() - placed_at)::float8 from jobyard.attempts where job_id = %s", [job]
    ).fetchone()
    assert row is not None
    took = time.monotonic() - killed - float(str(row[0]))
    name = f"coordinator-{next(names)}"
    jobyard.start(name, "coordinator", "run")
    _until(
        lambda: (
            _one(
                connection,
                "select count(*) from jobyard.coordinators where seen_until > clock_timestamp() and started_at < clock_timestamp() - interval '2 s'",
            )
            == 2
        ),
        0.05,
    )
    return took


def _agent_killed(jobyard: Product, connection: Session, number: int) -> float:
    """By the coordinator's clock: from the last that was heard of it, which is at most a heartbeat before the kill."""
    for _ in range(8):
        _submit(connection, 0.5)
    victim = f"agent-{number % 2}"
    _until(lambda: _one(connection, "select running + placed from jobyard.agent_load where agent = %s", victim) > 0, 0.005)
    process = jobyard.processes.pop(victim)
    killed = _clock(connection)
    process.kill()
    process.wait()
    agent_id = _one(connection, "select agent_id from jobyard.agents where name = %s order by agent_id desc limit 1", victim)
    _until(lambda: _one(connection, "select count(*) from jobyard.attempts where agent_id = %s and outcome = 'lost'", agent_id) > 0, 0.01)
    lost = "select a.job_id from jobyard.attempts a where a.agent_id = %s and a.outcome = 'lost'"
    again = f"""select min(p.at) from (select placed_at as at from jobyard.attempts b where b.agent_id <> %s and b.job_id in ({lost}) and b.attempt > 1
      union all select placed_at from jobyard.bundles b where b.agent_id <> %s and b.job_ids && array({lost})) p"""
    found: list[float] = []

    def placed() -> bool:
        row = connection.execute(f"select extract(epoch from x.min)::float8 from ({again}) x".encode(), [agent_id] * 4).fetchone()
        if row is not None and row[0] is not None:
            found.append(float(str(row[0])))
        return bool(found)

    _until(placed, 0.01)
    jobyard.start(victim, "agent", "run", "bench.jobs:app", "--name", victim, "--slots", "4")
    _until(
        lambda: _one(connection, "select count(*) from jobyard.pending") + _one(connection, "select count(*) from jobyard.bundles") == 0,
        0.05,
    )
    jobyard.await_agents(2)
    return found[0] - killed - LOST_AFTER_S


def _leader(jobyard: Product, connection: Session) -> str:
    """The name of the process that leads: its session tells its process."""
    by_pid = {process.pid: name for name, process in jobyard.processes.items()}
    while True:
        row = connection.execute("select leader from jobyard.leases where lease_until > clock_timestamp()").fetchone()
        if row is not None:
            ports = connection.execute(
                "select client_port from pg_stat_activity where application_name like 'jobyard-coordinator%%' and application_name like %s",
                [f"%{row[0]}"],
            ).fetchall()
            for name in (by_pid[pid] for pid in by_pid if by_pid[pid].startswith("coordinator")):
                if any(_has_port(jobyard.processes[name].pid, int(str(port[0]))) for port in ports):
                    return name
        time.sleep(0.05)


def _has_port(pid: int, port: int) -> bool:
    """Whether the process has a TCP socket that is bound to this local port (Linux)."""
    inodes = set[str]()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[9] in inodes:
                    return True
    return False


def _submit(connection: Session, seconds: float) -> str:
    row = connection.execute("select jobyard.submit('bench.sleep', jsonb_build_object('seconds', %s::float8))::text", [seconds]).fetchone()
    assert row is not None
    return str(row[0])


def _one(connection: Session, query: str, *values: object) -> int:
    row = connection.execute(query.encode(), values).fetchone()
    return 0 if row is None or row[0] is None else int(str(row[0]))


def _clock(connection: Session) -> float:
    row = connection.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(str(row[0]))


def _until(holds: Callable[[], bool], every_s: float) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_PATIENCE_S:g} s")
        time.sleep(every_s)


def _tell(figure: str, runs: list[float], conditions: dict[str, float]) -> None:
    if runs:
        runs.sort()
        p50, p99 = runs[len(runs) // 2], runs[min(len(runs) - 1, round(0.99 * (len(runs) - 1)))]
        line = {
            "figure": figure,
            "value": round(p50, 3),
            "unit": "s",
            "runs": [round(runs[0], 3), round(p50, 3), round(runs[-1], 3)],
            "p99": round(p99, 3),
        }
        print(json.dumps({**line, "conditions": {"kills": len(runs), **conditions}}), flush=True)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given + [20, 20][len(given) :]))
