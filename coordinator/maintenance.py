"""Slow chores of one leadership, in a thread: topic ids (L17, L24), deleting of committed records (L20), partitions for buckets (L22)."""

import logging
import queue
import threading

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import BUCKETS_ADDED, LaneTopics
from jobyard.coordinator.core.events import BucketsWanted
from jobyard.coordinator.inbox import Inbox
from jobyard.coordinator.seams import Clock, KafkaSilent, TopicAdmin, TopicsChanged

_log = logging.getLogger(__name__)


class Maintenance:
    """The chores' thread. The tick tells it what was committed and what buckets are wanted; it answers through the inbox."""

    def __init__(
        self, admin: TopicAdmin, inbox: Inbox, clock: Clock, rules: Rules, topics: LaneTopics, ids: dict[str, str], lane: str
    ) -> None:
        self._admin = admin
        self._inbox = inbox
        self._clock = clock
        self._rules = rules
        self._topics = topics
        self._ids = ids
        self._wanted: queue.SimpleQueue[BucketsWanted | None] = queue.SimpleQueue()
        self._committed: dict[str, tuple[str, int]] = {}
        self._deleted: dict[str, int] = {}
        self._answered = clock.monotonic()
        self._round_at = self._answered + rules.topics_every_s
        self._thread = threading.Thread(target=self._run, name=f"maintenance-{lane}", daemon=True)

    def start(self) -> None:
        """Begin the chores."""
        self._thread.start()

    def stop(self) -> None:
        """End after the chore at hand; waits a little."""
        self._wanted.put(None)
        if self._thread.ident is not None:
            self._thread.join(5)

    def want(self, wanted: BucketsWanted) -> None:
        """Ask for these buckets' end offsets, after adding partitions if it says so."""
        self._wanted.put(wanted)

    def committed(self, offsets: dict[str, tuple[str, int]]) -> None:
        """What lies below these offsets may be deleted."""
        self._committed = offsets

    def chore(self, wanted: BucketsWanted | None) -> None:
        """One at a time, in whatever thread: the buckets that are wanted, and the regular round when it is due. Raises what ends the leadership."""
        try:
            if wanted is not None:
                self._find_buckets(wanted)
            if self._clock.monotonic() >= self._round_at:
                self._round_at = self._clock.monotonic() + self._rules.topics_every_s
                self._compare_ids()
                self._delete_committed()
            self._answered = self._clock.monotonic()
        except ServiceUnavailable as error:
            silent = self._clock.monotonic() - self._answered
            _log.warning("Kafka has not answered for %.0f s: %s", silent, error)
            if silent >= self._rules.lost_after_s:
                raise KafkaSilent(str(error)) from error

    @property
    def round_at(self) -> float:
        """When the next regular round is due, on the leader's monotonic clock."""
        return self._round_at

    def _run(self) -> None:
        try:
            while True:
                wanted = self._next()
                if wanted == "stop":
                    return
                self.chore(wanted if isinstance(wanted, BucketsWanted) else None)
        except Exception as error:
            self._inbox.fail(error)

    def _next(self) -> BucketsWanted | str | None:
        try:
            return self._wanted.get(timeout=max(0.01, self._round_at - self._clock.monotonic())) or "stop"
        except queue.Empty:
            return None

    def _find_buckets(self, wanted: BucketsWanted) -> None:
        topic = self._topics.buckets.name
        free = list(wanted.partitions)
        total = self._admin.partitions(topic)
        if wanted.add:
            self._admin.add_partitions(topic, total + BUCKETS_ADDED)
            free += range(total, total + BUCKETS_ADDED)
            total += BUCKETS_ADDED
            _log.info("added %d partitions to %s, now %d", BUCKETS_ADDED, topic, total)
        # The first time nothing is asked for but how many there are.
        ends = self._admin.end_offsets(topic, free) if free else {}
        self._inbox.put_buckets(sorted(ends.items()), total)

    def _compare_ids(self) -> None:
        names = [topic.name for topic in self._topics.all()]
        for name, topic_id in self._admin.topic_ids(names).items():
            if topic_id != self._ids[name]:
                raise TopicsChanged(f"topic {name} was {'deleted' if topic_id is None else 'made again'}")

    def _delete_committed(self) -> None:
        for name in (self._topics.intake.name, self._topics.reports.name):
            topic_id, offset = self._committed.get(name, ("", 0))
            if topic_id == self._ids[name] and offset > self._deleted.get(name, 0):
                self._admin.delete_records(name, 0, offset)
                self._deleted[name] = offset
