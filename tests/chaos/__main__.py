"""Chaos: the workload goes on while processes, services and networks break at random; in the end every guarantee must hold.

    python -m chaos --minutes 10 [--seed N] [--rate JOBS_PER_SECOND]

The seed is printed: it repeats the same faults at the same moments. Exit status 0: nothing was lost, and nothing ran twice but as promised.
"""

import argparse
import heapq
import itertools
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import psycopg
from faults.at_point import AtPoint
from faults.network import Network
from promises import mixed_jobs
from promises.guarantees import Evidence, check
from worlds.world import World

from chaos.plan import CLIENT, LOST_AFTER_S, Step, plan
from jobyard import JobRequest, ServiceUnavailable, migrations
from jobyard.embedded.services import Services
from jobyard.process.points import Point

COORDINATORS: Final = ("first", "second")
AGENTS: Final = ("anna", "bert", "cleo", "dora")
SLOTS: Final = 20
LOOK_S: Final = 0.05
ENDS_WITHIN_S: Final = 60.0
"""A process that was told to end must have, whatever is broken around it."""
RECOVERS_WITHIN_S: Final = 300.0
"""Once all faults are over."""
SLACK_S: Final = 15.0
"""How much later than a disturbance and the time that an agent may be silent it may be noticed that an attempt is lost, on a machine under load."""
DELAY_S: Final = 0.2
JITTER_S: Final = 0.1
ORDERLY: Final = frozenset({0, 5})
"""Exit status of a process that was told to end: in order, or it could not report in time."""
REPLACED: Final = 1
KILLED: Final = 128 + signal.SIGKILL

Ways: TypeAlias = dict[str, Callable[[list[JobRequest[Any]]], object]]


@dataclass(frozen=True)
class Disturbance:
    """From when to when an agent (empty: any) was disturbed so that its attempts may be lost."""

    agent: str
    begins: datetime
    ends: datetime


@dataclass(frozen=True)
class LostOnlyWhile:
    """An attempt is lost only while its agent is disturbed, or so much later as it takes to notice."""

    disturbances: Collection[Disturbance]

    def broken(self, evidence: Evidence) -> Iterable[str]:
        noticed = timedelta(seconds=LOST_AFTER_S + SLACK_S)
        for job, attempts in evidence.attempts.items():
            for row in attempts:
                if row["outcome"] == "lost" and not any(
                    one.agent in (row["agent"], "") and one.begins <= row["finished_at"] <= one.ends + noticed for one in self.disturbances
                ):
                    yield f"attempt {row['attempt']} of job {job} was lost at {row['finished_at']} with agent {row['agent']}, undisturbed then"


class Load:
    """Submits mixed jobs by all ways, in a thread, until it is stopped; what a service did not take for sure is submitted again, by the same id."""

    def __init__(self, world: World, seed: int, rate: float) -> None:
        self._world = world
        self._rng = random.Random(seed)
        self._rate = rate
        self._stop = threading.Event()
        self.error: BaseException | None = None
        self.again = 0
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(RECOVERS_WITHIN_S)
        if self._thread.is_alive():
            raise TimeoutError("a submission does not end")

    def _run(self) -> None:
        ways: Ways = {
            "kafka": mixed_jobs.app.submit_many,
            "bulk": mixed_jobs.app.submit_many,
            "transaction": self._in_a_transaction,
            "one by one": lambda requests: [request.submit() for request in requests],
        }
        try:
            while not self._stop.wait(0.5):
                way = self._rng.choice(tuple(ways))
                requests = self._world.mixed(max(1, round(self._rate * 0.5)), via="kafka" if way == "kafka" else "sql")
                while not self._accepted(ways[way], requests):
                    self.again += 1
                    time.sleep(0.3)
        except BaseException as error:
            self.error = error

    @staticmethod
    def _accepted(way: Callable[[list[JobRequest[Any]]], object], requests: list[JobRequest[Any]]) -> bool:
        try:
            way(requests)
        except (ServiceUnavailable, psycopg.OperationalError):
            return False
        return True

    @staticmethod
    def _in_a_transaction(requests: list[JobRequest[Any]]) -> None:
        with psycopg.connect(os.environ["JOBYARD_DATABASE_URL"]) as connection:
            mixed_jobs.app.submit_many(requests, connection=connection)


