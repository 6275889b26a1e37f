"""What has not been started: one queue by (priority, arrival), and what is given back because it waited too long (S9)."""

from collections import deque
from collections.abc import Iterable

from jobyard.agent.core.held import HANDED, QUEUED, WAITING, Held
from jobyard.contracts.priority import PRIORITIES


class Backlog:
    """Queued jobs in the order in which they start. What is no longer queued is skipped when its turn comes."""

    def __init__(self, release_after_s: float) -> None:
        self._after = release_after_s
        self._queues: tuple[deque[Held], ...] = tuple(deque() for _ in PRIORITIES)
        self._arrivals: deque[tuple[float, list[Held]]] = deque()
        self._waiting: dict[str, list[Held]] = {}

    def add(self, held: list[Held], priority: int, now: float) -> None:
        """Jobs of one bundle, behind those of the same priority."""
        self._queues[priority].extend(held)
        self._arrivals.append((now, held))

    def put_back(self, held: Held) -> None:
        """Handed, but not started: first in line again, its time to be released unchanged."""
        held.state = QUEUED
        self._queues[held.priority].appendleft(held)

    def head(self) -> Held | None:
        """The job to start next; it stays until `pop`."""
        for queue in self._queues:
            while queue:
                if queue[0].state == QUEUED:
                    return queue[0]
                queue.popleft()
        return None

    def pop(self, held: Held) -> None:
        """Take the head out."""
        self._queues[held.priority].popleft()

    def wait(self, held: Held) -> None:
        """Its job still runs under an older fence: take the head aside until that has ended, exempt from release (A9)."""
        self.pop(held)
        held.state = WAITING
        self._waiting.setdefault(held.job.id, []).append(held)

    def stopped(self, job: str, now: float) -> None:
        """An execution of the job has ended: who waited for that is in line again, and has arrived now."""
        waited = self._waiting.pop(job, None)
        if waited:
            back = [held for held in waited if held.state == WAITING]
            for held in reversed(back):
                held.arrived = now
                self.put_back(held)
            if back:
                self._arrivals.append((now, back))

    def overdue(self, now: float) -> list[Held]:
        """Queued jobs that arrived `release_after_s` ago or longer; each is named once."""
        late: list[Held] = []
        arrivals = self._arrivals
        while arrivals and arrivals[0][0] + self._after <= now:
            late += [held for held in arrivals.popleft()[1] if held.state == QUEUED]
        return late

    def is_overdue(self, held: Held, now: float) -> bool:
        """Whether a job that was put back has passed its time meanwhile."""
        return held.arrived + self._after <= now

    def next_due(self) -> float | None:
        """When something may have to be released; None: never, as things are."""
        arrivals = self._arrivals
        # What has all been started is of no interest; should some of it be put back, `is_overdue` is asked then.
        while arrivals and not any(held.state <= HANDED for held in arrivals[0][1]):
            arrivals.popleft()
        return arrivals[0][0] + self._after if arrivals else None

    def clear(self) -> None:
        """Nothing waits any more; the caller has dealt with what did."""
        for queue in self._queues:
            queue.clear()
        self._arrivals.clear()
        self._waiting.clear()

    def all(self) -> Iterable[Held]:
        """Everything that waits, in the order in which it would start; then what waits for an older execution."""
        for queue in self._queues:
            yield from [held for held in queue if held.state == QUEUED]
        for waited in list(self._waiting.values()):
            yield from [held for held in waited if held.state == WAITING]
