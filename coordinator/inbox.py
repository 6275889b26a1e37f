"""Where the threads of a leadership meet: reader, listener and maintenance put, the tick takes. The only lock; bounded, so a slow tick slows the reader."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.batch import BadMessage, Batch, IntakeRead, ReportsRead


@dataclass(slots=True)
class ReadTo:
    """A topic was read up to the end offset that was asked for at `at`."""

    reports: bool
    at: Instant


@dataclass(slots=True)
class _Entry:
    """One thing that was put, with its weight (jobs and ends in it) and the position behind it."""

    what: IntakeRead | ReportsRead | BadMessage | ReadTo
    weight: int
    position: tuple[str, str, int] | None


Put: TypeAlias = IntakeRead | ReportsRead | BadMessage


class Inbox:
    """What was read and waits for the next tick. `most`: the weight from which on putting blocks."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._entries: deque[_Entry] = deque()
        self._weight = 0
        self._urgent = False
        self._woken = False
        self._ready: list[tuple[int, int]] = []
        self._partitions: int | None = None
        self._failure: BaseException | None = None
        self._closed = False

    def put(self, what: Put, weight: int, position: tuple[str, str, int], *, urgent: bool) -> bool:
        """Put one message that was read; blocks while the inbox is full. `position`: topic, its id, the next offset.

        `urgent`: wakes a tick that sleeps; heartbeats can wait for the next one. False: the inbox is closed, stop reading.
        """
        with self._changed:
            while self._weight >= self._most and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._entries.append(_Entry(what, weight, position))
            self._weight += weight
            if urgent and not self._urgent:
                self._urgent = True
                self._changed.notify_all()
            return True

    def put_read_to(self, mark: ReadTo) -> None:
        """Say up to where a topic was read; keeps its place among the messages."""
        with self._changed:
            self._entries.append(_Entry(mark, 0, None))
            self._urgent = True
            self._changed.notify_all()

    def put_buckets(self, ready: list[tuple[int, int]], partitions: int) -> None:
        """Free partitions with their end offsets, and how many partitions there are."""
        with self._changed:
            self._ready.extend(ready)
            self._partitions = partitions
            self._urgent = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Somebody says that the database has something new."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """A thread of this leadership cannot go on: the next `take` raises its error."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody takes any more: unblocks whoever puts."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self, most: int, wait_s: float, *, messages: int | None = None) -> tuple[Batch, bool]:
        """What is there, up to a weight of `most` (at least one message; at most `messages` of them), after waiting at most `wait_s` for something.

        The second value: whether something urgent came or somebody woke us. Raises what `fail` was told.
        """
        with self._changed:
            if not (self._urgent or self._woken or self._failure or self._closed) and wait_s > 0:
                self._changed.wait(wait_s)
            if self._failure:
                raise self._failure
            stirred = self._urgent or self._woken
            batch = Batch(buckets_ready=self._ready, partitions=self._partitions)
            self._ready, self._partitions, self._woken = [], None, False
            self._fill(batch, most, messages)
            self._urgent = bool(self._entries)
            self._changed.notify_all()
            return batch, stirred

    def _fill(self, batch: Batch, most: int, messages: int | None) -> None:
        taken = count = 0
        while self._entries and (count == 0 or taken + self._entries[0].weight <= most) and (messages is None or count < messages):
            entry = self._entries.popleft()
            taken += entry.weight
            match entry.what:
                case IntakeRead():
                    batch.intake.append(entry.what)
                    batch.bad += entry.what.bad
                case ReportsRead():
                    batch.reports.append(entry.what)
                    batch.bad += entry.what.bad
                case BadMessage():
                    batch.bad.append(entry.what)
                case ReadTo(reports=True, at=at):
                    batch.reports_read_at = at
                case ReadTo(at=at):
                    batch.intake_read_at = at
            if entry.position and not isinstance(entry.what, ReadTo):
                topic, topic_id, following = entry.position
                batch.offsets[topic] = (topic_id, following)
                batch.taken.append((topic, entry.what.offset))
                count += 1
        self._weight -= taken
