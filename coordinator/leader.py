"""One lane's leader: takes the epoch, takes over, ticks, and steps down at the first failure, to take over anew or to leave the lane to another (L3)."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from jobyard.contracts.errors import JobyardError, ServiceUnavailable
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.core.events import BucketsWanted
from jobyard.coordinator.inbox import Inbox
from jobyard.coordinator.listener import Listener
from jobyard.coordinator.maintenance import KafkaSilent, Maintenance
from jobyard.coordinator.reader import Reader, TopicsChanged
from jobyard.coordinator.seams import Bus, Clock, Deposed, LaneStore, Notices, Prepare, Source, Term, TopicAdmin
from jobyard.coordinator.sender import Sender
from jobyard.coordinator.takeover import Taken, Takeover
from jobyard.coordinator.telemetry import Telemetry
from jobyard.coordinator.tick import Tick
from jobyard.coordinator.wakefulness import Wakefulness

_log = logging.getLogger(__name__)

_FLUSH_S = 5.0
"""How long an orderly end waits for messages on their way; what is left the next leader sends again."""
_BACKOFF_S = (0.1, 0.3, 1.0, 2.0)
"""Waits after failures in a row: short, since a lease of 4 s is running out meanwhile."""
_WHOLE_AGAIN = 64
"""After halving (L18) the number of messages a tick doubles with each success; from this many on it is unbounded again."""


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


class Caution:
    """How many messages a tick may take after one has failed for its data, and which are to be quarantined (L18)."""

    def __init__(self) -> None:
        self.messages: int | None = None
        self.poison: set[tuple[str, int]] = set()

    def failed(self, taken: list[tuple[str, int]]) -> None:
        """A tick with these messages failed for its data: half as many next; a single one is guilty."""
        if len(taken) == 1:
            self.poison.update(taken)
        self.messages = max(1, len(taken) // 2)

    def succeeded(self) -> None:
        """A tick went through: dare twice as many."""
        if self.messages is not None:
            self.messages = None if self.messages >= _WHOLE_AGAIN else self.messages * 2


class Leader:
    """The thread that leads one lane for as long as it can; started when the lane seems to be free."""

    def __init__(self, lane: str, world: World, rules: Rules, topics: LaneTopics) -> None:
        self.lane = lane
        self._world = world
        self._rules = rules
        self._topics = topics
        self._stop = threading.Event()
        self._caution = Caution()
        self._at_least = 0
        self._thread = threading.Thread(target=self._run, name=f"leader-{lane}", daemon=True)

    def start(self) -> None:
        """Begin to lead, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End after the tick at hand, in order: messages flushed, lease released."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        """It leads or tries to."""
        return self._thread.is_alive()

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            store = self._world.store()
            try:
                term = store.seize(self._at_least)
                if term is None:
                    return
                self._lead(store, term)
                failures = 0
            except Deposed:
                _log.warning("lane %s is led by another coordinator now", self.lane)
                return
            except KafkaSilent as error:
                _log.error("gives up lane %s: Kafka does not answer: %s", self.lane, error)
                self._stop.wait(self._rules.lost_after_s)
                return
            except TopicsChanged as error:
                _log.warning("takes lane %s over again: %s", self.lane, error)
                self._stop.wait(_BACKOFF_S[0])
            except Exception as error:
                self._log_failure(error)
                self._stop.wait(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
                failures += 1
            finally:
                store.close()

    def _log_failure(self, error: Exception) -> None:
        if isinstance(error, ServiceUnavailable):
            _log.warning("leadership of lane %s failed, takes over again: %s", self.lane, error)
        else:
            _log.error("leadership of lane %s failed, takes over again", self.lane, exc_info=error)

    def _lead(self, store: LaneStore, term: Term) -> None:
        """One leadership, from a taken epoch to an orderly end (returns) or a failure (raises)."""
        clock = self._world.clock(term)
        taken = Takeover(store, self._world.admin, self._rules, self._topics, self.lane).run(term, clock)
        inbox = Inbox(2 * self._rules.tick_most)
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
        listener = Listener(self._world.notices(), inbox, self.lane)
        maintenance = Maintenance(self._world.admin, inbox, clock, self._rules, self._topics, taken.ids, self.lane)
        sender = Sender(self._world.bus(), self._topics, taken.lane.message)
        try:
            sender.send(taken.opening)
            for event in taken.opening:
                if isinstance(event, BucketsWanted):
                    maintenance.want(event)
            reader.start({name: taken.offsets[name][1] for name in (self._topics.intake.name, self._topics.reports.name)})
            reader.ask_reports_end()
            listener.start()
            maintenance.start()
            self._tick(taken, store, inbox, reader, sender, maintenance, clock)
            sender.flush(_FLUSH_S)
            store.release(term)
        except KafkaSilent:
            store.release(term)
            raise
        finally:
            inbox.close()
            listener.stop()
            maintenance.stop()
            reader.stop()
            sender.close()

    def _tick(
        self, taken: Taken, store: LaneStore, inbox: Inbox, reader: Reader, sender: Sender, maintenance: Maintenance, clock: Clock
    ) -> None:
        store.wake()
        wakefulness = Wakefulness(store, clock, self._rules)
        telemetry = Telemetry(self.lane)
        tick = Tick(taken.lane, store, inbox, reader, sender, wakefulness, telemetry, clock, taken.term, taken.offsets)
        while not self._stop.is_set():
            try:
                decided = tick.run(self._rules.tick_most, self._caution.messages)
            except (Deposed, JobyardError, TopicsChanged, KafkaSilent):
                raise
            except Exception:
                # Refused data, or a decision that stumbled over it: the same messages would fail again (L18).
                self._caution.failed(tick.taken)
                raise
            self._caution.succeeded()
            maintenance.committed(tick.offsets)
            for event in decided:
                if isinstance(event, BucketsWanted):
                    maintenance.want(event)
            if taken.lane.outranked_by is not None:
                self._at_least = taken.lane.outranked_by
                raise TopicsChanged(f"an agent knows epoch {self._at_least}: the Master DB was restored from a backup")
