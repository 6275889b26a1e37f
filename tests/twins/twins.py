"""Two leaderships of one lane, one over the memory and one over a real Postgres, that hear, ask, decide and write the same; else Differ is raised."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal, cast

from jobyard.contracts.job import NewJob, RefusedJob
from jobyard.contracts.reports import Finished, Reports
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.core.batch import BadMessage, Batch, IntakeRead, ReportsRead
from jobyard.coordinator.core.events import BucketsWanted, Event
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.core.questions import Answers, Questions
from jobyard.coordinator.seams import Deposed, LaneStore, Term
from jobyard.master_db import rows
from jobyard.master_db.lane_store import PostgresLaneStore
from jobyard.process.points import Point, arm, disarm
from jobyard.testing.memory_store import MemoryLaneStore
from jobyard.testing.memory_tables import MemoryLane
from twins.frozen_database import LANE, T0, FrozenDatabase
from twins.plain import Plain, Plainer, difference
from twins.tables import memory_tables, postgres_tables

TOPICS: Final = lane_topics("test", LANE)
Fate = Literal["committed", "lost", "unknown", "cut before", "cut after"]
"""What becomes of a tick: committed; lost before its write, as when the leader dies; committed, and the leader does not live to know; or the connection
breaks while rows are on their way, or while the COMMIT is."""
_SYNCS: Final = frozenset({"sync", "pause_lane", "resume_lane", "pause_kind", "resume_kind", "drain_agent", "resume_agent", "fair_share"})
_MARK: Final = "test.mark"
"""A topic that is none: its offset counts the ticks, and so tells whether one was committed."""


class Differ(AssertionError):
    """The two stores, or what was made of their answers, are not the same."""


class Cut(Exception):
    """The connection breaks here."""


@dataclass
class Side:
    """One of the two, while it leads."""

    name: str
    store: LaneStore
    term: Term
    lane: Lane
    plainer: Plainer


@dataclass
class Submitted:
    """A message of the intake topic."""

    at: float
    jobs: list[NewJob]
    refused: list[RefusedJob]


@dataclass
class Topic:
    """One that the leader reads. `topic_id`: another, if it is made anew."""

    topic_id: str = "one"
    messages: list[object] = field(default_factory=list[object])


class Twins:
    """`tables`: those in memory. `now`: of every clock. `count`: of ticks that were compared."""

    def __init__(self, database: FrozenDatabase, rules: Rules) -> None:
        database.empty()
        self.database = database
        self.rules = rules
        self.now = T0
        self.tables = MemoryLane(lambda: self.now)
        self.reports, self.intake = Topic(), Topic()
        self.buckets_id = "one"
        self.partitions = 10
        self.count = 0
        self.unlooked = False
        """A client has committed since the last look."""
        self.last: list[Event] = []
        self._batch = Batch()
        self._read_to = {"reports": 0, "intake": 0}
        self._leaders = 0
        self._sides: list[Side] = []
        self._opened: list[LaneStore] = []
        self.lead()

    def close(self) -> None:
        disarm()
        for store in self._opened:
            store.close()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.database.set_clock(self.now)

    @property
    def epoch(self) -> int:
        return self._sides[0].term.epoch

    @property
    def lane(self) -> Lane:
        """That over the memory."""
        return self._sides[0].lane

    # -- leading

    def lead(self, *, same: bool = False, at_least: int = 0, fence_all: bool = False) -> None:
        """A new leader takes over, or the one that failed does so anew. Both stores must give it the lane, and the same."""
        before = self._sides
        for side in before:
            if same or not self._leaders:
                side.store.close()
        if not same:
            self._leaders += 1
            if before:
                self._expire()
        leader = f"00000000-0000-4000-8000-{self._leaders:012d}"
        stores: list[tuple[str, LaneStore]] = [
            ("memory", MemoryLaneStore(self.tables, leader, self.rules, self._monotonic)),
            ("Postgres", PostgresLaneStore(self.database.url, LANE, leader, self.rules, self._monotonic)),
        ]
        self._sides = []
        ids = {topic.name: "one" for topic in TOPICS.all()}
        ids[TOPICS.reports.name], ids[TOPICS.intake.name] = self.reports.topic_id, self.intake.topic_id
        ids[TOPICS.buckets.name] = self.buckets_id
        openings: list[list[Event]] = []
        snapshots: list[Plain] = []
        for name, store in stores:
            self._opened.append(store)
            term = store.seize(at_least)
            if term is None:
                raise Differ(f"{name} does not give the lane to a new leader")
            snapshot, plainer = store.snapshot(), Plainer()
            plainer.incarnations = {row.agent_id: row.incarnation for row in snapshot.agents}
            snapshots.append(plainer.plain(snapshot))
            lane = Lane.load(
                snapshot,
                lane=LANE,
                rules=self.rules,
                epoch=term.epoch,
                now=self.now,
                topic_ids=ids,
                topics=TOPICS,
                fence_all=fence_all,
            )
            self._sides.append(Side(name, store, term, lane, plainer))
            openings.append(lane.opening())
        self._agree("snapshot", snapshots)
        self._agree("epoch", [side.term.epoch for side in self._sides])
        stored = self.tables.offsets
        for short, topic, name in (("reports", self.reports, TOPICS.reports.name), ("intake", self.intake, TOPICS.intake.name)):
            topic_id, at = stored.get(name, ("", 0))
            self._read_to[short] = at if topic_id == topic.topic_id else 0
        self._batch = Batch(partitions=self.partitions)
        self.unlooked = False
        self._write(openings, "committed")
        for old in before:
            if not same:
                self._is_deposed(old)
                old.store.close()

    def _is_deposed(self, old: Side) -> None:
        """Who led before finds out by its next write, and writes nothing."""
        try:
            old.store.ask(Questions(look=False))
            old.store.write([], {_MARK: ("deposed", 0)}, 0, old.term)
        except Deposed:
            return
        raise Differ(f"{old.name} lets a deposed leader write")

    def _expire(self) -> None:
        self.tables.lease_until = 0.0
        self.database.admin.execute("update jobyard.leases set lease_until = to_timestamp(0)")

    def _monotonic(self) -> float:
        return self.now - T0

    # -- a tick

    def tick(self, fate: Fate = "committed", *, look: bool = True, messages: int | None = None, to_the_end: bool = False) -> list[Event]:
        """One tick of both. `messages`: of each topic, at most. `to_the_end`: the ends of the topics were asked for just now."""
        batch = self._taken(messages)
        batch.look = look
        if to_the_end:
            if self._read_to["reports"] == len(self.reports.messages):
                batch.reports_read_at = self.now
            if self._read_to["intake"] == len(self.intake.messages):
                batch.intake_read_at = self.now
        batches = [batch, copy.deepcopy(batch)]
        questions = [side.lane.hear(one, self.now) for side, one in zip(self._sides, batches, strict=True)]
        self._agree("questions", self._plain(questions))
        answers = [side.store.ask(copy.deepcopy(one)) for side, one in zip(self._sides, questions, strict=True)]
        self._learn(answers)
        self._agree("answers", self._plain(answers))
        events = [side.lane.decide(one, two, self.now) for side, one, two in zip(self._sides, batches, answers, strict=True)]
        self.unlooked = self.unlooked and not look
        self._write(events, fate, batch)
        return self.last

    def _learn(self, answers: Sequence[Answers]) -> None:
        for side, one in zip(self._sides, answers, strict=True):
            side.plainer.incarnations |= {number: incarnation for incarnation, number in one.agents.items()}

    def _taken(self, most: int | None) -> Batch:
        batch, self._batch = self._batch, Batch()
        at = self._read_to["reports"]
        for message in self.reports.messages[at : None if most is None else at + most]:
            assert isinstance(message, Reports)
            prepared = {n: rows.prepare(one) for n, one in enumerate(message.reports) if isinstance(one, Finished)}
            batch.reports.append(ReportsRead(at, self.now, message, prepared))
            at += 1
        self._read_to["reports"] = at
        at = self._read_to["intake"]
        for message in self.intake.messages[at : None if most is None else at + most]:
            if isinstance(message, Submitted):
                key = f"{self.intake.topic_id}:{at}"
                batch.intake.append(IntakeRead(at, message.at, key, list(message.jobs), list(message.refused)))
            else:
                batch.bad.append(BadMessage(TOPICS.intake.name, 0, at, "it is none", b"\x00no\xff"))
            at += 1
        self._read_to["intake"] = at
        return batch

    def _write(self, events: Sequence[list[Event]], fate: Fate, batch: Batch | None = None) -> None:
        self._agree("events", self._plain(events))
        memory, postgres = self._sides
        self.count += 1
        offsets = {
            TOPICS.reports.name: (self.reports.topic_id, self._read_to["reports"]),
            TOPICS.intake.name: (self.intake.topic_id, self._read_to["intake"]),
            _MARK: ("one", self.count),
        }
        if fate != "lost":
            if fate.startswith("cut"):
                self._cut(postgres, events[1], offsets, Point.ROWS_SENT if fate == "cut before" else Point.COMMIT_SENT)
                committed = self._is_committed()
            else:
                postgres.store.write(events[1], offsets, postgres.lane.fence, postgres.term)
                committed = True
            if committed:
                memory.store.write(events[0], offsets, memory.lane.fence, memory.term)
        self.last = events[0]
        if fate == "committed":
            self._say(events)
            self.compare()
            self._law()
        else:
            self.lead(same=True)

    def _cut(self, side: Side, events: Sequence[Event], offsets: dict[str, tuple[str, int]], point: Point) -> None:
        def cut(*_: object) -> None:
            raise Cut

        arm(point, cut)
        try:
            side.store.write(events, offsets, side.lane.fence, side.term)
        except Cut:
            pass  # not reached where nothing but the lease was written
        finally:
            disarm()
            side.store.close()

    def _is_committed(self) -> bool:
        """What nobody knows until the next leader looks."""
        self.database.wait_for_leaders()
        return self.database.value(f"select (offsets #>> '{{{_MARK},next}}')::int from jobyard.leases") == self.count

    def _say(self, events: Sequence[list[Event]]) -> None:
        """What would be sent; and what the leader is told in the next tick of the partitions that it wants."""
        said: list[Plain] = []
        for side, some in zip(self._sides, events, strict=True):
            outgoing = [side.lane.message(event) for event in some]
            said.append(side.plainer.plain([one for one in outgoing if one is not None]))
        self._agree("messages", said)
        for event in events[0]:
            if isinstance(event, BucketsWanted):
                if event.add:
                    self.partitions += 10
                self._batch.partitions = self.partitions
                self._batch.buckets_ready = [(partition, partition % 3) for partition in event.partitions]

    def ask(self, questions: Questions) -> None:
        """Questions that are not the lane's, between two ticks; of those that change nothing."""
        self._agree("answers", self._plain([side.store.ask(copy.deepcopy(questions)) for side in self._sides]))

    # -- comparing

    def compare(self) -> None:
        """All tables, and what both lanes know."""
        memory, postgres = memory_tables(self.tables), postgres_tables(self.database)
        self._agree("tables", [memory, postgres])
        self._agree("picture", self._pictures())

    def _pictures(self) -> list[Plain]:
        return [_picture(side.lane) for side in self._sides]

    def _law(self) -> None:
        """Who took over now would know what this leader knows: by each of the stores."""
        knows = _picture(self.lane)
        ids = {topic.name: self.reports.topic_id for topic in TOPICS.all()} | {TOPICS.buckets.name: self.buckets_id}
        syncing = any(row.answer is None and row.command.verb in _SYNCS for row in self.tables.commands.values())
        observer = MemoryLaneStore(self.tables, "observer", self.rules)
        found: list[Plain] = []
        for snapshot in (observer.snapshot(), self.database.snapshot(self.epoch)):
            lane = Lane.load(snapshot, lane=LANE, rules=self.rules, epoch=self.epoch, now=self.now, topic_ids=ids, topics=TOPICS)
            found.append(_picture(lane))
        self._agree("picture of a take-over", found)
        would = found[1]
        for name, value in cast("dict[str, Plain]", knows).items():
            if name == "kinds":  # those that it has met: others may have been named by clients alone
                value = would[name] | value
            if (name == "waiting" and self.unlooked) or (name in ("kinds", "paused", "drained", "fair_share") and syncing):
                continue
            if name == "waiting":  # of a row that a command took away it may believe that it is there, until it looks
                earliest = {(priority, kind, flow): at for priority, kind, flow, at in value}
                value = [[*row[:3], max(earliest.get((row[0], row[1], row[2]), inf), row[3])] for row in would[name]]
            self._agree(f"law of the take-over, {name}", [value, would[name]])

    def _plain(self, values: Sequence[object]) -> list[Plain]:
        return [side.plainer.plain(value) for side, value in zip(self._sides, values, strict=True)]

    def _agree(self, what: str, values: list[Plain]) -> None:
        memory, postgres = values
        found = difference(memory, postgres)
        if found is not None:
            raise Differ(f"tick {self.count}, {self.now - T0:g} s: {what}{found}")


def _picture(lane: Lane) -> Plain:
    """Agents by name and incarnation: their numbers are each store's own."""
    picture = Plainer().plain(lane.picture())
    picture["agents"] = sorted((agent[1:] for agent in picture["agents"]), key=lambda agent: (agent[0], agent[1]))
    picture["bundles"] = [bundle[:1] + bundle[2:] for bundle in picture["bundles"]]
    return picture
