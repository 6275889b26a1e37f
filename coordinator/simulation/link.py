"""One process's way to Kafka: how long a message takes, and for how long there is none."""

from random import Random
from typing import Final

from jobyard.coordinator.simulation.schedule import Schedule

HOP_S: Final = 0.002


class Link:
    """`cut_until`: nothing goes through before. `slow_until`: until then a message takes up to `slow_s`."""

    def __init__(self, schedule: Schedule, chance: Random, hop_s: float = HOP_S) -> None:
        self._schedule = schedule
        self._chance = chance
        self._hop_s = hop_s
        self.cut_until = 0.0
        self.slow_until = 0.0
        self.slow_s = 0.0

    @property
    def open(self) -> bool:
        """Whether anything goes through now."""
        return self._schedule.now >= self.cut_until

    def arrival(self) -> float:
        """When a message that is sent now comes through, as things are."""
        now = self._schedule.now
        took = self._hop_s * (0.5 + self._chance.random())
        if now < self.slow_until:
            took += self.slow_s * self._chance.random()
        return max(now, self.cut_until) + took
