"""Jobs that wait in memory, in strands: strict order inside, and per priority a heap of the strands' heads (S2, S4). And who needs a row of `pending`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from jobyard.contracts.job import Job
from jobyard.contracts.moments import Instant
from jobyard.contracts.priority import PRIORITIES
from jobyard.coordinator.core.books.backlog import Backlog, Backlogs
from jobyard.coordinator.core.books.durations import Duration, Durations, size_class
from jobyard.coordinator.core.events import Event, Left, Moved, Waits
from jobyard.coordinator.core.places import Waiting

_Entry: TypeAlias = tuple[Instant, str, int, Waiting]
_SWEPT_AFTER = 100
_ENVELOPE = 512
"""What a job weighs in a message beside its arguments and tags, at most about, in bytes."""


class Strand:
    """Waiting jobs of one priority, kind, version and size class. The top of the heap is always one that still waits.

    `dropped`: how many entries below it, at most, are of jobs that wait here no longer.
    """

    __slots__ = ("backlog", "dropped", "duration", "heap", "kind", "priority", "size_class", "version")

    def __init__(self, priority: int, kind: str, version: int, size_class: int, backlog: Backlog, duration: Duration) -> None:
        self.priority = priority
        self.kind = kind
        self.version = version
        self.size_class = size_class
        self.backlog = backlog
        self.duration = duration
        self.heap: list[_Entry] = []
        self.dropped = 0


def weight(job: Job) -> int:
    """About how many bytes a job takes in a message, never fewer."""
    bytes_ = len(job.args) + _ENVELOPE
    if job.tags is not None:
        bytes_ += sum(len(key) + 4 * len(value) + 8 for key, value in job.tags.items())
    return bytes_


class WaitingJobs:
    """The waiting jobs that memory holds. `changed`: somebody came, or left, since the last pass."""

    def __init__(self, backlogs: Backlogs, durations: Durations) -> None:
        self._backlogs = backlogs
        self._durations = durations
        self._strands: dict[tuple[int, str, int, int], Strand] = {}
        self._heads: list[list[tuple[Instant, str, Strand]]] = [[] for _ in PRIORITIES]
        self._by_id: dict[str, Waiting] = {}
        self._came = 0
        # of this tick
        self._new: list[Waiting] = []
        self._aside: dict[str, Waiting] = {}
        self._left: list[Waiting] = []
        self._moved: list[Waiting] = []
        self._touched: set[str] = set()
        self.changed = True

    # -- facts

    def came(self, waiting: Waiting, now: Instant) -> None:
        """A job without a row of `pending`: new, or back from a bundle. It stands in memory, or only its row will be written."""
        job = waiting.job
        self._new.append(waiting)
        self._by_id[job.id] = waiting
        self._stands(waiting, self._strand(job), now)

    def came_new(self, jobs: Iterable[Job], now: Instant) -> None:
        """Jobs whose insert was seen to be new. As `came`, with little for each: those of one strand come in rows as a rule."""
        new, by_id = self._new.append, self._by_id
        like: tuple[int, str, int, float] | None = None
        strand: Strand | None = None
        for job in jobs:
            likeness = (job.priority, job.kind, job.version, job.size)
            if strand is None or likeness != like:
                like, strand = likeness, self._strand(job)
            waiting = Waiting(job, 0, 0, 0, job.max_attempts)
            new(waiting)
            by_id[job.id] = waiting
            self._stands(waiting, strand, now)

    def read(self, backlog: Backlog, rows: Sequence[Waiting]) -> int:
        """Due rows of the store, in order. Those that memory has, or that left in this tick, are known already.

        Where there is no room, the latest of what memory holds makes some for what is earlier (S2). How many of the rows memory has, or need not have.
        """
        by_id, touched, has_room = self._by_id, self._touched, self._backlogs.has_room
        latest: list[_Entry] | None = None
        for position, waiting in enumerate(rows):
            job = waiting.job
            held = by_id.get(job.id)
            if held is not None:
                if held.stored:
                    held.ctid = waiting.ctid
                continue
            if touched and job.id in touched:
                continue
            size = len(job.args)
            if not has_room(backlog, size):
                if latest is None:
                    latest = self._stored(backlog)
                while latest and latest[-1][:2] > (job.run_at, job.id) and not has_room(backlog, size):
                    self._drop(latest.pop()[3])
                if not has_room(backlog, size):
                    return position
            by_id[job.id] = waiting
            waiting.stored = True
            self._hold(waiting, self._strand(job))
        return len(rows)

    def left(self, waiting: Waiting) -> None:
        """A waiting job is none any more (cancelled, or a late success). It may stand in memory, or only in a row."""
        self._touched.add(waiting.job.id)
        if self._by_id.get(waiting.job.id) is waiting:
            self._drop(waiting)
            self.changed = True  # an agent may be kept for it
        if waiting.stored:
            self._left.append(waiting)

    def moved(self, waiting: Waiting, run_at: Instant, priority: int, now: Instant) -> None:
        """A waiting job is due at another time or with another priority. Its row is replaced; it is read again from there when its time has come."""
        job = waiting.job
        self._touched.add(job.id)
        if self._by_id.get(job.id) is waiting:
            self._drop(waiting)
        job.run_at, job.priority = run_at, priority
        if not waiting.stored:
            self.came(
                Waiting(job, waiting.attempt, waiting.used, waiting.interruptions, waiting.bound, waiting.why),
                now,
            )
            return
        waiting.ctid = None
        self._moved.append(waiting)
        self._backlogs.notice(self._backlogs.of(priority, job.kind), run_at)

    # -- asked

    def find(self, job_id: str) -> Waiting | None:
        """The job if memory has it; None: it may have a row all the same."""
        return self._by_id.get(job_id)

    def standing(self, waiting: Waiting) -> Strand | None:
        """The strand that it stands in; None: only its row waits, or will by the end of the tick."""
        job = waiting.job
        if self._by_id.get(job.id) is not waiting or job.id in self._aside:
            return None
        return self._strands[job.priority, job.kind, job.version, size_class(job.size)]

    def before(self, waiting: Waiting, counts: Callable[[Strand], bool]) -> tuple[int, int]:
        """How many stand before a job that memory holds: of its strand, and of all that count (S2). Counts them: for who asks about one job."""
        own = (waiting.job.priority, waiting.job.run_at, waiting.job.id)
        strand = self.standing(waiting)
        of_strand = of_all = 0
        for other in self._strands.values():
            if other.priority > own[0] or not other.heap or not counts(other):
                continue
            before = sum(1 for entry in other.heap if (other.priority, entry[0], entry[1]) < own and self._by_id.get(entry[1]) is entry[3])
            of_all += before
            if other is strand:
                of_strand = before
        return of_strand, of_all

    def touched(self, job_id: str) -> bool:
        """Whether its row was taken away or replaced in this tick, so that what the tables said of it is over."""
        return job_id in self._touched

    @property
    def count(self) -> int:
        """How many memory holds."""
        return len(self._by_id)

    # -- the pass

    def first(self, priority: int) -> Strand | None:
        """The strand whose head is first in order; None: nobody of this priority waits."""
        heads = self._heads[priority]
        while heads:
            run_at, job_id, strand = heads[0]
            if strand.heap:
                top = strand.heap[0]
                if top[1] == job_id and top[0] == run_at:
                    return strand
            heappop(heads)
        return None

    def heads(self) -> Iterator[tuple[Instant, str, Strand]]:
        """The first of each strand that doesn't sit out, in no order; some of them twice."""
        for heads in self._heads:
            for run_at, job_id, strand in heads:
                if strand.heap and strand.heap[0][1] == job_id and strand.heap[0][0] == run_at:
                    yield run_at, job_id, strand

    def sits_out(self, strand: Strand) -> None:
        """The first strand's head could not be placed: the next in order is tried (S4)."""
        heappop(self._heads[strand.priority])

    def returns(self, strands: Iterable[Strand]) -> None:
        """The pass is over for those that sat it out."""
        for strand in strands:
            self._show(strand)

    def take(self, strand: Strand, jobs: int, room: float, largest: float, most_bytes: int, due_by: Instant) -> list[Waiting]:
        """Jobs from the head: at most `jobs`, with `room` for their sizes, none larger than `largest` or due after `due_by`; but the first whatever it is."""
        heap, by_id, left = strand.heap, self._by_id, self._left
        taken: list[Waiting] = []
        bytes_ = args = 0
        while heap:
            waiting = heap[0][3]
            job = waiting.job
            if by_id.get(job.id) is not waiting:
                heappop(heap)
                continue
            if len(taken) >= jobs:
                break
            room -= job.size
            bytes_ += len(job.args) + _ENVELOPE if job.tags is None else weight(job)
            if taken and (room < 0 or job.size > largest or bytes_ > most_bytes or job.run_at > due_by):
                break
            heappop(heap)
            del by_id[job.id]
            taken.append(waiting)
            args += len(job.args)
            if waiting.stored:
                left.append(waiting)
        strand.backlog.held -= len(taken)
        self._backlogs.bytes -= args
        self._show(strand)
        return taken

    # -- the end of a tick

    def settle(self, events: list[Event]) -> None:
        """Who needs a row, whose row goes, whose is replaced."""
        if self._moved:
            events.extend(Moved(waiting) for waiting in self._moved)
            self._moved = []
        if self._left:
            events.append(Left(self._left))
            self._left = []
        if self._new:
            by_id = self._by_id
            waits = [waiting for waiting in self._new if by_id.get(waiting.job.id) is waiting]
            for waiting in waits:
                waiting.stored = True
            if waits:
                events.append(Waits(waits))
            self._new = []
        for job_id in self._aside:
            del self._by_id[job_id]
        self._aside.clear()
        self._touched.clear()
        self._backlogs.settle()

    def picture(self) -> list[tuple[int, str, Instant]]:
        """Per priority and kind the earliest run_at of all that waits, in memory or not: what a take-over knows as well."""
        earliest: dict[tuple[int, str], Instant] = {
            (backlog.priority, backlog.kind): backlog.next_at for backlog in self._backlogs if backlog.next_at is not None
        }
        for waiting in self._by_id.values():
            key = (waiting.job.priority, waiting.job.kind)
            earliest[key] = min(earliest.get(key, waiting.job.run_at), waiting.job.run_at)
        return sorted((priority, kind, at) for (priority, kind), at in earliest.items())

    # -- inside

    def _strand(self, job: Job) -> Strand:
        key = (job.priority, job.kind, job.version, size_class(job.size))
        strand = self._strands.get(key)
        if strand is None:
            strand = self._strands[key] = Strand(*key, self._backlogs.of(job.priority, job.kind), self._durations.of(job.kind, key[3]))
        return strand

    def _stands(self, waiting: Waiting, strand: Strand, now: Instant) -> None:
        """In memory, if there is room and what is read next is not earlier; else only its row will be written, and read when its turn comes."""
        job, backlog = waiting.job, strand.backlog
        run_at = job.run_at
        key = (run_at, job.id)
        known = key <= backlog.cursor
        if (known or (run_at <= now and (backlog.next_at is None or backlog.next_at > run_at))) and self._backlogs.has_room(
            backlog, len(job.args)
        ):
            if not known:
                backlog.moved(key)
            self._hold(waiting, strand)
        else:
            self._aside[job.id] = waiting
            self._backlogs.notice(backlog, run_at)

    def _stored(self, backlog: Backlog) -> list[_Entry]:
        """What memory could forget of a backlog, since rows stand for it; the latest at the end."""
        by_id = self._by_id
        return sorted(
            entry
            for strand in self._strands.values()
            if strand.backlog is backlog
            for entry in strand.heap
            if entry[3].stored and by_id.get(entry[1]) is entry[3]
        )

    def _hold(self, waiting: Waiting, strand: Strand) -> None:
        job = waiting.job
        heap = strand.heap
        self._came = came = self._came + 1
        entry = (job.run_at, job.id, came, waiting)
        heappush(heap, entry)
        strand.backlog.held += 1
        self._backlogs.bytes += len(job.args)
        if heap[0] is entry:
            heappush(self._heads[job.priority], (job.run_at, job.id, strand))
        self.changed = True

    def _drop(self, waiting: Waiting) -> None:
        """Out of memory. In its heap it lies on until it surfaces, but never at the top."""
        job = waiting.job
        del self._by_id[job.id]
        if self._aside.pop(job.id, None) is not None:
            return
        strand = self._strand(job)
        strand.backlog.held -= 1
        self._backlogs.bytes -= len(job.args)
        heap = strand.heap
        if heap[0][3] is waiting:
            heappop(heap)
            while heap and self._by_id.get(heap[0][1]) is not heap[0][3]:
                heappop(heap)
            self._show(strand)
            return
        strand.dropped += 1
        if strand.dropped > _SWEPT_AFTER and strand.dropped * 2 > len(heap):
            heap[:] = [entry for entry in heap if self._by_id.get(entry[1]) is entry[3]]
            heapify(heap)
            strand.dropped = 0

    def _show(self, strand: Strand) -> None:
        if strand.heap:
            top = strand.heap[0]
            heappush(self._heads[strand.priority], (top[0], top[1], strand))
