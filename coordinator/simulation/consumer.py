"""A coordinator's consumer (Source): reads on at its offset whatever becomes of the topic, as the real library does."""

from collections.abc import Callable, Iterable, Sequence

from jobyard.coordinator.simulation.broker import Broker
from jobyard.coordinator.simulation.link import Link
from jobyard.kafka.consumer import Message, OutOfRange


class Consumer:
    """`room`: how many messages may be taken now: a full inbox makes the reader wait."""

    def __init__(self, broker: Broker, link: Link, room: Callable[[], int]) -> None:
        self._broker = broker
        self._link = link
        self._room = room
        self._at: dict[str, int] = {}

    def assign(self, partitions: Iterable[tuple[str, int, int]]) -> None:
        self._at = {topic: offset for topic, _, offset in partitions}

    def consume(self, most: int, timeout_s: float = 0.0) -> Sequence[Message | OutOfRange]:
        if not (self._link.open and self._broker.up):
            return []
        found: list[Message | OutOfRange] = []
        most = min(most, self._room())
        for topic, at in self._at.items():
            partition = self._broker.topics[topic].partitions[0]
            if not partition.first <= at <= partition.end:
                found.append(OutOfRange(topic, 0))
                continue
            until = min(partition.end, at + most - len(found))
            for offset in range(at, until):
                value, appended = partition.record(offset)
                found.append(Message(topic, 0, offset, None, value, appended))
            self._at[topic] = max(at, until)
        return found

    def position(self, topic: str, partition: int) -> int:
        return self._at[topic]

    def close(self) -> None:
        self._at = {}
