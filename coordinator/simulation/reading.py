"""What an agent reads: its place in each partition, and what becomes of it when the topic is made anew or records are gone (A1)."""

from typing import Final

from jobyard.contracts import codec
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Bucket, ControlMessage
from jobyard.coordinator.simulation.broker import Broker

MOST: Final = 500


class _Place:
    """`seen`: from this offset on all up to `next` were read since the topic's id was last looked at; in a topic made anew they are not read a second
    time (`skip`)."""

    __slots__ = ("next", "seen", "skip", "topic_id")

    def __init__(self, topic_id: str, offset: int) -> None:
        self.topic_id = topic_id
        self.next = self.seen = offset
        self.skip = range(0)


class Reading:
    """Places by topic and partition. Topics' ids are looked at when a place is out of range, and when `look` is called. `name`: of the agent."""

    def __init__(self, broker: Broker, control: str, buckets: str, name: str) -> None:
        self._broker = broker
        self._name = name
        self._control = control
        self._buckets = buckets
        self._places: dict[tuple[str, int], _Place] = {}
        self._stirred: dict[tuple[str, int], None] = {}

    def find_control(self) -> None:
        """From the end of control, before the first hello (A10)."""
        topic = self._broker.topics[self._control]
        self._places[self._control, 0] = _Place(topic.id, topic.partitions[0].end)

    def assign(self, buckets: list[Bucket]) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """These and no others; which were added, which dropped."""
        wanted = {(self._buckets, bucket.partition): bucket for bucket in buckets}
        dropped = [key for key in self._places if key[0] == self._buckets and key not in wanted]
        for key in dropped:
            del self._places[key]
        added: list[tuple[str, int]] = []
        for key, bucket in wanted.items():
            place = self._places.get(key)
            if place is None:
                self._places[key] = _Place(bucket.topic_id, bucket.start_offset)
                added.append(key)
            elif place.topic_id != bucket.topic_id:
                self._anew(place, bucket.topic_id)
                self.stir(*key)
        return added, dropped

    def stir(self, topic: str, number: int) -> None:
        """There is, or may be, something to be read."""
        self._stirred[topic, number] = None

    def look(self) -> None:
        """Ask for the topics' ids."""
        for (name, number), place in self._places.items():
            found = self._broker.topics[name].id
            if found != place.topic_id:
                self._anew(place, found)
                self.stir(name, number)
            else:
                place.seen = place.next

    def read(self, control: list[ControlMessage], bundles: list[BundleMessage]) -> bool:
        """What has come. Whether more is there."""
        left = MOST
        stirred, self._stirred = self._stirred, {}
        for name, number in stirred:
            place = self._places.get((name, number))
            if place is None:
                continue
            partition = self._broker.partition(name, number)
            if partition is None:
                continue
            if not partition.first <= place.next <= partition.end:
                found = self._broker.topics[name].id
                if found != place.topic_id:
                    self._anew(place, found)
                else:
                    place.next = partition.first if place.next < partition.first else partition.end
                    place.seen = place.next
            if self._broker.sparing and name == self._control:
                mine = [offset for offset in self._broker.addressed(self._name, place.next) if offset not in place.skip]
                control += [codec.decode_control(partition.record(offset)[0]) for offset in mine]
                place.next = partition.end
                continue
            while place.next < partition.end and left:
                offset = place.next
                place.next += 1
                if offset in place.skip:
                    continue
                value, _ = partition.record(offset)
                left -= 1
                if name == self._control:
                    control.append(codec.decode_control(value))
                else:
                    bundles.append(codec.decode_bundle(value))
            if place.next < partition.end:
                self.stir(name, number)
        return left == 0

    @property
    def keys(self) -> list[tuple[str, int]]:
        """All that is read."""
        return list(self._places)

    @staticmethod
    def _anew(place: _Place, topic_id: str) -> None:
        place.skip = range(place.seen, place.next)
        place.topic_id, place.next, place.seen = topic_id, 0, 0