@dataclass
class Process:
    """A coordinator or an agent, by its name, through all its lives. `process`: what its current life is called in the world; None: it is away.

    `asked`: the number of the last request to end.
    """

    name: str
    process: str | None = None
    paused: bool = False
    ending: bool = False
    asked: int = 0
    armed: AtPoint | None = None
    back_after_s: float = 0.0


@dataclass
class Chaos:
    """Carries a plan out. One thread: what is to happen later waits in `_later`."""

    world: World
    services: Services
    network: Network
    began: float = field(default_factory=time.monotonic)
    done: Counter[str] = field(default_factory=Counter[str])
    disturbances: list[Disturbance] = field(default_factory=list[Disturbance])
    problems: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self._processes = {name: Process(name) for name in (*COORDINATORS, *AGENTS)}
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._lives = itertools.count(2)
        self._expected: dict[str, frozenset[int]] = {}
        self._kafka = "up"

    # ---- time

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def say(self, line: str) -> None:
        sys.stdout.write(f"{self.now:7.1f} s  {line}\n")
        sys.stdout.flush()

    def later(self, in_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._later, (self.now + in_s, next(self._numbers), action))

    def run(self, steps: list[Step], length_s: float) -> None:
        for process in self._processes.values():
            self._start(process)
        for step in steps:
            self.later(step.at_s - self.now, partial(self._do, step))
        while self.now < length_s:
            self._look()
            time.sleep(LOOK_S)

    def recover(self) -> None:
        """All faults are over: everything that was begun is mended, everything is started again."""
        self.say("the faults are over")
        self._later = [entry for entry in self._later if entry[0] > self.now + 10_000]
        self.network.mend()
        self._mend_kafka()
        for process in self._processes.values():
            if process.paused:
                self._wake(process)
            if process.armed is not None:
                self._end(process)
        deadline = self.now + ENDS_WITHIN_S
        while any(process.ending for process in self._processes.values()) and self.now < deadline:
            self._look()
            time.sleep(LOOK_S)
        for process in self._processes.values():
            if process.process is None:
                self._start(process)

    # ---- one fault

    def _do(self, step: Step) -> None:
        why_not = self._hindrance(step)
        if why_not:
            self.say(f"({step}: {why_not})")
            return
        self.say(str(step))
        self.done[step.fault] += 1
        process = self._processes.get(step.target)
        if process is not None and step.fault != "replace":
            self._disturb(step.target, step.lasts_s)
        match step.fault:
            case "kill" | "break at" | "terminate" | "pause" | "replace":
                assert process is not None
                self._of_process(step, process)
            case "drop" | "stall" | "delay" | "reset":
                self._of_network(step)
            case "kill Kafka":
                self._disturb("", step.lasts_s + LOST_AFTER_S)
                self.services.kill_kafka()
                self._kafka = "killed"
                self.later(step.lasts_s, self._mend_kafka)
            case "pause Kafka":
                self._disturb("", step.lasts_s)
                self._signal_kafka(signal.SIGSTOP)
                self._kafka = "paused"
                self.later(step.lasts_s, self._mend_kafka)
            case "crash Postgres":
                self.services.restart_postgres("immediate")
            case "restart Postgres":
                self.services.restart_postgres("fast")
            case "cut connections":
                self.world.rows(
                    "select count(pg_terminate_backend(pid)) from pg_stat_activity "
                    "where datname = current_database() and pid <> pg_backend_pid()"
                )
            case "make topic again":
                self._disturb("", LOST_AFTER_S)
                self.world.destroy_topic(getattr(self.world.topics, step.target).name, may_end=self.world.names())

    def _hindrance(self, step: Step) -> str:
        """Why it cannot be done now; empty: it can."""
        process = self._processes.get(step.target)
        if process is not None:
            if process.process is None or process.ending:
                return "it is away"
            if process.paused and step.fault not in ("drop", "stall", "delay", "reset"):
                return "it is paused"
        if "Kafka" in step.fault or step.fault == "make topic again":
            return "" if self._kafka == "up" else f"Kafka is {self._kafka}"
        return ""

    def _of_process(self, step: Step, process: Process) -> None:
        process.back_after_s = step.lasts_s
        match step.fault:
            case "kill":
                self._kill(process)
                self.later(step.lasts_s, partial(self._start_if_away, process))
            case "break at":
                self._kill(process)
                self._start(process, AtPoint(Point(step.detail), "pause" if step.pauses else "kill", nth=step.nth))
            case "terminate":
                self._end(process)
            case "pause":
                assert process.process is not None
                self.world.send(process.process, signal.SIGSTOP)
                process.paused = True
                self.later(step.lasts_s, partial(self._wake, process))
            case _:
                self._disturb(process.name, LOST_AFTER_S)
                assert process.process is not None
                self._expected[process.process] = frozenset({REPLACED, *ORDERLY})
                self._start(process)

    def _of_network(self, step: Step) -> None:
        proxy = (self.network.kafka if step.detail == "kafka" else self.network.postgres)[step.target]
        match step.fault:
            case "drop":
                proxy.drop()
            case "stall":
                proxy.stall()
            case "delay":
                proxy.delay(DELAY_S, JITTER_S)
            case _:
                proxy.reset()
        if step.lasts_s:
            self.later(step.lasts_s, proxy.mend)

    def _disturb(self, agent: str, lasts_s: float) -> None:
        now = datetime.now(UTC)
        self.disturbances.append(Disturbance(agent, now, now + timedelta(seconds=lasts_s)))

    # ---- processes

    def _start(self, process: Process, at: AtPoint | None = None) -> None:
        name = process.name if process.process is None else f"{process.name}-{next(self._lives)}"
        if name not in self.world.around:
            self.world.around[name] = self.world.around[process.name]
        if process.name in AGENTS:
            self.world.agent(process.name, process=name, slots=SLOTS, at=at)
        else:
            self.world.coordinator(name, at=at)
        self._expected.pop(name, None)
        process.process, process.paused, process.ending, process.armed = name, False, False, at

    def _start_if_away(self, process: Process) -> None:
        if process.process is None:
            self._start(process)

    def _kill(self, process: Process) -> None:
        assert process.process is not None
        self.world.kill(process.process)
        process.process = process.armed = None

    def _end(self, process: Process) -> None:
        assert process.process is not None
        self.world.send(process.process, signal.SIGTERM)
        self._expected[process.process] = ORDERLY
        process.ending = True  # and still armed: it may get to its point on its way out
        process.asked = next(self._numbers)
        self.later(ENDS_WITHIN_S, partial(self._must_have_ended, process, process.asked))

    def _must_have_ended(self, process: Process, asked: int) -> None:
        if process.ending and process.asked == asked:
            self.problems.append(f"{process.process} did not end within {ENDS_WITHIN_S:.0f} s of SIGTERM")
            self._kill(process)
            self._start(process)

    def _wake(self, process: Process) -> None:
        if process.process is not None and process.paused:
            self.world.send(process.process, signal.SIGCONT)
            process.paused = False

    def _look(self) -> None:
        """Do what is due, and see who has ended or got to its point."""
        while self._later and self._later[0][0] <= self.now:
            heapq.heappop(self._later)[2]()
        for process in self._processes.values():
            at = process.armed
            if at is not None and process.process is not None and at.what == "pause" and self.world.broken(process.process):
                self.say(f"{process.process} is at its point, paused")
                self._disturb(process.name, process.back_after_s)
                process.armed, process.paused = None, True
                self.later(process.back_after_s, partial(self._wake, process))
        for name, status in self.world.ended_processes():
            self._ended(name, status)

    def _ended(self, name: str, status: int) -> None:
        process = next((one for one in self._processes.values() if one.process == name), None)
        if process is None:  # replaced by another of its name
            if status not in self._expected.pop(name, frozenset()):
                self.problems.append(f"{name}, whose name was taken, ended with status {status}")
            return
        if process.armed is not None and status == KILLED and self.world.broken(name):
            self.say(f"{name} is at its point, killed")
            self._disturb(process.name, process.back_after_s)
        elif status not in self._expected.pop(name, frozenset()):
            self.problems.append(f"{name} ended by itself with status {status} at {self.now:.1f} s")
            self.say(self.problems[-1])
        process.process, process.paused, process.ending, process.armed = None, False, False, None
        self.later(process.back_after_s, partial(self._start_if_away, process))

    # ---- Kafka

    def _signal_kafka(self, what: signal.Signals) -> None:
        pid = self.services.kafka.server.pid()
        assert pid is not None
        os.kill(pid, what)

    def _mend_kafka(self) -> None:
        if self._kafka == "killed":
            self.services.start_kafka()
        elif self._kafka == "paused":
            self._signal_kafka(signal.SIGCONT)
        if self._kafka != "up":
            self._disturb("", LOST_AFTER_S)
        self._kafka = "up"


