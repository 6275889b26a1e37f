"""What must hold whenever a handler is called (I4, I5, I6, A9, L4)."""

from jobyard.contracts.states import Outcome
from jobyard.coordinator.core.events import AgentState
from jobyard.coordinator.simulation.checks.commits import Commits
from jobyard.coordinator.simulation.ledger import Ledger, Run
from jobyard.coordinator.simulation.violation import Violation
from jobyard.testing.memory_tables import MemoryLane

_GIVEN_UP: tuple[AgentState, ...] = ("lost", "replaced")


class Starts:
    """`twice`: executions that overlapped, or followed a success, as promise 4 allows."""

    def __init__(self, tables: MemoryLane, ledger: Ledger, commits: Commits) -> None:
        self._t = tables
        self._ledger = ledger
        self._commits = commits
        self._over: dict[str, AgentState] = {}
        self.checked = 0
        self.twice = 0

    def ended(self, incarnation: str, state: AgentState) -> None:
        """It is committed that an incarnation is over."""
        self._over[incarnation] = state

    def watch(self, run: Run, before: list[Run]) -> None:
        """A handler is about to be called."""
        job, fence = run.job, run.fence
        self.checked += 1
        owner = self._commits.placements.get(fence)
        if owner != run.incarnation:
            raise Violation("L4", f"job {job} starts under fence {fence} on {run.incarnation}; committed is that it went to {owner}")
        if job in self._ledger.going.get(run.process, ()):
            raise Violation("A9", f"job {job} starts under fence {fence} while it runs in the same process")
        if not run.late and self._over.get(run.incarnation) == "lost":
            raise Violation("I6", f"job {job} starts under fence {fence} on {run.incarnation}, which is lost")
        if not before:
            return
        if any(old.fence == fence for old in before):
            raise Violation("I4", f"job {job} starts twice under fence {fence}")
        if self._t.jobs[job].max_attempts == 1:
            allowed = 1 + sum(old.outcome is Outcome.SNOOZED for old in before) + len(self._t.reopened.get(job, ()))
            if len(before) + 1 > allowed:
                raise Violation("I4", f"job {job} with max_attempts 1 starts for the {len(before) + 1}th time; {allowed} are allowed")
        for old in before:
            overlaps = old.until is None or old.outcome is Outcome.SUCCEEDED
            if overlaps and not (self._given_up(old) or (run.late and self._given_up(run))):
                what = "goes on" if old.until is None else "has succeeded"
                raise Violation(
                    "I5", f"job {job} starts under {fence} while its start under {old.fence} {what}, and nobody gave that one up"
                )
            self.twice += overlaps

    def _given_up(self, run: Run) -> bool:
        row = self._t.attempts.get((run.job, run.fence))
        return (row is not None and row.outcome is Outcome.LOST) or self._over.get(run.incarnation) in _GIVEN_UP
