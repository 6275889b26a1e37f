"""One lane's leader: takes the epoch, takes over, ticks, and steps down at the first failure, to take over anew or to leave the lane to another (L3)."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from jobyard.contracts.errors import JobyardError, ServiceUnavailable
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.caution import Caution
from jobyard.coordinator.core.events import BucketsWanted, Event
from jobyard.coordinator.inbox import Inbox
from jobyard.coordinator.listener import Listener
from jobyard.coordinator.maintenance import Maintenance
from jobyard.coordinator.meters import Meters
from jobyard.coordinator.reader import Reader
from jobyard.coordinator.seams import (
    Bus,
    Clock,
    ClockSet,
    Deposed,
    KafkaSilent,
    LaneStore,
    Notices,
    PendingMoved,
    Prepare,
    Restored,
    Source,
    Term,
    TopicAdmin,
    TopicsChanged,
)
from jobyard.coordinator.sender import Sender
from jobyard.coordinator.takeover import Taken, Takeover
from jobyard.coordinator.telemetry import Telemetry
from jobyard.coordinator.tick import Tick
from jobyard.coordinator.wakefulness import Wakefulness
from jobyard.process.points import Point, reached

_log = logging.getLogger(__name__)

_FLUSH_S = 5.0
"""How long an orderly end waits for messages on their way; what is left the next leader sends again."""
_ASK_AGAIN_S = 0.02
"""How often a lane that is to be handed over is asked for."""
_BACKOFF_S = (0.1, 0.3, 1.0, 2.0)
"""Waits after failures in a row: short, since a lease of 4 s is running out meanwhile."""
_UNABLE = 2
"""So many failures in a row are no accident."""
_STEADY_S = 3.0
"""A leadership that the services fail sooner than this has failed in a row with the one before, though small ticks went through: a full disk has room
for some."""


@dataclass(frozen=True, slots=True)
class World:
    """What a leadership is built of: makers of adapters, called anew for each one. Made in main.py."""

    store: Callable[[], LaneStore]
    source: Callable[[], Source]
    bus: Callable[[], Bus]
    notices: Callable[[], Notices]
    clock: Callable[[Term], Clock]
    admin: TopicAdmin
    prepare: Prepare
    meters: Meters | None = None


class Leader:
    """The thread that leads one lane for as long as it can; started when the lane seems to be free.

    `make_topics`: makes and checks the lane's topics; called before each take-over.
    """

    def __init__(self, lane: str, world: World, rules: Rules, topics: LaneTopics, make_topics: Callable[[], object]) -> None:
        self.lane = lane
        self._world = world
        self._rules = rules
        self._topics = topics
        self._stop = threading.Event()
        self._make_topics = make_topics
        self._caution = Caution()
        self._above = 0
        self._believes_at = 0.0
        self._failures = 0
        self._steady_at = 0.0
        self._patient_until = 0.0
        self._gave_up = False
        self._thread = threading.Thread(target=self._run, name=f"leader-{lane}", daemon=True)

    def start(self, patience_s: float = 0.0) -> None:
        """Begin to lead, in a thread. `patience_s`: how long to wait for a lane that another still leads, and is to hand over."""
        self._patient_until = time.monotonic() + patience_s
        self._thread.start()

    def stop(self) -> None:
        """End after the tick at hand, in order: messages flushed, lease released."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def unable(self) -> bool:
        """It fails again and again, or has given the lane up, since it could not lead it; another may be able to (L24)."""
        return self._gave_up or self._failures >= _UNABLE

    @property
    def alive(self) -> bool:
        """It leads or tries to."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            store = self._world.store()
            try:
                self._make_topics()  # a lane whose topics are wrong is this leader's trouble alone
                term = self._seize(store)
                if term is None:
                    return
                self._lead(store, term)
            except Deposed as error:
                _log.warning("does not lead lane %s any more: %s", self.lane, error)
                return
            except KafkaSilent as error:
                _log.error("gives up lane %s: Kafka does not answer: %s", self.lane, error)
                self._gave_up = True
                self._stop.wait(self._rules.lost_after_s)
                return
            except Restored as error:
                _log.error("takes lane %s over again: %s", self.lane, error)
                self._above = error.epoch
            except (TopicsChanged, PendingMoved, ClockSet) as error:
                _log.warning("takes lane %s over again: %s", self.lane, error)
                self._stop.wait(_BACKOFF_S[0])
            except Exception as error:
                self._failed(error)
            finally:
                store.close()

    def _seize(self, store: LaneStore) -> Term | None:
        """T1. What another is to hand over is asked for again and again, so that the lane pauses for no longer than a take-over takes."""
        while (term := store.seize(self._above)) is None:
            if time.monotonic() >= self._patient_until or self._stop.wait(_ASK_AGAIN_S):
                return None
        return term

    def _failed(self, error: Exception) -> None:
        if isinstance(error, JobyardError):
            _log.warning("leadership of lane %s failed, takes over again: %s", self.lane, error)
        else:
            _log.error("leadership of lane %s failed, takes over again", self.lane, exc_info=error)
        self._stop.wait(_BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)])
        self._failures += 1
        self._steady_at = time.monotonic() + _STEADY_S if isinstance(error, ServiceUnavailable) else 0.0

    def _lead(self, store: LaneStore, term: Term) -> None:
        """One leadership, from a taken epoch to an orderly end (returns) or a failure (raises). Whatever was opened is closed."""
        clock = self._world.clock(term)
        takeover = Takeover(store, self._world.admin, self._rules, self._topics, self.lane)
        taken = takeover.run(term, clock, restored=self._above > 0)
        self._above = 0
        inbox = Inbox(2 * self._rules.tick_most)
        with ExitStack() as stack:
            sender = Sender(self._world.bus(), self._topics, taken.lane.message)
            stack.callback(sender.close)
            maintenance = Maintenance(self._world.admin, inbox, clock, self._rules, self._topics, taken.ids, self.lane)
            stack.callback(maintenance.stop)
            listener = Listener(self._world.notices(), inbox, self.lane)
            stack.callback(listener.stop)
            reader = Reader(
                self._world.source(),
                self._world.admin,
                inbox,
                self._world.prepare,
                clock,
                self._rules,
                lane=self.lane,
                intake=self._topics.intake.name,
                reports=self._topics.reports.name,
                ids=taken.ids,
                poison=self._caution.poison,
            )
            stack.callback(reader.stop)
            stack.callback(inbox.close)  # before the reader is stopped: it may be waiting for room
            sender.send(taken.opening)  # T5, T6
            reached(Point.OPENING_SENT, taken.opening)
            reader.start({name: taken.offsets[name][1] for name in (self._topics.intake.name, self._topics.reports.name)})
            reader.ask_reports_end()  # T7
            listener.start()
            maintenance.start()
            self._chores(taken.opening, maintenance)
            if self._world.meters is not None:
                stack.enter_context(self._world.meters.leading(self.lane))
            try:
                self._tick(taken, store, inbox, reader, sender, maintenance, clock)  # T8
            except KafkaSilent:
                store.release(term)
                raise
            sender.flush(_FLUSH_S)
            store.release(term)

    def _tick(
        self, taken: Taken, store: LaneStore, inbox: Inbox, reader: Reader, sender: Sender, maintenance: Maintenance, clock: Clock
    ) -> None:
        store.wake()
        wakefulness = Wakefulness(store, clock, self._rules)
        telemetry = Telemetry(self.lane, self._world.meters)
        tick = Tick(taken.lane, store, inbox, reader, sender, wakefulness, telemetry, clock, taken.term, taken.offsets)
        while not self._stop.is_set():
            try:
                decided = tick.run(self._rules.tick_most, self._caution.messages)
            except (Deposed, TopicsChanged, KafkaSilent, PendingMoved, ClockSet):
                raise
            except JobyardError:
                self._caution.exhausted(tick.taken)
                raise
            except Exception:
                # Refused data, or a decision that stumbled over it: the same would happen again (L18).
                self._caution.refused(tick.taken)
                raise
            self._caution.succeeded()
            if time.monotonic() >= self._steady_at:
                self._failures = 0
            maintenance.committed(tick.offsets)
            self._chores(decided, maintenance)
            if taken.lane.outranked_by is not None and time.monotonic() >= self._believes_at:
                self._believes_at = time.monotonic() + self._rules.restored_every_s
                raise Restored(taken.lane.outranked_by)

    @staticmethod
    def _chores(decided: list[Event], maintenance: Maintenance) -> None:
        for event in decided:
            if isinstance(event, BucketsWanted):
                maintenance.want(event)
