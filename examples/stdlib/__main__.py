"""`python -m examples.stdlib`: thousands of real jobs, one agent killed in the middle, and the account of every job by SQL. Exit status 1 if one is missing."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg

from examples.stdlib import audit, sources
from jobyard import JobRequest
from jobyard.contracts.ids import new_job_id

FOLDER = Path(".jobyard") / "demo"
DEADLINE_S = 180.0
KILL_AT = 0.35
"""The share of jobs that have ended when one agent is killed."""
LANE_AGENTS = ("anna", "bert")
KILLED = LANE_AGENTS[0]
CAPACITY_KB = 600
"""Kilobytes of source that an agent parses at once; the largest file has more, and runs alone."""
SLOTS = 10


def main() -> int:
    """Run the demo; its exit status."""
    began = time.monotonic()
    with ExitStack() as stack:
        url, kafka = stack.enter_context(_services())
        os.environ["JOBYARD_DATABASE_URL"] = url
        os.environ["JOBYARD_KAFKA_BOOTSTRAP_SERVERS"] = kafka
        _say(f"Postgres and Kafka answer ({time.monotonic() - began:.1f} s)")
        _run("db", "upgrade")
        _run("topics", "create")
        _run("app", "sync", "examples.stdlib.jobs:app")
        processes = stack.enter_context(_Processes())
        processes.start("coordinator", "coordinator", "run")
        for name in LANE_AGENTS:
            processes.start_agent(name)
        run = new_job_id()
        submitted = _submit(url, run)
        with psycopg.connect(url, autocommit=True) as connection:
            _watch(connection, run, submitted, processes)
            _say(f"all jobs have ended ({time.monotonic() - began:.1f} s since the start)")
            right = _account(connection, run, submitted)
        processes.stop()
    _say(f"done in {time.monotonic() - began:.1f} s")
    return 0 if right else 1


@contextmanager
def _services() -> Generator[tuple[str, str]]:
    """Postgres and Kafka: those that the environment names, else embedded ones of the demo's own."""
    url, kafka = os.environ.get("JOBYARD_DATABASE_URL"), os.environ.get("JOBYARD_KAFKA_BOOTSTRAP_SERVERS")
    if url and kafka:
        yield url, kafka
        return
    from jobyard.embedded.services import Services

    shutil.rmtree(FOLDER, ignore_errors=True)  # each run starts with an empty database
    _say("starts a real Postgres and a real Kafka (the first time they are fetched)")
    with Services(FOLDER, owned=True) as services:
        yield services.database_url, services.kafka_bootstrap_servers


