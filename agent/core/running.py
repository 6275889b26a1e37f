"""What runs: when it is to be reported as started, when its time is up, and what progress is still to be said."""

import heapq
from collections import deque

from jobyard.agent.core.actions import Action, Say, Stop
from jobyard.agent.core.held import AWAITING, HANDED, RUNNING, Held
from jobyard.agent.core.incarnation import Life
from jobyard.contracts.reports import Progress, Started

PROGRESS_EVERY_S = 1.0
"""A job's progress is reported at most so often."""
_AGAIN_S = 5.0
"""A job that goes on after its deadline is asked again after this long."""


class Running:
    """Jobs that have a slot, by id: a job never runs twice at once in one process (A9)."""

    def __init__(self, started_after_s: float) -> None:
        self._after = started_after_s
        self._busy: dict[str, Held] = {}
        self._silent: deque[Held] = deque()
        self._deadlines: list[tuple[float, int, Held]] = []
        self.jumped_s = 0.0
        """How much of the agent's clock is jumps: deadlines go by the clock without it."""
        self._progress: deque[Held] = deque()
        self._count = 0

    def __len__(self) -> int:
        return len(self._busy)

    def __contains__(self, job: str) -> bool:
        return job in self._busy

    def take(self, held: Held) -> None:
        """The job has its slot."""
        self._busy[held.job.id] = held

    def give(self, held: Held) -> None:
        """It has it no longer."""
        del self._busy[held.job.id]

    def all(self) -> list[Held]:
        """Those that were handed to an executor, in that order."""
        return [held for held in self._busy.values() if held.state != AWAITING]

    def has_slot(self, held: Held) -> bool:
        """Whether this very placement has the slot (its state may be closed already)."""
        return self._busy.get(held.job.id) is held

    def began(self, held: Held, now: float, at: float, deadline: float | None) -> None:
        """Its handler has been called. `deadline`: on the agent's clock without its jumps, None = no time-out."""
        held.began, held.began_at = now, at
        if held.state == HANDED:
            held.state = RUNNING
        if not held.said:
            self._silent.append(held)
        if deadline is not None:
            self._remind(held, deadline)

    def _remind(self, held: Held, when: float) -> None:
        if len(self._deadlines) > 2 * len(self._busy) + 100:
            # most of these have ended long before their deadline
            self._deadlines = [entry for entry in self._deadlines if self.has_slot(entry[2])]
            heapq.heapify(self._deadlines)
        self._count += 1
        heapq.heappush(self._deadlines, (when, self._count, held))

    def tell(self, life: Life, now: float) -> list[Action]:
        """What is due to be said of this incarnation's jobs, and which are to stop, since their time is up."""
        actions: list[Action] = [Say(life.id, started) for held, started in self.started(now) if held.life is life]
        for held, progress in self.progress(now):
            if held.life is life:
                if not held.said:
                    actions.append(Say(life.id, self.say_started(held)))
                actions.append(Say(life.id, progress))
        return [*actions, *(Stop(held, "timed_out") for held in self.expired(now))]

    def started(self, now: float) -> list[tuple[Held, Started]]:
        """Reports for those that still run after a while and have not been reported."""
        reports: list[tuple[Held, Started]] = []
        silent = self._silent
        while silent and (silent[0].state != RUNNING or silent[0].said or silent[0].began + self._after <= now):
            held = silent.popleft()
            if held.state == RUNNING and not held.said:
                reports.append((held, self.say_started(held)))
        return reports

    def say_started(self, held: Held) -> Started:
        """The report that it has been started."""
        held.said = True
        return Started(fence=held.fence, job=held.job.id, attempt=held.attempt, at=held.began_at)

    def expired(self, now: float) -> list[Held]:
        """Those whose time is up; named again while they go on."""
        late: list[Held] = []
        now -= self.jumped_s
        while self._deadlines and self._deadlines[0][0] <= now:
            held = heapq.heappop(self._deadlines)[2]
            if self.has_slot(held):
                late.append(held)
                self._remind(held, now + _AGAIN_S)
        return late

    def progressed(self, held: Held, done: float, total: float | None, message: str) -> None:
        """The newest progress of a job; what was not said of it is overtaken."""
        if held.state == RUNNING:
            if held.proposed is None and not held.progressing:
                self._progress.append(held)
            held.proposed = (done, total, message)

    def progress_acknowledged(self, held: Held) -> None:
        """The broker has the last progress of this job: the next may be reported."""
        held.progressing = False
        if held.proposed is not None:
            self._progress.append(held)

    def progress(self, now: float) -> list[tuple[Held, Progress]]:
        """Reports that are due, at most one a second and job, and one at a time: while the broker is away, one waits for it and one is proposed.

        So what is kept for the broker is bounded by the slots, however long it is away.
        """
        reports: list[tuple[Held, Progress]] = []
        for _ in range(len(self._progress)):
            held = self._progress.popleft()
            if held.state != RUNNING or held.proposed is None:
                held.proposed = None
            elif held.progress_at + PROGRESS_EVERY_S <= now:
                done, total, message = held.proposed
                held.proposed, held.progress_at, held.progressing = None, now, True
                reports.append(
                    (held, Progress(fence=held.fence, job=held.job.id, attempt=held.attempt, done=done, total=total, message=message))
                )
            else:
                self._progress.append(held)
        return reports

    def next_due(self, now: float) -> float | None:
        """When one of these must be looked at; None: not by time. Executors may tell late that a job has begun, so while any has a slot: soon."""
        due = [now + self._after] if self._busy else []
        due += [held.progress_at + PROGRESS_EVERY_S for held in self._progress]
        if self._silent:
            due.append(self._silent[0].began + self._after)
        if self._deadlines:
            due.append(self._deadlines[0][0] + self.jumped_s)
        return min(due, default=None)
