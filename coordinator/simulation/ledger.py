"""What really happened on the agents: every start of a handler and its end, as nobody in the product can know it."""

from collections.abc import Callable

from jobyard.agent.core.held import Held
from jobyard.contracts.states import Outcome


class Run:
    """One start. `process`: the life of a process, not a name. `until`: when its code had stopped; None: it goes on. `outcome`: None if it just died.

    `late`: the process stood still between its look at the lease and the call.
    """

    __slots__ = ("at", "attempt", "fence", "incarnation", "job", "late", "outcome", "process", "until")

    def __init__(self, job: str, fence: int, attempt: int, process: int, incarnation: str, at: float, late: bool) -> None:
        self.job = job
        self.fence = fence
        self.attempt = attempt
        self.process = process
        self.incarnation = incarnation
        self.at = at
        self.late = late
        self.until: float | None = None
        self.outcome: Outcome | None = None


class Ledger:
    """`runs`: by job, in order. `watch`: told of each start, with the runs before it. `going`: by process, by job."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.runs: dict[str, list[Run]] = {}
        self.going: dict[int, dict[str, Run]] = {}
        self.starts = 0
        self.watch: Callable[[Run, list[Run]], None] = lambda run, before: None

    def started(self, held: Held, process: int, *, late: bool) -> Run:
        """A handler is called."""
        run = Run(held.job.id, held.fence, held.attempt, process, held.life.id, self._now(), late)
        before = self.runs.setdefault(run.job, [])
        self.watch(run, before)
        before.append(run)
        self.going.setdefault(process, {})[run.job] = run
        self.starts += 1
        return run

    def ended(self, run: Run, outcome: Outcome) -> None:
        """Its code has stopped."""
        run.until, run.outcome = self._now(), outcome
        self.going[run.process].pop(run.job, None)

    def died(self, process: int) -> None:
        """A process is gone, with all that ran in it."""
        for run in self.going.pop(process, {}).values():
            run.until = self._now()
