"""One coordinator process: seizes the lane when it is free, takes over, ticks, and steps down at failures, as leader.py has it, without threads."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from jobyard.contracts.errors import JobyardError
from jobyard.contracts.reports import Finished
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.caution import Caution
from jobyard.coordinator.core.events import BucketsWanted, Event
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.maintenance import Maintenance
from jobyard.coordinator.reader import Reader
from jobyard.coordinator.seams import ClockSet, Deposed, KafkaSilent, PendingMoved, Restored, Term, TopicsChanged
from jobyard.coordinator.sender import Sender
from jobyard.coordinator.simulation.broker import Broker
from jobyard.coordinator.simulation.clocks import LeaderClock, Machine
from jobyard.coordinator.simulation.consumer import Consumer
from jobyard.coordinator.simulation.database import Database, SimulatedStore
from jobyard.coordinator.simulation.link import Link
from jobyard.coordinator.simulation.mailbox import Mailbox
from jobyard.coordinator.simulation.producer import Producer
from jobyard.coordinator.simulation.schedule import Entry, Schedule
from jobyard.coordinator.simulation.violation import Killed
from jobyard.coordinator.takeover import Takeover
from jobyard.coordinator.telemetry import Telemetry
from jobyard.coordinator.tick import Tick
from jobyard.coordinator.wakefulness import Wakefulness
from jobyard.process.points import Point, reached

_BACKOFF_S: Final = (0.1, 0.3, 1.0, 2.0)


def no_text(finished: Finished) -> list[str]:
    """The store in memory needs no text of ends (Prepare)."""
    return [""] * len(finished.ends)


class Leading:
    """The parts of one leadership."""

    def __init__(
        self,
        lane: Lane,
        store: SimulatedStore,
        inbox: Mailbox,
        reader: Reader,
        sender: Sender,
        producer: Producer,
        maintenance: Maintenance,
        wakefulness: Wakefulness,
        tick: Tick,
        clock: LeaderClock,
    ) -> None:
        self.lane = lane
        self.store = store
        self.inbox = inbox
        self.reader = reader
        self.sender = sender
        self.producer = producer
        self.maintenance = maintenance
        self.wakefulness = wakefulness
        self.tick = tick
        self.clock = clock
        self.failed = False


class Stage:
    """Who acts: whose code runs at the moment, inside all that waits."""

    def __init__(self) -> None:
        self.actor: Candidate | None = None


class Candidate:
    """`life`: of the process; -1 while there is none. `leading`: None while it does not lead."""

    def __init__(
        self,
        *,
        name: str,
        lane: str,
        schedule: Schedule,
        chance: Random,
        broker: Broker,
        database: Database,
        topics: LaneTopics,
        rules: Rules,
        stage: "Stage",
        number: Callable[[], int],
    ) -> None:
        self.name = name
        self.leading: Leading | None = None
        self.link = Link(schedule, chance)
        self.machine = Machine(schedule)
        self.ticks = 0
        self.takeovers = 0
        self._lane = lane
        self._schedule = schedule
        self._chance = chance
        self._broker = broker
        self._db = database
        self._topics = topics
        self._rules = rules
        self._stage = stage
        self._number = number
        self._caution = Caution()
        self._above = 0
        self._believes_at = 0.0
        self._failures = 0
        self.life = number()
        self.alive = True
        self._frozen_until = 0.0
        self._busy = False
        self._next: Entry | None = None
        self._reading: Entry | None = None
        for topic in (topics.intake.name, topics.reports.name):
            broker.watch(topic, 0, self._comes)
        self._soon(chance.random() * 0.05)

    # -- what is done to it

    def kill(self) -> None:
        """The process is gone; a frame of it that waits ends when it would go on."""
        if not self.alive:
            return
        self.alive = False
        self.life = -1
        if self.leading is not None:
            self.leading.producer.close()
            if not self._busy:  # else the frame that waits does so
                self.leading.store.close()
            self.leading = None
        for entry in (self._next, self._reading):
            if entry is not None:
                entry.dropped = True
        for topic in (self._topics.intake.name, self._topics.reports.name):
            self._broker.unwatch(topic, 0, self._comes)

    def restart(self) -> None:
        """A new process in its place, that knows nothing; if there is none."""
        if self.alive:
            return
        self.alive = True
        self.life = self._number()
        self._caution = Caution()
        self._above = self._failures = 0
        self._believes_at = self._frozen_until = 0.0
        self._busy = False
        for topic in (self._topics.intake.name, self._topics.reports.name):
            self._broker.watch(topic, 0, self._comes)
        self._soon(0.05)

    def pause(self, seconds: float) -> None:
        """The process stands still; time goes on."""
        self._frozen_until = max(self._frozen_until, self._schedule.now + seconds)

    def woken(self) -> None:
        """A notice of the database."""
        if self.leading is not None and not self.leading.failed:
            self.leading.inbox.wake()
            self._soon(0.001)

    @property
    def standing(self) -> bool:
        """It stands still."""
        return self._schedule.now < self._frozen_until

    # -- Waiter

    def elapse(self, seconds: float) -> None:
        """Wait inside a tick or take-over: all others go on."""
        life = self.life
        self._schedule.run_until(self._schedule.now + seconds)
        while self.life == life and self.standing:
            self._schedule.run_until(self._frozen_until)
        if self.life != life:
            raise Killed

    def monotonic(self) -> float:
        return self.machine.monotonic()

    # -- its loop

    def _soon(self, seconds: float) -> None:
        when = max(self._schedule.now + seconds, self._frozen_until)
        if not self.alive or self._busy or (self._next is not None and not self._next.dropped and self._next.when <= when):
            return
        if self._next is not None:
            self._next.dropped = True
        self._next = self._schedule.at(when, self._run, f"{self.name} works")

    def _run(self) -> None:
        """One tick, or a try to lead. Whatever fails is met as leader.py meets it."""
        self._next = None
        if self.standing:
            self._soon(0.0)
            return
        life, self._busy, wait_s, leading = self.life, True, 0.0, self.leading
        before, self._stage.actor = self._stage.actor, self
        try:
            wait_s = self._work()
        except Killed:
            if leading is not None:
                leading.store.close()
            return
        except Deposed:
            self._step_down()
            wait_s = self._rules.elect_s
        except KafkaSilent:
            self._step_down()
            wait_s = self._rules.lost_after_s
        except Restored as error:
            self._above = error.epoch
            self._step_down()
        except (TopicsChanged, PendingMoved, ClockSet):
            self._step_down()
            wait_s = _BACKOFF_S[0]
        except Exception as error:
            if not isinstance(error, JobyardError):
                self.stumbled(error)
            self._step_down()
            wait_s = _BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)]
            self._failures += 1
        finally:
            self._stage.actor = before
            if self.life == life:
                self._busy = False
        self._soon(wait_s)

    def stumbled(self, error: Exception) -> None:
        """A failure that no service is to blame for: in a simulation all data is good, so it is a bug."""
        raise error

    def _work(self) -> float:
        """How long to wait for the next."""
        leading = self.leading
        if leading is None:
            term = self._seize()
            if term is None:
                return self._rules.elect_s
            return 0.0
        self.ticks += 1
        try:
            decided = leading.tick.run(self._rules.tick_most, self._caution.messages)
        except (Deposed, TopicsChanged, KafkaSilent, PendingMoved, ClockSet):
            raise
        except JobyardError:
            self._caution.exhausted(leading.tick.taken)
            raise
        self._caution.succeeded()
        self._failures = 0
        leading.maintenance.committed(leading.tick.offsets)
        self._chores(decided, leading)
        above = leading.lane.outranked_by
        if above is not None and self.monotonic() >= self._believes_at:
            self._believes_at = self.monotonic() + self._rules.restored_every_s
            raise Restored(above)
        if leading.inbox.stirring:
            return 0.0
        return leading.wakefulness.wait_s(leading.lane.next_at(leading.clock.now()))

    def _seize(self) -> Term | None:
        store = SimulatedStore(self._db, f"{self.name}/{self.life}", self, self._number())
        producer: Producer | None = None
        try:
            term = store.seize(self._above)
            if term is None:
                return None
            self.takeovers += 1
            clock = LeaderClock(self.machine, term)
            taken = Takeover(store, self._broker, self._rules, self._topics, self._lane).run(term, clock, restored=self._above > 0)
            self._above = 0
            inbox = Mailbox(2 * self._rules.tick_most)
            producer = Producer(self._schedule, self._chance, self._broker, self.link)
            sender = Sender(producer, self._topics, taken.lane.message)
            maintenance = Maintenance(self._broker, inbox, clock, self._rules, self._topics, taken.ids, self._lane)
            intake, reports = self._topics.intake.name, self._topics.reports.name
            reader = Reader(
                Consumer(self._broker, self.link, lambda: inbox.room),
                self._broker,
                inbox,
                no_text,
                clock,
                self._rules,
                lane=self._lane,
                intake=intake,
                reports=reports,
                ids=taken.ids,
                poison=self._caution.poison,
            )
            sender.send(taken.opening)
            reached(Point.OPENING_SENT, taken.opening)
            reader.assign({name: taken.offsets[name][1] for name in (intake, reports)})
            reader.ask_reports_end()
            store.wake()
            wakefulness = Wakefulness(store, clock, self._rules)
            tick = Tick(taken.lane, store, inbox, reader, sender, wakefulness, Telemetry(self._lane), clock, taken.term, taken.offsets)
            self.leading = Leading(taken.lane, store, inbox, reader, sender, producer, maintenance, wakefulness, tick, clock)
            producer.woken = lambda: self._soon(0.0)
        except BaseException:
            store.close()
            if producer is not None:
                producer.close()
            raise
        self._chores(taken.opening, self.leading)
        self._read_later(0.0)
        self._round_later(self.leading)
        return term

    def _step_down(self) -> None:
        if self.leading is not None:
            self.leading.producer.close()
            self.leading.store.close()
            self.leading = None

    # -- its other threads

    def _comes(self, topic: str, number: int) -> None:
        if self.leading is not None:
            self._read_later(self.link.arrival() - self._schedule.now)

    def _read_later(self, seconds: float) -> None:
        when = self._schedule.now + seconds
        if self._reading is not None and not self._reading.dropped and self._reading.when <= when:
            return
        if self._reading is not None:
            self._reading.dropped = True
        self._reading = self._schedule.at(when, self._read, f"{self.name} reads")

    def _read(self) -> None:
        """One step of the reading thread; the real one asks for ends at least every 0.1 s."""
        self._reading = None
        leading = self.leading
        if leading is None or leading.failed:
            return
        if self.standing:
            self._read_later(self._frozen_until - self._schedule.now)
            return
        try:
            leading.reader.step(0.0)
        except Exception as error:
            leading.failed = True
            leading.inbox.fail(error)
        if leading.inbox.stirring:
            self._soon(0.0)
        if not leading.failed:
            self._read_later(0.1 if leading.inbox.room else 0.002)

    def _chores(self, decided: list[Event], leading: Leading) -> None:
        for event in decided:
            if isinstance(event, BucketsWanted):
                self._schedule.after(self.link.arrival() - self._schedule.now, partial(self._chore, leading, event), "buckets")

    def _round_later(self, leading: Leading) -> None:
        when = self._schedule.now + max(leading.maintenance.round_at - self.monotonic(), 0.0) + 1e-4
        self._schedule.at(when, lambda: self._round(leading), f"{self.name} looks around")

    def _round(self, leading: Leading) -> None:
        if self.standing:
            self._schedule.at(self._frozen_until, lambda: self._round(leading), "looking around waits")
            return
        self._chore(leading, None)
        if self.leading is leading and not leading.failed:
            self._round_later(leading)

    def _chore(self, leading: Leading, wanted: BucketsWanted | None) -> None:
        if self.leading is not leading or leading.failed:
            return
        if self.standing:
            self._schedule.at(self._frozen_until, lambda: self._chore(leading, wanted), "chore waits")
            return
        try:
            leading.maintenance.chore(wanted)
        except Exception as error:
            leading.failed = True
            leading.inbox.fail(error)
        if leading.inbox.stirring:
            self._soon(0.0)
