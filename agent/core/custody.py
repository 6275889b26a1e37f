"""What becomes of jobs that are held otherwise than by running: closed, cancelled, given back, or said again (A4, A5, A11, A12)."""

from jobyard.agent.core.actions import Action, Stop
from jobyard.agent.core.backlog import Backlog
from jobyard.agent.core.ends import Ends
from jobyard.agent.core.fences import Fences
from jobyard.agent.core.held import AWAITING, CLOSED, ENDED, RELEASED, Held
from jobyard.agent.core.running import Running
from jobyard.agent.core.starting import Starting
from jobyard.contracts.reports import End
from jobyard.contracts.states import Outcome


class Custody:
    """Changes their state, frees slots that wait for the broker, and leaves in `ends` what must be told. `actions`: where stops are added."""

    def __init__(self, fences: Fences, backlog: Backlog, starting: Starting, running: Running, ends: Ends) -> None:
        self._fences = fences
        self._backlog = backlog
        self._starting = starting
        self._running = running
        self._ends = ends

    def close(self, held: Held, now: float, actions: list[Action]) -> None:
        """The leader has ended it: dropped if unstarted, stopped if it runs, and nothing is said of it (A4, A5)."""
        if held.state == AWAITING:
            self._starting.free(held, now)
        elif self._running.has_slot(held):
            actions.append(Stop(held, "closed"))
        held.state = CLOSED

    def cancel(self, held: Held, now: float, at: float, actions: list[Action]) -> None:
        """Asked for by somebody: ended at once if unstarted, else stopped."""
        held.cancelled = True
        if held.state <= AWAITING:
            if held.state == AWAITING:
                self._starting.free(held, now)
            self.cancelled(held, at)
        else:
            actions.append(Stop(held, "cancelled"))

    def cancelled(self, held: Held, at: float) -> None:
        """Cancelled before it was started."""
        held.state = ENDED
        held.end = End(held.job.id, held.attempt, Outcome.CANCELLED, None, at)
        self._ends.ended(held.life.id, held.fence, held.end)

    def release(self, held: Held, reason: str) -> None:
        """It goes back, and never starts under this fence."""
        held.state = RELEASED
        self._ends.released(held.life.id, held.fence, held.job.id, held.attempt, reason)

    def give_back_all(self, reason: str, now: float) -> None:
        """Whatever is unstarted."""
        waiting = list(self._backlog.all())
        self._backlog.clear()
        for held in waiting:
            self.release(held, reason)
        for held in [held for held in self._fences.held() if held.state == AWAITING]:
            self._starting.free(held, now)
            self.release(held, reason)

    def say_again(self, held: Held) -> None:
        """What was said of one that is no longer under way."""
        if held.state == RELEASED:
            self._ends.released(held.life.id, held.fence, held.job.id, held.attempt, "said again")
        elif held.end is not None:
            self._ends.again(held.life.id, held.fence, held.end)

    def drop(self, now: float) -> None:
        """The incarnation is over: of what is unstarted nothing is said, and its fences are unknown (A12)."""
        for held in list(self._backlog.all()):
            held.state = CLOSED
        self._backlog.clear()
        for held in [held for held in self._fences.held() if held.state == AWAITING]:
            self._starting.free(held, now)
            held.state = CLOSED
        self._fences.clear()
