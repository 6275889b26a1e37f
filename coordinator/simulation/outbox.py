"""An agent's reports on their way: in order, kept until they are acknowledged, sent again by a new producer (A13)."""

from collections.abc import Callable
from random import Random

from jobyard.agent.core.actions import Say
from jobyard.contracts import codec
from jobyard.contracts.reports import Report, Reports
from jobyard.coordinator.simulation.broker import Broker
from jobyard.coordinator.simulation.link import Link
from jobyard.coordinator.simulation.schedule import Entry, Schedule


class _Batch:
    __slots__ = ("data", "entry", "says")

    def __init__(self, data: bytes, says: list[Say]) -> None:
        self.data = data
        self.says = says
        self.entry: Entry | None = None


class Outbox:
    """`told`: gets the reports that the broker has acknowledged. `frozen_until`: the process stands still, so nothing is sent."""

    def __init__(
        self, schedule: Schedule, chance: Random, broker: Broker, link: Link, topic: str, agent: str, told: Callable[[list[Say]], None]
    ) -> None:
        self._schedule = schedule
        self._chance = chance
        self._broker = broker
        self._link = link
        self._topic = topic
        self._agent = agent
        self._told = told
        self._seqs: dict[str, int] = {}
        self._kept: dict[int, _Batch] = {}
        self._number = 0
        self._generation = 0
        self._last = 0.0
        self._dead = False
        self.frozen_until = 0.0

    @property
    def settled(self) -> bool:
        """Whether the broker has acknowledged everything."""
        return not self._kept

    def say(self, says: list[Say]) -> None:
        """One message for each incarnation, in order."""
        first = 0
        for at in range(1, len(says) + 1):
            if at == len(says) or says[at].incarnation != says[first].incarnation:
                self._keep(says[first].incarnation, says[first:at])
                first = at

    def renew(self) -> None:
        """The producer failed for good: a new one sends everything again that is not acknowledged, arrived or not."""
        self._generation += 1
        for number, batch in self._kept.items():
            if batch.entry is not None:
                batch.entry.dropped = True
            self._send(number, batch)

    def die(self) -> None:
        """The process is gone. A first part of what was under way may still arrive."""
        survive = self._chance.randrange(len(self._kept) + 1) if self._kept else 0
        for batch in list(self._kept.values())[survive:]:
            if batch.entry is not None:
                batch.entry.dropped = True
        self._dead = True

    def _keep(self, incarnation: str, says: list[Say]) -> None:
        seq = self._seqs[incarnation] = self._seqs.get(incarnation, 0) + 1
        reports: list[Report] = [say.report for say in says]
        data = codec.encode(Reports(v=codec.VERSION, agent=self._agent, incarnation=incarnation, seq=seq, reports=reports))
        self._number += 1
        batch = self._kept[self._number] = _Batch(data, says)
        self._send(self._number, batch)

    def _send(self, number: int, batch: _Batch) -> None:
        self._last = max(self._last, self._link.arrival(), self.frozen_until)
        generation = self._generation

        def comes() -> None:
            if not self._dead and self._schedule.now < self.frozen_until:
                self._last = max(self._last, self.frozen_until)
                batch.entry = self._schedule.at(self._last, comes, "reports wait")
                return
            if not (self._link.open and self._broker.up):
                if self._dead:
                    return
                self._last = max(self._last, self._link.arrival(), self._broker.down_until)
                batch.entry = self._schedule.at(self._last, comes, "reports wait")
                return
            self._broker.append(self._topic, 0, batch.data)
            batch.entry = None
            self._schedule.at(self._link.arrival(), lambda: self._acknowledged(number, generation), "reports acknowledged")

        batch.entry = self._schedule.at(self._last, comes, f"reports of {self._agent}")

    def _acknowledged(self, number: int, generation: int) -> None:
        if self._dead or generation != self._generation:
            return
        if self._schedule.now < self.frozen_until:
            self._schedule.at(self.frozen_until, lambda: self._acknowledged(number, generation), "acknowledgement waits")
            return
        batch = self._kept.pop(number)
        self._told(batch.says)
