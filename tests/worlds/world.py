"""Coordinators and agents as real processes, started by the command line, that a test may kill; and what the test submitted to them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import psycopg
from faults.at_point import AtPoint, go_of
from promises import aimed_jobs, guarantees, mixed_jobs
from promises.evidence import Evidence, Execution, Expected, Lease, gather, read_journal
from promises.guarantees import Guarantee
from promises.workload import Workload
from psycopg.rows import dict_row

from jobyard import JobRequest, settings
from jobyard.api.options import Via
from jobyard.contracts.topics import lane_topics
from jobyard.embedded.child import Child
from jobyard.embedded.services import Addresses
from jobyard.kafka.admin import Admin
from jobyard.master_db import declarations
from jobyard.master_db.connection import connect
from worlds.topic_reader import Lying, read_topic

TESTS: Final = Path(__file__).parents[1]
"""First in PYTHONPATH of every process: their handlers are in here."""
PATIENCE_S: Final = 100.0
"""How long anything may take that should take a moment: machines under load are slow."""
LOOK_S: Final = 0.05
TAIL_LINES: Final = 60
CLIENT: Final = "client"
"""The name, among those of processes, of the test's own process as one that submits."""


def stopped(pid: int) -> bool:
    """By SIGSTOP."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class World:
    """One lane in a database and a namespace of its own. `lost_after_s`: how long an agent may be silent. Everything ends with the with-block.

    `around`: what is otherwise in the environment of a process, by its name, or of what CLIENT submits: addresses, clocks, code of another version. Read when
    it starts; the test asks and checks by `addresses` itself. `shows_logs`: their ends are written to standard output at the end.
    """

    def __init__(
        self,
        folder: Path,
        addresses: Addresses,
        namespace: str,
        *,
        lost_after_s: float = 5.0,
        grace_s: float = 2.0,
        around: Mapping[str, Mapping[str, str]] | None = None,
        shows_logs: bool = True,
    ) -> None:
        self._folder = folder
        self._shows_logs = shows_logs
        self.around = dict(around or {})
        self.addresses = addresses
        self._namespace = self.namespace = namespace
        self.topics = lane_topics(namespace, "default")
        self.journal = folder / "journal"
        self._workload = Workload(addresses.database_url, addresses.kafka_bootstrap_servers, self.topics.intake.name)
        self.expected = self._workload.expected
        self.leases: list[Lease] = []
        self._reports_destroyed = False
        self._children: dict[str, Child] = {}
        self._dying: set[str] = set()
        self._opened: psycopg.Connection[dict[str, Any]] | None = None
        self._ours = {
            "JOBYARD_KAFKA_BOOTSTRAP_SERVERS": addresses.kafka_bootstrap_servers,
            "JOBYARD_NAMESPACE": namespace,
            mixed_jobs.JOURNAL: str(self.journal),
            "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        self._database = {
            "JOBYARD_DATABASE_URL": addresses.database_url,
            "JOBYARD_LOST_AFTER_S": str(lost_after_s),
            "JOBYARD_UNREACHABLE_AFTER_S": str(min(5.0, lost_after_s / 2)),
        }
        self._grace = {"JOBYARD_GRACE_S": str(grace_s)}
        self._before: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._before = dict(os.environ)
        os.environ.update({**self._ours, "JOBYARD_DATABASE_URL": self.addresses.database_url, **self.around.get(CLIENT, {})})
        settings.forget()
        self.make_topics()
        mixed_jobs.app.load()
        with connect(self.addresses.database_url, application_name="jobyard tests") as connection:
            declarations.sync(connection, mixed_jobs.app.declarations())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for child in self._children.values():
            child.ask_to_stop()
        for child in self._children.values():
            child.stop()
        mixed_jobs.app.close()
        if self._opened is not None:
            self._opened.close()
        os.environ.clear()
        os.environ.update(self._before)
        settings.forget()
        if self._shows_logs:
            sys.stdout.write(self.said())  # shown by pytest if the test has failed

    # ---- processes ----

    def coordinator(self, name: str, *, at: AtPoint | None = None) -> None:
        """Start one. `at`: where it breaks."""
        self._start(name, ["coordinator", "run"], self._ours | self._database, at)

    def together(self, name: str, *, slots: int = 10) -> None:
        """Start coordinator and agent in one process."""
        arguments = ["run", "promises.mixed_jobs:app", "--name", name, "--slots", str(slots)]
        self._start(name, arguments, self._ours | self._database | self._grace, None)

    def agent(
        self,
        name: str,
        *,
        slots: int = 10,
        capacity: float | None = None,
        process: str | None = None,
        at: AtPoint | None = None,
        aims: Iterable[str] | None = None,
    ) -> None:
        """Start one, without the database's address. `process`: what the process is called here; None: as the agent. `at`: where it breaks.

        `capacity`: None: as its slots. `aims`: names for which it has kinds of their own (see aimed_jobs), beside the mixed ones.
        """
        app = "promises.mixed_jobs:app" if aims is None else "promises.aimed_jobs:app"
        arguments = ["agent", "run", app, "--name", name, "--slots", str(slots)]
        if capacity is not None:
            arguments += ["--capacity", str(capacity)]
        self._start(process or name, arguments, self._ours | self._grace | {aimed_jobs.AIMS: " ".join(aims or ())}, at)

    def _start(self, name: str, arguments: Sequence[str], environment: dict[str, str], at: AtPoint | None) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("JOBYARD_")}
        program = ["-m", "jobyard.cli.app"]
        self._dying.discard(name)
        if at is not None:
            if at.what == "kill":
                self._dying.add(name)
            self._broken(name).unlink(missing_ok=True)
            go_of(self._broken(name)).unlink(missing_ok=True)
            program = ["-m", "faults.at_point", at.spec(self._broken(name))]
        self._children[name] = Child(
            [sys.executable, *program, *arguments],
            stop_signal=signal.SIGKILL,
            patience_s=1.0,
            log=self._folder / f"{name}.log",
            env={**inherited, **environment, **self.around.get(name, {})},
            folder=self._folder,
        )

    def pid(self, name: str) -> int:
        return self._children[name].pid

    def send(self, name: str, what: signal.Signals) -> None:
        """Any signal; does not wait."""
        self._children[name].send(what)

    def kill(self, name: str) -> float:
        """kill -9; the moment of it."""
        child = self._children.pop(name)
        at = time.monotonic()
        child.send(signal.SIGKILL)
        assert child.wait(PATIENCE_S)
        return at

    def terminate(self, name: str) -> int:
        """SIGTERM, and wait; its exit status."""
        self.send(name, signal.SIGTERM)
        return self.status_of(name)

    def status_of(self, name: str) -> int:
        """Wait for it to end by itself; its exit status."""
        child = self._children.pop(name)
        assert child.wait(PATIENCE_S), f"{name} does not end"
        status = child.returncode()
        assert status is not None
        return status

    def until_broken(self, name: str, at: AtPoint, holds: Callable[[], object] = lambda: True) -> float:
        """Wait until it has got to its point, and is killed, or paused (SIGCONT wakes it). The moment of it.

        `holds`: if it stands there first, what is waited for.
        """
        moment = self.until(f"{name} gets to {at.point}", self._broken(name).exists, may_end=(name,))
        if at.stands:
            self.until(f"what {name} stands still for", holds)
            self.let_go(name)
        if at.what == "kill":
            child = self._children.pop(name)
            assert child.wait(PATIENCE_S)
        else:
            self.until(f"{name} is paused", lambda: stopped(self.pid(name)))
        return moment

    def let_go(self, name: str) -> None:
        """One that stands at its point goes on."""
        go_of(self._broken(name)).touch()

    def told(self, name: str) -> dict[str, Any]:
        """The facts of the point at which it broke: see leader_points."""
        found: dict[str, Any] = json.loads(self._broken(name).read_text())
        return found

    def broken(self, name: str) -> bool:
        """Whether it has got to its point."""
        return self._broken(name).exists()

    def _broken(self, name: str) -> Path:
        return self._folder / f"{name}.broken"

    def names(self) -> tuple[str, ...]:
        """What was started here and has not been seen to end."""
        return tuple(self._children)

    def ended_processes(self) -> list[tuple[str, int]]:
        """Those that have ended by themselves, or by their point, since the last call, with their exit status (128 + N: by signal N)."""
        ended = [(name, status) for name, child in self._children.items() if (status := child.returncode()) is not None]
        for name, _ in ended:
            self._children.pop(name).ask_to_stop()
        return ended

    def said(self) -> str:
        """The end of every process' log."""
        parts: list[str] = []
        for log in sorted(self._folder.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()
            parts += [f"--- {log.name}, {len(lines)} lines", *lines[-TAIL_LINES:]]
        return "\n".join(parts)

    def log_of(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def end_lease(self) -> None:
        """As though the time of a leader's lease had gone by: for one that is killed or paused."""
        self.rows("update jobyard.leases set lease_until = now() returning 1")

    # ---- asking ----

    def until(self, what: str, holds: Callable[[], object], within_s: float = PATIENCE_S, may_end: Collection[str] = ()) -> float:
        """Wait for it; the moment when it held.

        Every process that was started and not ended by the test must live meanwhile, but for `may_end` and those that are killed at a point.
        """
        deadline = time.monotonic() + within_s
        while not holds():
            self._see_lease()
            for name, child in self._children.items():
                assert child.alive() or name in may_end or name in self._dying, (
                    f"{name} ended by itself with status {child.returncode()} while the test waited: {what}"
                )
            assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}; {self.counts()}"
            time.sleep(LOOK_S)
        return time.monotonic()

    def _see_lease(self) -> None:
        """Another look at the leader's row, if the database is there: what is seen must only grow."""
        if self._opened is None or self._opened.closed:
            return
        try:
            rows = self._opened.execute("select epoch, fence, offsets from jobyard.leases").fetchall()
        except psycopg.Error:
            return
        self.leases += [lease for row in rows if (lease := Lease.of(row)) not in self.leases[-1:]]

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Ask the Master DB; a database that is away is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self._opened is None or self._opened.closed:
                    self._opened = psycopg.Connection[dict[str, Any]].connect(
                        self.addresses.database_url, autocommit=True, row_factory=dict_row
                    )
                return self._opened.execute(sql.encode(), values).fetchall()
            except psycopg.OperationalError:
                if self._opened is not None:
                    self._opened.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_S)

    def number(self, sql: str, *values: object) -> int:
        """The one number that it asks for."""
        (row,) = self.rows(sql, *values)
        (value,) = row.values()
        return int(value)

    def counts(self) -> dict[str, int]:
        """Jobs by state."""
        return {row["state"]: row["jobs"] for row in self.rows("select state::text, count(*) as jobs from jobyard.job_status group by 1")}

    def state(self, job: str) -> str | None:
        """A job's state; None: there is no such job (yet)."""
        found = self.rows("select state::text from jobyard.job_status where job_id = %s", job)
        return found[0]["state"] if found else None

    def is_final(self, job: str) -> bool:
        return self.state(job) in ("succeeded", "failed", "cancelled", "expired", "refused")

    def ended(self) -> int:
        """How many jobs are final."""
        return self.number(
            "select count(*) from jobyard.job_status where state in ('succeeded', 'failed', 'cancelled', 'expired', 'refused')"
        )

    def executions(self) -> list[Execution]:
        return read_journal(self.journal)

    def running_on(self, name: str) -> list[Execution]:
        """What has started and not ended in this process, as it wrote itself."""
        return [execution for execution in self.executions() if execution.pid == self.pid(name) and execution.ended is None]

    def kind_of(self, job: str) -> str:
        return str(self.rows("select kind from jobyard.job_status where job_id = %s", job)[0]["kind"])

    def until_led(self) -> None:
        self.until("a coordinator leads the lane", lambda: self.rows("select 1 from jobyard.leases where lease_until > now()"))

    def until_active(self, *names: str) -> None:
        self.until(
            f"agents {names} are active",
            lambda: {row["agent"] for row in self.rows("select agent from jobyard.agent_load where state = 'active'")} >= set(names),
        )

    def until_busy(self, *names: str) -> None:
        """The workload is under way: something has ended, and something runs on each of these agents."""

        def busy() -> bool:
            running = {execution.pid for execution in self.executions() if execution.ended is None}
            return running >= {self.pid(name) for name in names} and self.ended() > 0

        self.until(f"{names} are busy", busy)

    def until_all_ended(self, within_s: float = PATIENCE_S) -> None:
        self._workload.cancel_rest()
        self.until(f"all {len(self.expected)} jobs have ended", lambda: self.ended() >= len(self.expected), within_s)
        # ended again by a take-over's or a late agent's doing: nothing may be open either
        self.until(
            "nothing is open",
            lambda: (
                self.number(
                    "select (select count(*) from jobyard.bundles) + (select count(*) from jobyard.pending) + (select count(*) from jobyard.running)"
                )
                == 0
            ),
        )
        bad = len(self._workload.bad)
        self.until("what is no job is in quarantine", lambda: self.number("select count(*) from jobyard.quarantine") >= bad)

    def evidence(self) -> Evidence:
        self.rows("select 1")  # the connection may have been cut meanwhile
        assert self._opened is not None
        self._see_lease()
        living = (
            () if self._reports_destroyed else [child.pid for child in self._children.values() if child.alive() and not stopped(child.pid)]
        )
        return gather(self._opened, self.expected, self.journal, bad=self._workload.bad, leases=self.leases, living=living)

    def check(self, *more: Guarantee) -> Evidence:
        """Wait for all ends, and check every guarantee and these."""
        self.until_all_ended()
        self.until("what was late is told", lambda: not guarantees.untold(self.evidence()))
        evidence = self.evidence()
        guarantees.check(evidence, *more)
        return evidence

    # ---- submitting ----

    def expect_bad(self, part: str) -> None:
        """Note what is about to be sent by Kafka and must go to quarantine: a part of it."""
        self._workload.bad.append(part)

    def expect(self, request: JobRequest[Any], expected: Expected | None = None) -> JobRequest[Any]:
        """Note a job that is about to be submitted. None: it succeeds, and gives its argument n."""
        return self._workload.expect(request, expected)

    def mixed(self, count: int, via: Via = "sql") -> list[JobRequest[Any]]:
        """Requests of all sorts, in turn, noted with what must become of each."""
        return self._workload.mixed(count, via)

    def submit_mixed(self, count: int, *, by_cli: int = 10) -> None:
        """The workload, by all ways: `by_cli` of its jobs by the command line."""
        if by_cli:  # first, since it takes a moment: the others are to be there at once
            self.by_cli(self.mixed(by_cli))
        self._workload.submit(count - by_cli)

    def by_cli(self, requests: Iterable[JobRequest[Any]]) -> None:
        """By the command line, from lines of JSON."""
        lines = self._folder / f"lines-{self._workload.number()}"
        lines.write_text("".join(json.dumps({"id": str(one.id), "kind": one.kind, "args": one.args}) + "\n" for one in requests))
        self.cli("job", "submit", "--from", str(lines))

    def cli(self, *arguments: str) -> list[dict[str, Any]]:
        """A command as a real process, with --json; what it printed. It must succeed."""
        done = subprocess.run(
            [sys.executable, "-m", "jobyard.cli.app", *arguments, "--json"],
            cwd=self._folder,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    # ---- topics ----

    def lying_in(self, topic: str) -> list[Lying]:
        """All messages of it that are there now."""
        return read_topic(self.addresses.kafka_bootstrap_servers, self._namespace, topic)

    def make_topics(self) -> None:
        """Those that are missing."""
        admin = Admin(self.addresses.kafka_bootstrap_servers, {})
        admin.ensure(self.topics.all())
        admin.close()

    def destroy_topic(self, name: str, may_end: Collection[str] = ()) -> None:
        """Delete it with everything in it, and make it again."""
        self._reports_destroyed |= name == self.topics.reports.name
        admin = Admin(self.addresses.kafka_bootstrap_servers, {})
        before = admin.topic_ids([name])[name]
        admin.delete_topics([name])
        (topic,) = [topic for topic in self.topics.all() if topic.name == name]

        def made() -> bool:
            admin.ensure([topic])
            return admin.topic_ids([name])[name] not in (None, before)

        self.until(f"topic {name} is made again", made, may_end=may_end)
        admin.close()


MakeWorld: TypeAlias = Callable[..., World]
"""The fixture that makes a test's world."""
