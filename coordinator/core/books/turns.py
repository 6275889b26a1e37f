"""Whose turn it is: where a lane shares fairly, the submitters of a priority take turns, job by job; where not, there is one line for all (S2)."""

from collections.abc import Iterable

from jobyard.contracts.flows import flow_of
from jobyard.contracts.job import Job
from jobyard.contracts.priority import PRIORITIES


class Turn:
    """Of one submitter in one priority. `at`: it comes after all who stand lower; a job placed moves it on by one."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0


class Turns:
    """All turns of a lane. `fair`: whether there are any; else everybody has the same one, which never moves on."""

    def __init__(self, fair: bool) -> None:
        self.fair = fair
        self._of: dict[tuple[int, str], Turn] = {}
        self._reached = [0 for _ in PRIORITIES]
        self._everybody = Turn()

    def submitter(self, job: Job) -> str | None:
        """Whose strand the job stands in; None: strands are not parted by submitter."""
        return (job.submitter or "") if self.fair else None

    def flow(self, job: Job) -> int:
        """The group in which its row is read ahead, if it gets one now."""
        return flow_of(job.submitter) if self.fair else 0

    def of(self, priority: int, submitter: str | None) -> Turn:
        """The turn of those whose strands have this submitter."""
        if submitter is None:
            return self._everybody
        turn = self._of.get((priority, submitter))
        if turn is None:
            turn = self._of[priority, submitter] = Turn()
        return turn

    def at(self, priority: int, turn: Turn) -> int:
        """Where it stands in the round. Who missed turns, or is new, has the next one and no more: what was missed is not made up for."""
        return max(turn.at, self._reached[priority])

    def placed(self, priority: int, turn: Turn, jobs: int) -> None:
        """It had its turn, with so many jobs at once: the others come as often before it comes again."""
        if self.fair:
            self._reached[priority] = reached = self.at(priority, turn)
            turn.at = reached + jobs

    def keep(self, turns: Iterable[Turn]) -> None:
        """Forget those of whom nothing waits, unless they have had more than others."""
        kept = set(turns)
        self._of = {key: turn for key, turn in self._of.items() if turn in kept or turn.at > self._reached[key[0]]}
