"""The fences that an agent knows: told apart as a set, remembered until the bucket itself says that they are closed (A3, A4, A5, A8)."""

from collections.abc import Iterator

import msgspec

from jobyard.agent.core.held import Held

MOST_CANCELS = 10_000
"""Remembered cancels. More than that were never asked for: the oldest fence's are forgotten first."""


class Known(msgspec.Struct, eq=False):
    """A bundle that has been read. Jobs are in it from its arrival until the leader no longer lists them."""

    fence: int
    bucket: int
    jobs: dict[str, Held]


class Fences:
    """Bundles of the current incarnation. Never by the highest fence read: a lower one may arrive later (A3)."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}
        self._buckets: dict[int, dict[int, None]] = {}
        self._cancels: dict[int, dict[int, dict[str, None]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, fence: int) -> Known | None:
        """The bundle with this fence, if it is known."""
        return self._known.get(fence)

    def add(self, fence: int, bucket: int, jobs: dict[str, Held]) -> dict[str, None]:
        """A fence that was not known; returns the jobs whose cancel came before it (A8)."""
        self._known[fence] = Known(fence, bucket, jobs)
        self._buckets.setdefault(bucket, {})[fence] = None
        cancels = self._cancels.get(bucket)
        return self._taken(cancels, fence) if cancels and fence in cancels else {}

    def cancel_first(self, fence: int, bucket: int, job: str) -> None:
        """A cancel for a fence not read yet is remembered (A8)."""
        jobs = self._cancels.setdefault(bucket, {}).setdefault(fence, {})
        if job in jobs:
            return
        jobs[job] = None
        self._count += 1
        while self._count > MOST_CANCELS:
            self._forget_cancels()

    def _forget_cancels(self) -> None:
        bucket = next(bucket for bucket, of in self._cancels.items() if of)
        of_bucket = self._cancels[bucket]
        oldest = next(iter(of_bucket))
        if len(of_bucket[oldest]) > 1:
            del of_bucket[oldest][next(iter(of_bucket[oldest]))]
            self._count -= 1
        else:
            self._taken(of_bucket, oldest)

    def _taken(self, cancels: dict[int, dict[str, None]], fence: int) -> dict[str, None]:
        jobs = cancels.pop(fence)
        self._count -= len(jobs)
        return jobs

    def unlisted(self, known: Known, listed: list[str]) -> list[Held]:
        """Forget the jobs of a known fence that a copy of it no longer lists: they are closed (A4)."""
        if len(listed) >= len(known.jobs):
            return []
        left = frozenset(listed)
        gone = [held for job, held in known.jobs.items() if job not in left]
        for held in gone:
            del known.jobs[held.job.id]
        return gone

    def closed(self, bucket: int, fence: int, still_open: list[int], as_of: int | None = None) -> list[Held]:
        """Forget what a message of the bucket, for `fence`, does not list as open (A5); returns the jobs that were in it.

        Not what was placed after `as_of`, of which it tells nothing: where a topic was made anew, an earlier message may be read after a later one.

        A remembered cancel goes, too, if a higher fence was open by then: its own had been placed before that, so it is closed (A8).
        """
        left = set(still_open)
        left.add(fence)
        gone: list[Held] = []
        of_bucket = self._buckets.get(bucket)
        if of_bucket:
            for old in [f for f in of_bucket if f not in left and (as_of is None or f <= as_of)]:
                del of_bucket[old]
                gone.extend(self._known.pop(old).jobs.values())
        cancels = self._cancels.get(bucket)
        if cancels:
            highest = max(left)
            for old in [f for f in cancels if f not in left and f < highest]:
                self._taken(cancels, old)
        return gone

    def held(self) -> Iterator[Held]:
        """All jobs of all known fences, ended ones too."""
        for known in self._known.values():
            yield from known.jobs.values()

    def clear(self) -> None:
        """A new incarnation knows nothing: no bundle of the old one will be taken again (A1)."""
        self._known.clear()
        self._buckets.clear()
        self._cancels.clear()
        self._count = 0

    @property
    def cancels(self) -> int:
        """How many cancels wait for their fence."""
        return self._count
