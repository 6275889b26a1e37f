"""The take-over, step by step (T1 to T6): from taking the epoch to a lane whose open bundles have been sent again."""

import logging
from dataclasses import dataclass

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import BUCKETS_ADDED, LaneTopics
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.core.snapshot import Snapshot
from jobyard.coordinator.seams import Clock, LaneStore, Term, TopicAdmin
from jobyard.process.points import Point, reached

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Taken:
    """A lane that was taken. `offsets`: where to read on, by topic (its id, offset). `opening`: what is sent first (T5, T6)."""

    term: Term
    lane: Lane
    ids: dict[str, str]
    offsets: dict[str, tuple[str, int]]
    opening: list[Event]


class Takeover:
    """Takes one lane. Everything that it needs is asked anew each time: nothing is remembered from an earlier leadership (L3)."""

    def __init__(self, store: LaneStore, admin: TopicAdmin, rules: Rules, topics: LaneTopics, lane: str) -> None:
        self._store = store
        self._admin = admin
        self._rules = rules
        self._topics = topics
        self._lane = lane

    def run(self, term: Term, clock: Clock, *, restored: bool) -> Taken:
        """T2 to T6 under an epoch that was taken and committed (T1). `restored`: the Master DB is an older state, so every incarnation is ended.

        ServiceUnavailable if a topic is missing or Kafka doesn't answer.
        """
        reached(Point.EPOCH_TAKEN)
        ids = self._topic_ids()
        snapshot = self._store.snapshot()
        reached(Point.SNAPSHOT_READ)
        offsets, moved = self._positions(ids, snapshot)
        reached(Point.POSITIONS_FOUND)
        lane = Lane.load(
            snapshot,
            lane=self._lane,
            rules=self._rules,
            epoch=term.epoch,
            now=clock.now(),
            topic_ids=ids,
            topics=self._topics,
            reports_lost=self._topics.reports.name in moved,
            fence_all=restored,
        )
        for name in (self._topics.buckets.name, self._topics.control.name):
            offsets[name] = (ids[name], 0)
        self._find_room(snapshot)
        opening = lane.opening()
        self._store.write(opening, offsets, lane.fence, term)
        reached(Point.OPENING_COMMITTED, opening)
        _log.info(
            "leads lane %s under epoch %d: %d open bundles, %d agents",
            self._lane,
            term.epoch,
            len(snapshot.bundles),
            sum(not agent.ended for agent in snapshot.agents),
        )
        return Taken(term, lane, ids, offsets, opening)

    def _topic_ids(self) -> dict[str, str]:
        names = [topic.name for topic in self._topics.all()]
        ids: dict[str, str] = {}
        for name, topic_id in self._admin.topic_ids(names).items():
            if topic_id is None:
                raise ServiceUnavailable(f'topic {name} does not exist; make it with "jobyard topics create --lane {self._lane}"')
            ids[name] = topic_id
        return ids

    def _find_room(self, snapshot: Snapshot) -> None:
        """A buckets topic that was made again may have fewer partitions than agents own: they keep their numbers, so it grows first."""
        name = self._topics.buckets.name
        highest = max((bucket.partition for agent in snapshot.agents if not agent.ended for bucket in agent.buckets), default=-1)
        if highest >= self._admin.partitions(name):
            total = -(-(highest + 1) // BUCKETS_ADDED) * BUCKETS_ADDED
            _log.warning("topic %s has too few partitions for its agents: grows to %d", name, total)
            self._admin.add_partitions(name, total)

    def _positions(self, ids: dict[str, str], snapshot: Snapshot) -> tuple[dict[str, tuple[str, int]], set[str]]:
        """Where to read on (T3), and the topics that are not what was read so far: those are read from their beginning (L17)."""
        offsets: dict[str, tuple[str, int]] = {}
        moved: set[str] = set()
        for name in (self._topics.intake.name, self._topics.reports.name):
            stored_id, offset = snapshot.offsets.get(name, ("", 0))
            begin = self._admin.begin_offsets(name, [0])[0]
            end = self._admin.end_offsets(name, [0])[0]
            if stored_id != ids[name] or not begin <= offset <= end:
                if stored_id:
                    _log.warning(
                        "topic %s is not what was read so far (offset %d of %s): read from its beginning, %d",
                        name,
                        offset,
                        stored_id,
                        begin,
                    )
                    moved.add(name)
                offset = begin
            offsets[name] = (ids[name], offset)
        return offsets, moved
