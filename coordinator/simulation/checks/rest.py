"""What must hold when faults have ended, one coordinator lives, and an agent for everything (I10)."""

from jobyard.coordinator.simulation.checks.commits import Commits
from jobyard.coordinator.simulation.violation import Violation
from jobyard.testing.memory_tables import MemoryLane


class Rest:
    """`expected`: ids that must have been accepted."""

    def __init__(self, tables: MemoryLane, commits: Commits) -> None:
        self._t = tables
        self._commits = commits
        self.expected: set[str] = set()

    @property
    def reached(self) -> bool:
        """Whether everything has ended."""
        t = self._t
        if t.pending or t.bundles or t.held or any(row.answer is None for row in t.commands.values()):
            return False
        return all(job in t.jobs for job in self.expected)

    def check(self) -> None:
        """Called after as long as everything may take."""
        t = self._t
        if t.pending:
            raise Violation("I10", f"{len(t.pending)} jobs still wait, such as {next(iter(t.pending.values()))}")
        if t.bundles:
            raise Violation("I10", f"{len(t.bundles)} bundles are still open, such as {next(iter(t.bundles.values())).bundle}")
        if t.held:
            raise Violation("I10", f"{len(t.held)} jobs are still held back")
        missing = sorted(job for job in self.expected if job not in t.jobs)
        if missing:
            raise Violation("I10", f"{len(missing)} jobs were sent and never accepted, such as {missing[0]}")
        unanswered = [row for row in t.commands.values() if row.answer is None]
        if unanswered:
            raise Violation("I10", f"{len(unanswered)} commands have no answer, such as {unanswered[0].command}")
        self._commits.everything()
