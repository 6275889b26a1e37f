"""A whole leader on fakes: its lane and tables are real ones in memory, the services are scripted."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from shell_fakes import FakeAdmin, FakeBus, FakeSource

from jobyard.contracts import codec
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import ControlMessage
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import NewJob
from jobyard.contracts.reports import End, Finished, Heartbeat, Hello, Report, Reports
from jobyard.contracts.rules import RULES
from jobyard.contracts.states import Outcome
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.questions import Answers, Questions
from jobyard.coordinator.leader import Leader, World
from jobyard.coordinator.seams import Bus, Clock, LaneStore, Notices, Source, Term
from jobyard.kafka.consumer import Message
from jobyard.process.clock import monotonic, wall
from jobyard.testing.memory_store import MemoryLaneStore
from jobyard.testing.memory_tables import MemoryLane

TOPICS = lane_topics("ns", "default")
INTAKE, REPORTS = TOPICS.intake.name, TOPICS.reports.name
INCARNATION = "00000000-0000-4000-8000-000000000001"


class RealClock:
    """The machine's. `set_s`: what the next reading tells of."""

    def __init__(self) -> None:
        self.set_s = 0.0

    def heard(self, database_now: float, asked_at: float, answered_at: float) -> float:
        set_s, self.set_s = self.set_s, 0.0
        return set_s

    def now(self) -> float:
        return wall()

    def monotonic(self) -> float:
        return monotonic()


class Script:
    """What the fake services are to do wrong, and what happened, in order."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.seized: Callable[[], object] = lambda: None
        self.refuse: Callable[[Questions], Exception | None] = lambda _: None
        self.before_write: Callable[[Sequence[Event]], None] = lambda _: None
        self.after_write: Callable[[Term], None] = lambda _: None


class ScriptedStore(MemoryLaneStore):
    """Tables in memory that fail when the script says so."""

    def __init__(self, tables: MemoryLane, script: Script, me: str) -> None:
        super().__init__(tables, me, replace(RULES, lease_s=1.5, trust_s=1.2), monotonic)
        self._script = script

    def seize(self, at_least: int = 0) -> Term | None:
        term = super().seize(at_least)
        self._script.happened.append("seize" if term else "not free")
        self._script.seized()
        return term

    def ask(self, questions: Questions) -> Answers:
        error = self._script.refuse(questions)
        if error is not None:
            raise error
        return super().ask(questions)

    def write(self, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, term: Term) -> None:
        self._script.before_write(events)
        super().write(events, offsets, fence, term)
        term.trusted_until = monotonic() + RULES.trust_s
        self._script.happened.append("write")
        self._script.after_write(term)

    def release(self, term: Term) -> None:
        super().release(term)
        self._script.happened.append("release")


class ScriptedBus(FakeBus):
    """A producer that says in the script when something was handed over."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    def produce(self, topic: str, value: bytes, key: bytes | None = None, partition: int = 0, on_delivery: object = None) -> None:
        self._script.happened.append(f"send {topic.rsplit('.', 1)[1]}")
        super().produce(topic, value, key, partition, on_delivery)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - passed on as it came


