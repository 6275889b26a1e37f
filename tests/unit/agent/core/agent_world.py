"""Drives an agent's core by hand: a leader's messages, a broker that acknowledges when told to, executors that are this object."""

from collections.abc import Sequence
from itertools import count
from typing import TypeVar

from jobyard.agent.core.actions import Action, Assign, Leave, Note, Reread, Say, Start, Stop
from jobyard.agent.core.agent import Agent
from jobyard.agent.core.held import Held
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Bucket, Cancel, Confirm, ControlMessage, Drain, Fenced, FencedReason, Resume, Welcome
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End, Finished, Heartbeat, Hello, Progress, Released, Report, Started
from jobyard.contracts.rules import RULES, Rules
from jobyard.contracts.states import Outcome

NAME = "agent-1"
WALL = 1_000_000.0
"""The wall clock when the agent's own shows 0."""
BUCKETS = [Bucket(priority, priority, "id-1", 0) for priority in range(5)]
R = TypeVar("R", bound=Report)


def a_job(number: int, size: float = 1.0, max_attempts: int = 5, timeout_s: float | None = None) -> Job:
    return Job(id=f"job-{number}", kind="work", size=size, max_attempts=max_attempts, timeout_s=timeout_s)


class World:
    """`acknowledging`: the broker acknowledges the reports of a turn before the next one."""

    def __init__(self, slots: int = 2, capacity: float = 10.0, rules: Rules = RULES, acknowledging: bool = True) -> None:
        self._numbers = count(1)
        self.agent = Agent(
            name=NAME,
            kinds={"work": 1},
            capacity=capacity,
            slots=slots,
            fresh=lambda: f"incarnation-{next(self._numbers)}",
            host="host",
            rules=rules,
        )
        self.now = 100.0
        self.jumped_s = 0.0
        self.acknowledging = acknowledging
        self.waiting: list[Say] = []
        self.said: list[Say] = []
        self.started: list[Held] = []
        self.running: list[Held] = []
        self.stops: list[Stop] = []
        self.assigned: list[list[Bucket]] = []
        self.notes: list[str] = []
        self.rereads = 0
        self.left: Leave | None = None

    @property
    def at(self) -> float:
        return WALL + self.now

    @property
    def incarnation(self) -> str:
        return self.agent.life.id

    # ---- what the shell does ----

    def turn(self, later: float = 0.0) -> list[Report]:
        """Let time pass, decide, and do it. Returns what was said."""
        self.now += later
        if self.acknowledging:
            self.acknowledge()
        actions = self.agent.decide(self.now, self.at, not self.waiting, self.jumped_s)
        return self._do(actions)

    def _do(self, actions: Sequence[Action]) -> list[Report]:
        said: list[Report] = []
        for action in actions:
            match action:
                case Start():
                    self.started += action.held
                    self.running += action.held
                case Stop():
                    self.stops.append(action)
                case Say():
                    self.waiting.append(action)
                    self.said.append(action)
                    said.append(action.report)
                case Assign():
                    self.assigned.append(action.buckets)
                case Reread():
                    self.rereads += 1
                case Leave():
                    self.left = action
                case Note():
                    self.notes.append(action.event)
        return said

    def acknowledge(self, most: int | None = None) -> None:
        """The broker acknowledges what was said, oldest first."""
        says, self.waiting = (self.waiting, []) if most is None else (self.waiting[:most], self.waiting[most:])
        self.agent.acknowledged(says, self.now)

    # ---- executors ----

    def begin(self, held: Held, deadline: float | None = None) -> None:
        self.agent.begun(held, self.now, self.at, deadline)

    def end(self, held: Held, outcome: Outcome = Outcome.SUCCEEDED, took: float = 0.0) -> None:
        self.running.remove(held)
        self.agent.ended([(held, End(held.job.id, held.attempt, outcome, self.at - took, self.at))], self.now)

    def decline(self, held: Held) -> None:
        self.running.remove(held)
        self.started.remove(held)
        self.agent.declined(held, self.now, self.at)

    # ---- the leader ----

    def welcome(self, epoch: int = 1, stamp: float | None = None, buckets: list[Bucket] = BUCKETS, draining: bool = False) -> "World":
        self.turn()
        self.control(
            Welcome(
                v=1,
                epoch=epoch,
                agent=NAME,
                incarnation=self.incarnation,
                stamp=self.now if stamp is None else stamp,
                buckets=buckets,
                lost_after_s=15.0,
                draining=draining,
            )
        )
        self.turn()
        return self

    def control(self, message: ControlMessage) -> None:
        self.agent.hear_control(message, self.now, self.at)

    def confirm(self, stamp: float, epoch: int = 1, incarnation: str | None = None) -> None:
        self.control(Confirm(v=1, epoch=epoch, agent=NAME, incarnation=incarnation or self.incarnation, stamp=stamp))

    def cancel(self, fence: int, job: int, bucket: int = 2, epoch: int = 1) -> None:
        self.control(Cancel(v=1, epoch=epoch, agent=NAME, incarnation=self.incarnation, fence=fence, bucket=bucket, job=f"job-{job}"))

    def drain(self, *, stop: bool = False) -> None:
        self.control(Drain(v=1, epoch=1, agent=NAME, incarnation=self.incarnation, stop=stop))

    def resume(self) -> None:
        self.control(Resume(v=1, epoch=1, agent=NAME, incarnation=self.incarnation))

    def fence_off(self, reason: FencedReason, epoch: int = 1) -> None:
        self.control(Fenced(v=1, epoch=epoch, agent=NAME, incarnation=self.incarnation, reason=reason))

    def bundle(
        self,
        fence: int,
        jobs: Sequence[int | Job],
        *,
        still_open: list[int] | None = None,
        as_of: int | None = None,
        careful: bool = False,
        cancel: Sequence[int] = (),
        bucket: int = 2,
        epoch: int = 1,
        agent: str = NAME,
        incarnation: str | None = None,
    ) -> None:
        self.agent.hear_bundle(
            BundleMessage(
                v=1,
                epoch=epoch,
                fence=fence,
                agent=agent,
                incarnation=incarnation or self.incarnation,
                bucket=bucket,
                jobs=[job if isinstance(job, Job) else a_job(job) for job in jobs],
                attempts=[1] * len(jobs),
                used=[0] * len(jobs),
                careful=[True] * len(jobs) if careful else [],
                cancel=[f"job-{job}" for job in cancel],
                open=still_open,
                as_of=as_of,
            ),
            self.now,
            self.at,
        )

    # ---- looking ----

    def names(self) -> list[str]:
        """Ids of all jobs handed over so far, in order."""
        return [held.job.id for held in self.started]

    def reports(self, kind: type[R], incarnation: str | None = None) -> list[R]:
        """All reports of a kind said so far."""
        return [say.report for say in self.said if isinstance(say.report, kind) and incarnation in (None, say.incarnation)]

    def ends(self) -> list[tuple[int, str, Outcome]]:
        """(fence, job, outcome) of all ends said so far, repeated ones too."""
        return [(report.fence, end.job, end.outcome) for report in self.reports(Finished) for end in report.ends]

    def released(self) -> list[tuple[int, str]]:
        return [(report.fence, job) for report in self.reports(Released) for job, _ in report.jobs]

    def hellos(self) -> list[Hello]:
        return self.reports(Hello)

    def heartbeats(self) -> list[Heartbeat]:
        return self.reports(Heartbeat)

    def starteds(self) -> list[str]:
        return [report.job for report in self.reports(Started)]

    def progress(self) -> list[float]:
        return [report.done for report in self.reports(Progress)]

    def run_on(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass in turns."""
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.turn(min(step, until - self.now))
