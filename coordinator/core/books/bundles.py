"""Open bundles: the placed jobs with their marks, and the counter of fences."""

from collections.abc import Iterable, Iterator

from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.events import Closed, Event
from jobyard.coordinator.core.places import Bundle

SHIFT = 20
"""A job's spot is its bundle's fence, shifted, and its index there: one number, so that placing and ending cost one dictionary entry a job."""
INDEX = (1 << SHIFT) - 1


class Bundles:
    """All open bundles. `fence`: the last one given. `spots`: job id → fence << SHIFT | index, for every placed job."""

    def __init__(self, fence: int) -> None:
        self.fence = fence
        self.spots: dict[str, int] = {}
        self._open: dict[int, Bundle] = {}
        self._by_incarnation: dict[str, dict[int, Bundle]] = {}
        self._by_bucket: dict[int, dict[int, Bundle]] = {}
        self._sent_again: dict[int, Instant] = {}
        self._asked: dict[tuple[int, int], Instant] = {}
        self._closed: list[int] = []

    # -- asked

    def get(self, fence: int) -> Bundle | None:
        """The open bundle of this fence."""
        return self._open.get(fence)

    def spot(self, job_id: str) -> tuple[Bundle, int] | None:
        """Where a job is placed: bundle and index; None: it is not placed."""
        spot = self.spots.get(job_id)
        return None if spot is None else (self._open[spot >> SHIFT], spot & INDEX)

    def of(self, incarnation: str) -> list[Bundle]:
        """The open bundles of an incarnation, in order of fences."""
        held = self._by_incarnation.get(incarnation)
        return [held[fence] for fence in sorted(held)] if held else []

    def open_fences(self, bucket: int, incarnation: str) -> list[int]:
        """All open fences of an incarnation in a bucket, sorted: what a message's `open` says (A5)."""
        return sorted(fence for fence, bundle in self._by_bucket.get(bucket, {}).items() if bundle.incarnation == incarnation)

    def open_count(self, bucket: int) -> int:
        """About how long that list is: those of earlier owners of the bucket counted too."""
        return len(self._by_bucket.get(bucket, ()))

    def __iter__(self) -> Iterator[Bundle]:
        """All open bundles in order of fences."""
        return (self._open[fence] for fence in sorted(self._open))

    def __len__(self) -> int:
        return len(self._open)

    def sent_at(self, bundle: Bundle) -> Instant:
        """When it was placed or last sent again."""
        return self._sent_again.get(bundle.fence, bundle.placed_at)

    # -- facts

    def next_fence(self) -> int:
        """A fence that nobody has had."""
        self.fence += 1
        return self.fence

    def opened(self, bundle: Bundle) -> None:
        """A bundle is open: just placed, or found so at the take-over."""
        fence = bundle.fence
        self._open[fence] = bundle
        self._by_incarnation.setdefault(bundle.incarnation, {})[fence] = bundle
        self._by_bucket.setdefault(bundle.bucket, {})[fence] = bundle
        base = fence << SHIFT
        if bundle.ended:
            self.spots.update((job.id, base | index) for index, job in enumerate(bundle.jobs) if index not in bundle.ended)
        else:
            self.spots.update(zip([job.id for job in bundle.jobs], range(base, base + len(bundle.jobs)), strict=True))

    def took(self, bundle: Bundle, indexes: Iterable[int]) -> None:
        """These jobs stand no longer in their spots; `ended` is told next."""
        for index in indexes:
            del self.spots[bundle.jobs[index].id]

    def ended(self, bundle: Bundle, indexes: list[int]) -> None:
        """These jobs, taken from their spots, ended. The bundle is closed with its last one."""
        bundle.ended.update(indexes)
        if self._asked:
            for index in indexes:
                self._asked.pop((bundle.fence, index), None)
        if len(bundle.ended) == len(bundle.jobs):
            fence = bundle.fence
            del self._open[fence], self._by_incarnation[bundle.incarnation][fence], self._by_bucket[bundle.bucket][fence]
            if not self._by_incarnation[bundle.incarnation]:
                del self._by_incarnation[bundle.incarnation]
            self._sent_again.pop(fence, None)
            self._closed.append(fence)

    def sent_again(self, bundle: Bundle, at: Instant) -> None:
        """It is sent under the same fence."""
        self._sent_again[bundle.fence] = at

    def cancel_asked(self, bundle: Bundle, index: int, reason: str, at: Instant) -> None:
        """Its cancel was asked, and is sent now."""
        bundle.cancels[index] = reason
        self._asked.pop((bundle.fence, index), None)
        self._asked[bundle.fence, index] = at  # so the oldest stands first

    def cancels_due(self, before: Instant) -> list[tuple[Bundle, int]]:
        """Those whose cancel was last sent at this instant or earlier, without an answer yet."""
        due: list[tuple[Bundle, int]] = []
        for (fence, index), at in self._asked.items():
            if at > before:
                break
            due.append((self._open[fence], index))
        return due

    @property
    def first_cancel(self) -> Instant | None:
        """When the oldest unanswered cancel was last sent."""
        return next(iter(self._asked.values())) if self._asked else None

    def settle(self, events: list[Event]) -> None:
        """The end of a tick: rows of closed bundles go."""
        if self._closed:
            events.append(Closed(self._closed))
            self._closed = []

    def picture(self) -> list[tuple[object, ...]]:
        """All open bundles in order of fences, for comparing. When a placed job was due is not known for sure after a take-over, and not needed."""
        return [
            (
                bundle.fence,
                bundle.agent_id,
                bundle.incarnation,
                bundle.bucket,
                bundle.kind,
                bundle.priority,
                bundle.placed_at,
                bundle.reason,
                [job.id for job in bundle.jobs],
                bundle.attempts,
                bundle.used,
                bundle.interruptions,
                bundle.bounds,
                bundle.careful,
                sorted(bundle.ended),
                sorted(bundle.running.items()),
                sorted(bundle.cancels.items()),
            )
            for bundle in self
        ]