def told(evidence: Evidence, chaos: Chaos, load: Load, took_s: float) -> str:
    """The figures of a run."""
    states = Counter(rows[0]["state"] for rows in evidence.status.values() if rows)
    outcomes = Counter(row["outcome"] for rows in evidence.attempts.values() for row in rows)
    late = [report for reports in evidence.late.values() for report in reports]
    doubled = 0
    for executions in evidence.executions.values():
        for i, later in enumerate(executions):
            doubled += any(one.ended is None or one.ended > later.started or one.returned for one in executions[:i])
    return "\n".join(
        [
            f"jobs {len(evidence.submitted):,}: {_counts(states)}; submitted again after a service was away: {load.again}",
            f"faults {sum(chaos.done.values()):,}: {_counts(chaos.done)}",
            f"attempts {sum(outcomes.values()):,}: {_counts(outcomes)}",
            f"late outcomes {len(late):,}, of which closed their job: {sum(report['closed_job'] for report in late)}",
            f"jobs lost: {sum(not evidence.status.get(job) for job in evidence.submitted)}",
            f"executions beside or after an earlier one of the same job, all of whose attempts were lost with their agents: {doubled:,}",
            f"took {took_s:.0f} s",
        ]
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rate", type=float, default=40.0, help="jobs a second")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    sys.stdout.write(f"seed {seed}\n")
    folder = Path(tempfile.mkdtemp(prefix="jobyard-chaos-"))
    try:
        failed = _run(folder, seed, given.minutes * 60, given.rate)
    except BaseException:
        sys.stdout.write(f"logs are in {folder}; to repeat: make chaos MINUTES={given.minutes:g} SEED={seed}\n")
        raise
    if failed:
        sys.stdout.write(f"logs are in {folder}; to repeat: make chaos MINUTES={given.minutes:g} SEED={seed}\n")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write("every guarantee holds\n")
    return 0


def _run(folder: Path, seed: int, length_s: float, rate: float) -> bool:
    """Whether anything was broken; told on standard output."""
    with (
        Network((*COORDINATORS, CLIENT), AGENTS) as network,
        Services(folder / "services", fast=True, listeners=network.listeners) as services,
    ):
        network.reach_postgres(services.database_url)
        migrations.upgrade(services.database_url)
        around = network.around(services.database_url)
        with World(folder, services.addresses, "chaos", lost_after_s=LOST_AFTER_S, around=around, shows_logs=False) as world:
            return _break(seed, length_s, rate, services, network, world)


def _break(seed: int, length_s: float, rate: float, services: Services, network: Network, world: World) -> bool:
    chaos = Chaos(world, services, network)
    load = Load(world, seed, rate)
    chaos.run(plan(seed, length_s, COORDINATORS, AGENTS), length_s)
    chaos.recover()
    load.stop()
    problems = chaos.problems + ([f"submitting failed: {load.error!r}"] if load.error is not None else [])
    try:
        world.until_all_ended(RECOVERS_WITHIN_S)
    except AssertionError as error:
        problems.append(str(error))
    evidence = world.evidence()
    sys.stdout.write(told(evidence, chaos, load, chaos.now) + "\n")
    try:
        check(evidence, LostOnlyWhile(chaos.disturbances))
    except AssertionError as error:
        problems.append(str(error))
    for problem in problems:
        sys.stdout.write(problem + "\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
