"""Events → messages, looked up as they leave (L5). What could not be delivered is looked up and sent again, under the same fence."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from jobyard.contracts import codec
from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.core import events
from jobyard.coordinator.core.dispatch import Outgoing
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.seams import Bus
from jobyard.kafka.failures import KafkaFailure
from jobyard.process.points import Point, reached

_log = logging.getLogger(__name__)

SENT: Final = (
    events.Placed,
    events.Resent,
    events.AgentJoined,
    events.Welcomed,
    events.Confirmed,
    events.FencedOff,
    events.CancelSent,
    events.DrainSent,
)
"""Events of which somebody is told by Kafka; all others are for the Master DB alone."""

Lookup = Callable[[Event], Outgoing | None]


class Sender:
    """Sends what a committed tick decided. All its methods belong to the tick thread; delivery callbacks run inside `poll`, there too."""

    def __init__(self, bus: Bus, topics: LaneTopics, lookup: Lookup) -> None:
        self._bus = bus
        self._topics = topics
        self._lookup = lookup
        self._again: list[Event] = []

    def send(self, decided: Iterable[Event]) -> int:
        """Hand over what these events, and earlier ones that failed, mean in the state of the last commit. How many messages that were.

        Raises ServiceUnavailable or another JobyardError when the producer takes nothing: the leader takes over again.
        """
        count = 0
        self._bus.poll()
        fatal = self._bus.fatal()
        if fatal is not None:
            raise ServiceUnavailable(f"the producer can do nothing more: {fatal}")
        again, self._again = self._again, []
        for event in again:
            count += self._send(events.Resent(event.bundle.fence) if isinstance(event, events.Placed) else event)
        for event in decided:
            if isinstance(event, SENT):
                count += self._send(event)
        if count:
            self._bus.poll()
        return count

    @property
    def owing(self) -> bool:
        """Something could not be delivered and is to be sent again."""
        return bool(self._again)

    def flush(self, timeout_s: float) -> int:
        """Wait for deliveries before an orderly end; how many are open."""
        return self._bus.flush(timeout_s)

    def close(self) -> None:
        """Give up what was not delivered: the next leadership sends it again."""
        self._bus.close()

    def _send(self, event: Event) -> int:
        outgoing = self._lookup(event)
        if outgoing is None:
            return 0
        topic = self._topics.buckets.name if outgoing.where == "buckets" else self._topics.control.name

        def told(failure: KafkaFailure | None) -> None:
            if failure is not None:
                _log.warning("not delivered to %s[%d], sent again: %s", topic, outgoing.partition, failure.message)
                self._again.append(event)
                reached(Point.DELIVERY_FAILED, event)

        reached(Point.MESSAGE_MADE, event)
        self._bus.produce(topic, codec.encode(outgoing.body), outgoing.key, outgoing.partition, told)
        reached(Point.MESSAGE_PRODUCED, event)
        return 1
