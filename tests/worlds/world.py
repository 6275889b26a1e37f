"""Coordinators and agents as real processes, started by the command line, that a test may kill; and what the test submitted to them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from faults.at_point import AtPoint
from promises import aimed_jobs, guarantees, mixed_jobs
from promises.evidence import Evidence, Execution, Expected, gather
from promises.guarantees import Guarantee
from promises.workload import Workload

from jobyard import JobRequest, settings
from jobyard.api.options import Via
from jobyard.contracts.topics import lane_topics
from jobyard.embedded.services import Addresses
from jobyard.kafka.admin import Admin
from jobyard.master_db import declarations
from jobyard.master_db.connection import connect
from worlds.patience import LOOK_S, PATIENCE_S
from worlds.processes import Processes, stopped
from worlds.topic_reader import Lying, read_topic
from worlds.view import View

TESTS: Final = Path(__file__).parents[1]
"""First in PYTHONPATH of every process: their handlers are in here."""
CLIENT: Final = "client"
"""The name, among those of processes, of the test's own process as one that submits."""


class World(Processes, View):
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
        Processes.__init__(self, folder, around or {})
        View.__init__(self, addresses.database_url, folder / "journal")
        self._shows_logs = shows_logs
        self.addresses = addresses
        self._namespace = self.namespace = namespace
        self.topics = lane_topics(namespace, "default")
        self._workload = Workload(addresses.database_url, addresses.kafka_bootstrap_servers, self.topics.intake.name)
        self.expected = self._workload.expected
        self._reports_destroyed = False
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
        self.stop_all()
        mixed_jobs.app.close()
        self.close()
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

    # ---- waiting ----

    def until_standing(self, name: str) -> None:
        """Wait until it stands at its point, and leave it there."""
        self.until(f"{name} stands", self._broken(name).exists)

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

    def until(self, what: str, holds: Callable[[], object], within_s: float = PATIENCE_S, may_end: Collection[str] = ()) -> float:
        """Wait for it; the moment when it held.

        Every process that was started and not ended by the test must live meanwhile, but for `may_end` and those that are killed at a point.
        """
        deadline = time.monotonic() + within_s
        while not holds():
            self.see_lease()
            for name, child in self._children.items():
                assert child.alive() or name in may_end or name in self._dying, (
                    f"{name} ended by itself with status {child.returncode()} while the test waited: {what}"
                )
            assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}; {self.counts()}"
            time.sleep(LOOK_S)
        return time.monotonic()

    def running_on(self, name: str) -> list[Execution]:
        """What has started and not ended in this process, as it wrote itself."""
        return [execution for execution in self.executions() if execution.pid == self.pid(name) and execution.ended is None]

    def until_led(self) -> None:
        self.until("a coordinator leads the lane", lambda: self.rows("select 1 from jobyard.leases where lease_until > now()"))

    def until_active(self, *names: str) -> None:
        self.until(
            f"agents {names} are active",
            lambda: {row["agent"] for row in self.rows("select agent from jobyard.agent_load where state = 'active'")} >= set(names),
        )

    def until_under_way(self, *names: str) -> None:
        """The workload is under way: something has ended, and each of these agents has begun something. It may be done with it: short jobs are."""
        begun = {self.pid(name) for name in names}
        self.until(
            f"{names} have begun something",
            lambda: {execution.pid for execution in self.executions()} >= begun and self.ended() > 0,
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
        connection = self.connected()
        self.see_lease()
        living = () if self._reports_destroyed else self.living()
        return gather(connection, self.expected, self.journal, bad=self._workload.bad, leases=self.leases, living=living)

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
