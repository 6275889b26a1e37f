"""Ends of attempts on their way to the leader: gathered for one turn, one report a bundle, with the time worked on them (S8)."""

from jobyard.agent.core.actions import Say
from jobyard.contracts.reports import End, Finished, Released


class Ends:
    """What has ended, or was released, since the last turn."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, int], list[End]] = {}
        self._again: dict[tuple[str, int], list[End]] = {}
        self._released: dict[tuple[str, int, str], list[tuple[str, int]]] = {}
        self._busy_until = 0.0

    def ended(self, incarnation: str, fence: int, end: End) -> None:
        """An attempt has ended."""
        key = (incarnation, fence)
        ends = self._ended.get(key)
        if ends is None:
            self._ended[key] = [end]
        else:
            ends.append(end)

    def again(self, incarnation: str, fence: int, end: End) -> None:
        """The same report once more (A4): no work is counted for it."""
        self._again.setdefault((incarnation, fence), []).append(end)

    def released(self, incarnation: str, fence: int, job: str, attempt: int, reason: str) -> None:
        """A job goes back unstarted."""
        self._released.setdefault((incarnation, fence, reason), []).append((job, attempt))

    def take(self) -> list[Say]:
        """All of it as reports."""
        says: list[Say] = []
        if self._released:
            says += [Say(i, Released(fence=fence, jobs=jobs, reason=reason)) for (i, fence, reason), jobs in self._released.items()]
            self._released = {}
        if self._again:
            says += [Say(incarnation, Finished(fence=fence, ends=ends)) for (incarnation, fence), ends in self._again.items()]
            self._again = {}
        if self._ended:
            for (incarnation, fence), ends in self._ended.items():
                says.append(Say(incarnation, Finished(fence=fence, ends=ends, busy_s=self._busy(ends))))
            self._ended = {}
        return says

    def _busy(self, ends: list[End]) -> float:
        """Seconds from their first start to their last end, less what an earlier report of this agent has counted."""
        starts = [end.started_at for end in ends if end.started_at is not None]
        if not starts:
            return 0.0
        last = max([end.ended_at for end in ends])
        busy = max(0.0, last - max(min(starts), self._busy_until))
        # A wall clock that was set back must not hide all later work.
        self._busy_until = last if last < self._busy_until - 60.0 else max(self._busy_until, last)
        return busy
