"""Agents of a test's world that each get jobs of their own, and break, where they break, at what happens to these."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from promises.aimed_jobs import define
from promises.guarantees import Evidence, Execution, Expected, Row
from worlds.world import World

from faults.at_point import AtPoint
from jobyard import App, JobRequest
from jobyard.api.handler import AsyncHandler
from jobyard.master_db import declarations
from jobyard.master_db.connection import connect

WARM = 40
"""So many tiny jobs end before an agent gets several in one bundle."""
IN_ONE_BUNDLE = 4


@dataclass
class Aim:
    """One agent, the jobs that only it (and who is told to help) runs, and where it breaks. `jobs`: by the part they play."""

    name: str
    jobs: dict[str, JobRequest[int]] = field(default_factory=dict[str, JobRequest[int]])
    at: AtPoint | None = None
    slots: int = 10
    pid: int = 0
    broken: float = 0.0

    def id(self, part: str) -> str:
        return str(self.jobs[part].id)

    def ids(self, start: str = "") -> tuple[str, ...]:
        """Of all parts whose names start so."""
        return tuple(str(job.id) for part, job in self.jobs.items() if part.startswith(start))


class Aims:
    """All aims of one world. Jobs are noted there with what must become of each."""

    def __init__(self, world: World, names: Iterable[str]) -> None:
        self._world = world
        self._app = App()
        self._handlers: dict[str, AsyncHandler[Any, int]] = define(self._app, names)
        self._n = 1_000_000
        self.all: dict[str, Aim] = {name: Aim(name) for name in self._handlers}
        with connect(world.addresses.database_url, application_name="jobyard tests") as connection:
            declarations.sync(connection, self._app.declarations())

    def __getitem__(self, name: str) -> Aim:
        return self.all[name]

    def job(self, name: str, part: str, expected: Expected | None = None, *, attempts: int = 5, **args: Any) -> JobRequest[int]:
        """Make one, not submitted yet. Without `expected` it succeeds."""
        self._n += 1
        request = self._handlers[name].options(max_attempts=attempts).request(n=self._n, **args)
        self.all[name].jobs[part] = self._world.expect(request, None if expected is None else Expected(expected.states, self._n))
        return request

    def start(self, name: str, *, helps: Iterable[str] = ()) -> None:
        """Start its agent, which breaks at its point. `helps`: other names whose jobs it runs, too."""
        aim = self.all[name]
        self._world.agent(name, slots=aim.slots, at=aim.at, aims=[name, *helps])
        aim.pid = self._world.pid(name)

    def warm(self, names: Iterable[str]) -> None:
        """Until these agents get several jobs in one bundle: their kinds are known to be short, and they to be fast."""
        names = list(names)

        def largest(name: str) -> int:
            return self._world.number(
                "select coalesce(max(n), 0) from (select count(*) as n from jobyard.attempt_history where agent = %s group by fence) x",
                name,
            )

        for _ in range(10):
            slow = [name for name in names if largest(name) < IN_ONE_BUNDLE]
            if not slow:
                return
            self.submit([self.job(name, f"warm {i}") for name in slow for i in range(WARM)])
            self._world.until("they have ended", lambda: self._world.ended() == len(self._world.expected))
        raise AssertionError(f"no bundle of {IN_ONE_BUNDLE} went to {names}")

    def submit(self, requests: Iterable[JobRequest[int]]) -> None:
        """In one transaction."""
        with psycopg.connect(self._world.addresses.database_url) as connection:
            self._app.submit_many(list(requests), connection=connection)

    def until_running(self, *names: str) -> None:
        """All their jobs have been started and none has ended."""
        jobs = {job for name in names for job in self.all[name].ids()}
        self._world.until(f"the jobs of {names} run", lambda: jobs <= {one.job for one in self._world.executions() if one.ended is None})

    def until_broken(self, *names: str) -> None:
        for name in names:
            aim = self.all[name]
            assert aim.at is not None
            aim.broken = self._world.until_broken(name, aim.at)

    def close(self) -> None:
        self._app.close()


def is_stopped(pid: int) -> bool:
    """Whether the process stands still by a signal."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


@dataclass(frozen=True)
class Fate:
    """What became of one job."""

    state: str
    used: int
    error: str | None
    attempts: list[Row]
    executions: list[Execution]
    late: list[Row]

    @classmethod
    def of(cls, evidence: Evidence, job: str) -> "Fate":
        (row,) = evidence.status[job]
        return cls(
            row["state"],
            row["attempts"],
            row["error_type"],
            evidence.attempts.get(job, []),
            evidence.executions.get(job, []),
            evidence.late.get(job, []),
        )

    @property
    def outcomes(self) -> list[str]:
        return [row["outcome"] for row in self.attempts]

    @property
    def ran(self) -> list[int]:
        """The attempts that ran, in the order of their starts."""
        return [execution.attempt for execution in self.executions]
