"""One coordinator process: the real lane over a Master DB in memory. A generator that names each point where it may be stopped."""

from collections.abc import Generator, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

from jobyard.contracts.codec import encode
from jobyard.contracts.reports import Reports
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.core.batch import Batch, IntakeRead, ReportsRead
from jobyard.coordinator.core.events import BucketsWanted, Event, Placed, Resent
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.seams import Deposed, Term
from jobyard.coordinator.simulation.kafka import Name, Submitted, Told
from jobyard.testing.memory_store import MemoryLaneStore

if TYPE_CHECKING:
    from jobyard.coordinator.simulation.world import World

TOPICS = lane_topics("simulation", "default")
NAMES: dict[str, Name] = {
    TOPICS.intake.name: "intake",
    TOPICS.reports.name: "reports",
    TOPICS.control.name: "control",
    TOPICS.buckets.name: "buckets",
}
Point: TypeAlias = str
Steps: TypeAlias = Generator[tuple[Point, float], None, None]
"""Points, and how long it takes from there to go on."""
_TICK_S = 0.005
_COMMIT_S = 0.003
_IDLE_S = 0.05
_MOST = 5_000
_TOPICS_EVERY_S = 1.0
_LAW_EVERY = 40


class Leader:
    """`lane`: while it leads. `name`: of the process; a new one after each crash."""

    SENDS_FIRST = False
    """A mistake that tests make on purpose, to see it found: what was decided is sent before it is committed (L4)."""

    def __init__(self, world: "World", name: str) -> None:
        self._world = world
        self.name = name
        self.over = False
        self.lane: Lane | None = None
        self.again: list[Event] = []
        self.unknown_commit = self.failed_commit = False
        self.undelivered_until = self.twice_until = 0.0
        self._ticks = 0
        self.poked = False

    def run(self) -> Steps:
        """For ever: lead, or look whether somebody is to."""
        while True:
            store = MemoryLaneStore(self._world.tables, self.name, self._world.rules, self._world.monotonic)
            yield from self._lead(store)
            store.close()
            self.lane = None
            yield "down", 0.2

    def _lead(self, store: MemoryLaneStore) -> Steps:
        world = self._world
        term = store.seize()
        if term is None:
            return
        yield "epoch", 0.001
        ids = {name: world.kafka.topic_id(short) for name, short in NAMES.items()}
        snapshot = store.snapshot()
        yield "loaded", 0.002
        offsets: dict[str, tuple[str, int]] = {}
        lost = False
        for topic in (TOPICS.intake.name, TOPICS.reports.name):
            stored, offset = snapshot.offsets.get(topic, ("", 0))
            if stored != ids[topic]:
                lost |= bool(stored) and topic == TOPICS.reports.name
                offset = 0
            offsets[topic] = (ids[topic], offset)
        lane = Lane.load(
            snapshot, lane="default", rules=world.rules, epoch=term.epoch, now=world.now, topic_ids=ids, topics=TOPICS, reports_lost=lost
        )
        events = lane.opening()
        try:
            store.write(
                events,
                offsets | {TOPICS.buckets.name: (ids[TOPICS.buckets.name], 0), TOPICS.control.name: (ids[TOPICS.control.name], 0)},
                lane.fence,
                term,
            )
        except Deposed:
            return
        self.lane, self.again = lane, []
        batch = Batch(partitions=world.kafka.partitions)
        yield "opened", 0.0
        yield from self._send(lane, events)
        yield from self._ticks_of(store, lane, term, ids, offsets, batch)

    def _ticks_of(
        self, store: MemoryLaneStore, lane: Lane, term: Term, ids: dict[str, str], offsets: dict[str, tuple[str, int]], batch: Batch
    ) -> Steps:
        world = self._world
        topics_at = world.now + _TOPICS_EVERY_S
        renewed_at = world.now
        while True:
            self._read(lane, batch, offsets)
            now = world.now
            if batch.empty and not self.again and not lane.busy and now - renewed_at < 1.0:
                due = lane.next_at(now)
                if due is None or due > now:
                    yield "idle", _IDLE_S if due is None else min(max(due - now, 0.001), _IDLE_S)
                    if not self._trusted(term):
                        return
                    continue
            yield "taken", 0.0
            began = perf_counter()
            questions = lane.hear(batch, now)
            world.core_s += perf_counter() - began
            answers = store.ask(questions)
            yield "asked", 0.0
            began = perf_counter()
            events = lane.decide(batch, answers, now)
            world.core_s += perf_counter() - began
            if self.SENDS_FIRST:
                yield from self._send(lane, events)
            yield "decided", _COMMIT_S
            if self.failed_commit:
                self.failed_commit = False
                return
            try:
                store.write(events, offsets, lane.fence, term)
            except Deposed:
                return
            world.checks.committed(self, lane, events)
            if self.unknown_commit:
                self.unknown_commit = False
                return
            renewed_at = world.now
            self._ticks += 1
            yield "committed", 0.0
            if not self.SENDS_FIRST:
                yield from self._send(lane, events)
            yield "sent", 0.0
            if (
                world.laws and self._ticks % _LAW_EVERY == 0 and world.client_committed_at < now
            ):  # else there are rows that it has not looked at
                world.checks.take_over_law(store, lane, ids, term)
            batch = self._next(events, lane)
            if world.now >= topics_at:
                topics_at = world.now + _TOPICS_EVERY_S
                if any(world.kafka.topic_id(NAMES[name]) != topic_id for name, topic_id in ids.items()):
                    return
            yield "tick", _TICK_S
            if not self._trusted(term):
                return

    def _trusted(self, term: Term) -> bool:
        return self._world.monotonic() < term.trusted_until

    def _read(self, lane: Lane, batch: Batch, offsets: dict[str, tuple[str, int]]) -> None:
        world = self._world
        kafka = world.kafka
        for topic in (TOPICS.reports.name, TOPICS.intake.name):
            short = NAMES[topic]
            topic_id, offset = offsets[topic]
            if kafka.topic_id(short) != topic_id:
                continue  # noticed when the ids are asked for
            messages = kafka.read(short, 0, offset, _MOST)
            for position, message in enumerate(messages):
                if isinstance(message, Reports):
                    batch.reports.append(ReportsRead(offset + position, world.now, message, {}))
                elif isinstance(message, Submitted):
                    batch.intake.append(IntakeRead(offset + position, message.at, f"intake:{offset + position}", [message.job], []))
            if messages:
                offsets[topic] = (topic_id, offset + len(messages))
                if short == "reports":
                    kafka.delete(short, 0, offset)
            if short == "reports" and lane.wants_reports_end(world.now) and kafka.end(short, 0) == offsets[topic][1]:
                batch.reports_read_at = world.now
        batch.intake_read_at = world.now

    def _next(self, events: Iterable[Event], lane: Lane) -> Batch:
        """What answers this tick's wishes: partitions with their end offsets (L22)."""
        batch, kafka = Batch(), self._world.kafka
        for event in events:
            if isinstance(event, BucketsWanted):
                if event.add:
                    kafka.partitions += 50
                batch.partitions = kafka.partitions
                batch.buckets_ready = [(partition, kafka.end("buckets", partition)) for partition in event.partitions]
        return batch

    def _send(self, lane: Lane, events: Iterable[Event]) -> Steps:
        world = self._world
        again, self.again = self.again, []
        told: set[str] = set()
        for event in [*(Resent(one.bundle.fence) if isinstance(one, Placed) else one for one in again), *events]:
            outgoing = lane.message(event)
            if outgoing is None:
                continue
            if world.now < self.undelivered_until:
                self.again.append(event)
                if world.rng.random() < 0.5:
                    continue  # not there; else it is, and only the answer was lost
            yield "sending", 0.0
            raw = encode(outgoing.body)
            for _ in range(2 if world.now < self.twice_until else 1):
                if outgoing.where == "buckets":
                    world.kafka.append("buckets", outgoing.partition, raw)
                    world.bundled(outgoing.partition)
                else:
                    world.kafka.append("control", 0, Told(outgoing.body.agent, raw))
                    told.add(outgoing.body.agent)
        world.told(told)
