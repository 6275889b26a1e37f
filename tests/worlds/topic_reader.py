"""What lies in a topic, read from beginning to end."""

import json
import time
from dataclasses import dataclass
from typing import Any, Final

from jobyard.kafka.admin import Admin
from jobyard.kafka.consumer import Message, open_consumer

_WITHIN_S: Final = 30.0


@dataclass(frozen=True)
class Lying:
    """One message. `body`: its JSON."""

    partition: int
    offset: int
    body: dict[str, Any]


def read_topic(bootstrap_servers: str, namespace: str, topic: str) -> list[Lying]:
    """All of it that is there now; each partition in its order."""
    admin = Admin(bootstrap_servers, {})
    partitions = range(admin.partitions(topic))
    begins, ends = admin.begin_offsets(topic, partitions), admin.end_offsets(topic, partitions)
    admin.close()
    left = {partition for partition in partitions if begins[partition] < ends[partition]}
    consumer = open_consumer(bootstrap_servers, {}, namespace=namespace)
    consumer.assign((topic, partition, begins[partition]) for partition in left)
    found: list[Lying] = []
    deadline = time.monotonic() + _WITHIN_S
    while left:
        assert time.monotonic() < deadline, f"{topic} can't be read"
        for read in consumer.consume(1000, 0.1):
            assert isinstance(read, Message), read
            if read.offset < ends[read.partition]:
                found.append(Lying(read.partition, read.offset, json.loads(read.value)))
        left = {partition for partition in left if consumer.position(topic, partition) < ends[partition]}
    consumer.close()
    return sorted(found, key=lambda lying: (lying.partition, lying.offset))
