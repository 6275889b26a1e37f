"""The way to a slot and back: the head of the backlog, while size and slots allow; careful jobs by way of the broker (A7, A9)."""

from jobyard.agent.core.actions import Action, Say
from jobyard.agent.core.backlog import Backlog
from jobyard.agent.core.held import AWAITING, HANDED, Held
from jobyard.agent.core.incarnation import Incarnations
from jobyard.agent.core.running import Running
from jobyard.agent.core.slots import Slots
from jobyard.contracts.reports import Started


class Starting:
    """Takes slots and gives them back. What may start is decided by its caller: it holds the lease, and is not leaving."""

    def __init__(self, who: Incarnations, backlog: Backlog, slots: Slots, running: Running) -> None:
        self._who = who
        self._backlog = backlog
        self._slots = slots
        self._running = running
        self._acknowledged: list[Held] = []

    def heads(self, starts: list[Held], actions: list[Action], at: float) -> None:
        """Give slots to the first in line. Careful ones are only reported as started, and wait for the broker."""
        backlog, slots, running = self._backlog, self._slots, self._running
        while (held := backlog.head()) is not None:
            if held.job.id in running:
                backlog.wait(held)
                continue
            size = held.job.size
            if not slots.fits(size):
                return
            backlog.pop(held)
            slots.take(size)
            running.take(held)
            if held.careful and not held.acked:
                held.state, held.said = AWAITING, True
                actions.append(Say(held.life.id, Started(fence=held.fence, job=held.job.id, attempt=held.attempt, at=at)))
            else:
                held.state = HANDED
                starts.append(held)

    def acknowledge(self, held: Held) -> None:
        """The broker has the `started` of a careful job."""
        if held.state == AWAITING and not held.acked:
            held.acked = True
            self._acknowledged.append(held)

    def acknowledged(self, starts: list[Held], now: float) -> list[Held]:
        """Careful jobs whose `started` has arrived: only now the lease is looked at (A7). Returns those that must go back: too late by now."""
        acknowledged, self._acknowledged = self._acknowledged, []
        late: list[Held] = []
        for held in acknowledged:
            if held.state != AWAITING:
                continue
            if held.life.lease.holds(now):
                held.state = HANDED
                starts.append(held)
                continue
            self.free(held, now)
            if self._backlog.is_overdue(held, now):
                late.append(held)
            else:
                self._backlog.put_back(held)
        return late

    def free(self, held: Held, now: float) -> None:
        """Its slot is free; who waited for the end of this execution is in line again (A9)."""
        self._running.give(held)
        self._slots.give(held.job.size, held.life is not self._who.life)
        self._backlog.stopped(held.job.id, now)