class SilentNotices:
    """Nobody ever notifies."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def wait(self, timeout_s: float) -> bool:
        self._closed.wait(min(timeout_s, 0.05))
        return False

    def close(self) -> None:
        self._closed.set()


class PatientSource(FakeSource):
    """A topic that is read from its offset on; what was read stays in it."""

    def __init__(self, log: dict[str, list[Message]]) -> None:
        super().__init__()
        self._log = log
        self._at: dict[str, int] = {}
        self.broken = False
        """Its next call raises what no service raises."""

    def assign(self, partitions: object) -> None:
        super().assign(partitions)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - passed on as it came
        self._at = {topic: offset for topic, _, offset in self.assigned}

    def consume(self, most: int, timeout_s: float = 0.0) -> list[Message]:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] - none is out of range here
        if self.broken:
            raise KeyError("a bug")
        found: list[Message] = []
        for topic, at in self._at.items():
            found += self._log[topic][at : at + most]
            self._at[topic] = at + len(self._log[topic][at : at + most])
        if not found:
            time.sleep(0.005)
        return found

    def position(self, topic: str, partition: int) -> int:
        return self._at[topic]


class Leadership:
    """One lane: its tables, its topics, and leaders that can be started on them."""

    def __init__(self, me: str = "me") -> None:
        self.script = Script()
        self.tables = MemoryLane(wall)
        self.admin = FakeAdmin({topic.name: f"id-{topic.name}" for topic in TOPICS.all()})
        self.log: dict[str, list[Message]] = {INTAKE: [], REPORTS: []}
        self.buses: list[ScriptedBus] = []
        self.clocks: list[RealClock] = []
        self.sources: list[PatientSource] = []
        self.make_topics: Callable[[], object] = lambda: None
        self.rules = replace(RULES, topics_every_s=0.05, lost_after_s=0.6, unreachable_after_s=0.3, lease_margin_s=0.1)
        self._seq = itertools.count(1)
        self._saying = threading.Lock()
        self._dead = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self.leader = self.another(me)

    def another(self, me: str) -> Leader:
        """A leader of another process, say."""

        def store() -> LaneStore:
            return ScriptedStore(self.tables, self.script, me)

        def source() -> Source:
            self.sources.append(PatientSource(self.log))
            return self.sources[-1]

        def bus() -> Bus:
            self.buses.append(ScriptedBus(self.script))
            return self.buses[-1]

        def notices() -> Notices:
            return SilentNotices()

        def clock(term: Term) -> Clock:
            self.clocks.append(RealClock())
            return self.clocks[-1]

        world = World(store=store, source=source, bus=bus, notices=notices, clock=clock, admin=self.admin, prepare=lambda _: [])
        return Leader("default", world, self.rules, TOPICS, lambda: self.make_topics())

    def intake(self, *jobs: NewJob) -> int:
        """One message on the intake topic; its offset."""
        return self._append(INTAKE, codec.encode_intake(list(jobs)))

    def say(self, *reports: Report, incarnation: str = INCARNATION) -> int:
        """One batch of reports; its offset."""
        return self._append(
            REPORTS, codec.encode(Reports(v=1, agent="anna", incarnation=incarnation, seq=next(self._seq), reports=list(reports)))
        )

    def hello(self, *, lives: bool = True) -> None:
        """An agent joins; its heart beats on, unless it is said not to live."""
        self._say_hello()
        if lives:
            self._heart.start()

    def _say_hello(self) -> None:
        self.say(Hello(stamp=1.0, kinds={"a": 1}, capacity=10, slots=10))

    def _beat(self) -> None:
        """Hello until welcome has come (A10), then heartbeats."""
        while not self._dead.wait(0.05):
            if self.controls():
                self.heartbeat(max(1, self.tables.epoch))
            else:
                self._say_hello()

    def heartbeat(self, epoch: int = 1) -> int:
        """It lives; the offset at which it says so."""
        return self.say(Heartbeat(stamp=2.0, epoch=epoch, capacity=10, slots=10))

    def succeed(self, bundle: BundleMessage) -> None:
        """The agent has run all of a bundle."""
        now = wall()
        ends = [End(job.id, attempt, Outcome.SUCCEEDED, now, now) for job, attempt in zip(bundle.jobs, bundle.attempts, strict=True)]
        self.say(Finished(fence=bundle.fence, ends=ends))

    def _append(self, topic: str, value: bytes) -> int:
        with self._saying:
            log = self.log[topic]
            log.append(Message(topic, 0, len(log), None, value, wall()))
            self.admin.ends[topic, 0] = len(log)
            return len(log) - 1

    def bundles(self) -> list[BundleMessage]:
        """All that was sent to buckets, by all leaders."""
        return [codec.decode_bundle(v) for bus in self.buses for topic, _, v in bus.produced if topic == TOPICS.buckets.name]

    def controls(self) -> list[ControlMessage]:
        """All that was said on control."""
        return [codec.decode_control(v) for bus in self.buses for topic, _, v in bus.produced if topic == TOPICS.control.name]

    def stop(self) -> None:
        """End the leader in order."""
        self.leader.stop()
        assert self.leader.join(10)

    def close(self) -> None:
        """End all."""
        self._dead.set()
        self.stop()


def until(true: Callable[[], object], within_s: float = 10.0) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def a_job(**fields: object) -> NewJob:
    """A job of kind a with a fresh id."""
    return NewJob(kind="a", id=new_job_id(), **fields)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - as the test gives them