class _Processes:
    """The coordinator and the agents, each a real process with a log of its own."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._logs = FOLDER / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def start(self, name: str, *arguments: str) -> None:
        with (self._logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen([sys.executable, "-m", "jobyard.cli.app", *arguments], stdout=log, stderr=log)
        _say(f"started {name} (process {self._running[name].pid}, log {self._logs / name}.log)")

    def start_agent(self, name: str) -> None:
        self.start(name, "agent", "run", "examples.stdlib.jobs:app", "--name", name, "--capacity", str(CAPACITY_KB), "--slots", str(SLOTS))

    def kill(self, name: str) -> None:
        """kill -9: no goodbye, no report."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _say(f"killed {name} (process {process.pid}) with signal 9")

    def check(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                raise SystemExit(f"{name} ended by itself with status {process.returncode}; see {self._logs / name}.log")

    def stop(self) -> None:
        """SIGTERM to all, agents first: they finish what runs and say goodbye."""
        for name in reversed(self._running):
            self._running[name].terminate()
        for process in self._running.values():
            process.wait(40)


def _submit(url: str, run: str) -> int:
    """Send all jobs: one half by SQL in a transaction, the other by Kafka. How many they are."""
    from examples.stdlib.jobs import app, unsteady

    files, sentence = sources.source_files(FOLDER / "broken")
    _say(sentence)
    tags = {"run": run}
    middle = len(files) // 2
    in_transaction = list(_requests(files[:middle], tags, "sql"))
    in_transaction += [
        unsteady.options(tags=tags, priority="high").request(str(path), failures=1 + i % 3) for i, path in enumerate(files[::90])
    ]
    began = time.monotonic()
    with app, psycopg.connect(url) as connection:
        with connection.transaction():
            by_sql = app.submit_many(in_transaction, connection=connection).accepted
        _say(f"submitted {by_sql} jobs by SQL in one transaction ({time.monotonic() - began:.1f} s)")
        began = time.monotonic()
        by_kafka = app.submit_many(_requests(files[middle:], tags, "kafka")).accepted
        _say(f"submitted {by_kafka} jobs by Kafka ({time.monotonic() - began:.1f} s)")
    return by_sql + by_kafka


def _requests(files: Sequence[Path], tags: Mapping[str, str], via: Literal["sql", "kafka"]) -> Iterator[JobRequest[Any]]:
    """Two jobs a file."""
    from examples.stdlib.jobs import fingerprint, parse

    parsing = parse.options(tags=tags, via=via)
    printing = fingerprint.options(tags=tags, via=via, priority="low")
    for path in files:
        yield parsing.request(str(path), kilobytes=round(max(0.1, path.stat().st_size / 1024), 2))
        yield printing.request(str(path))


def _watch(connection: psycopg.Connection[tuple[object, ...]], run: str, submitted: int, processes: _Processes) -> None:
    """Show progress until every job is final; kill one agent on the way, and start it again."""
    killed = False
    deadline = time.monotonic() + DEADLINE_S
    said = 0.0
    while True:
        processes.check()
        rows = connection.execute(
            "select state::text, count(*) from jobyard.job_status where tags @> jsonb_build_object('run', %s::text) group by 1", (run,)
        ).fetchall()
        counts = {str(state): int(str(n)) for state, n in rows}
        ended = sum(counts.get(state, 0) for state in ("succeeded", "failed", "cancelled", "expired", "refused"))
        line = f"{ended:5d} of {submitted} ended  " + "  ".join(f"{state} {n}" for state, n in sorted(counts.items()))
        if sys.stdout.isatty():
            width = 30
            done = int(width * ended / submitted)
            print(f"\r  [{'█' * done}{'·' * (width - done)}] {line:<90}", end="", flush=True)
        elif time.monotonic() - said >= 2 or ended >= submitted:
            said = time.monotonic()
            _say(line)
        if ended >= submitted:
            print()
            return
        if not killed and ended >= submitted * KILL_AT and (counts.get("running") or counts.get("placed")):
            killed = True
            processes.kill(KILLED)
            processes.start_agent(KILLED)
        if time.monotonic() > deadline:
            raise SystemExit(f"{submitted - ended} jobs have not ended after {DEADLINE_S:g} s: {counts}; logs are in {FOLDER / 'logs'}")
        time.sleep(0.2)


def _account(connection: psycopg.Connection[tuple[object, ...]], run: str, submitted: int) -> bool:
    """Ask the Master DB what happened, and check that nothing is missing."""
    for question in (audit.TOTALS, audit.ERRORS, audit.ATTEMPTS, audit.AGENTS, audit.SLOWEST):
        audit.ask(connection, question, run=run)
    lost = sum(int(str(row[1])) for row in audit.ask(connection, audit.LOST, run=run, killed=KILLED))
    audit.ask(connection, audit.MOVED, run=run, killed=KILLED)
    retried = audit.ask(connection, audit.RETRIED, run=run)
    if retried:
        audit.ask(connection, audit.TIMELINE, job=retried[0][0])
    unfinished = audit.ask(connection, audit.UNFINISHED, run=run)[0][0]
    final, ids = audit.ask(connection, audit.FINAL, run=run)[0]
    gaps = audit.ask(connection, audit.GAPS, run=run)[0][0]
    checks = {
        f"jobs submitted ({submitted}) = jobs final ({final}), each once ({ids})": final == submitted == ids,
        f"jobs that are not final: {unfinished}": unfinished == 0,
        f"jobs whose attempts have a gap: {gaps}": gaps == 0,
        f"jobs that were on the killed agent: {lost}": bool(lost),
        f"jobs that were retried and succeeded: {'one is shown' if retried else 'none'}": bool(retried),
    }
    print()
    for text, right in checks.items():
        _say(f"{'✓' if right else '✗'} {text}")
    return all(checks.values())


def _run(*arguments: str) -> None:
    """A command of the CLI, as a user would type it."""
    print(f"$ jobyard {' '.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "jobyard.cli.app", *arguments], check=True)


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
