"""One process of an agent: the real core, turn by turn as agent/turn.py has it, over simulated reading, reports and handlers."""

from collections.abc import Callable
from random import Random
from typing import Final

from jobyard.agent.core.actions import Assign, Leave, Reread, Say, Start, Stop
from jobyard.agent.core.agent import Agent
from jobyard.agent.core.held import Held
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import ControlMessage
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import End, Heartbeat, Hello, Progress, Started
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.simulation.broker import Broker
from jobyard.coordinator.simulation.clocks import Machine
from jobyard.coordinator.simulation.handlers import Handlers
from jobyard.coordinator.simulation.jobs import Script
from jobyard.coordinator.simulation.ledger import Ledger
from jobyard.coordinator.simulation.link import Link
from jobyard.coordinator.simulation.outbox import Outbox
from jobyard.coordinator.simulation.reading import Reading
from jobyard.coordinator.simulation.schedule import Entry, Schedule
from jobyard.process.lease_clock import LeaseClock

POINTS: Final = ("bundle read", "decided", "said")
"""Where a process may be killed inside a turn: C10, C11, C13, C15 and C18 lie there."""
SOON_S: Final = 0.0005


class Worker:
    """`process`: this life's number. `killed_at`: the point of its next turn at which it dies. `left`: how it ended in order; None: it has not.

    `saw`: told of what each turn has read, before the core hears of it (I8).
    """

    def __init__(
        self,
        *,
        schedule: Schedule,
        chance: Random,
        broker: Broker,
        link: Link,
        machine: Machine,
        topics: LaneTopics,
        ledger: Ledger,
        scripts: Callable[[str], Script],
        rules: Rules,
        name: str,
        process: int,
        kinds: dict[str, int],
        capacity: float,
        slots: int,
        over: Callable[["Worker"], None],
        saw: Callable[["Worker", list[BundleMessage]], None],
    ) -> None:
        self.name = name
        self.process = process
        self.kinds = kinds
        self.link = link
        self.machine = machine
        self.alive = True
        self.left: Leave | None = None
        self.killed_at = ""
        self.rereads = 0
        self._schedule = schedule
        self._broker = broker
        self._rules = rules
        self._over = over
        self._saw = saw
        self.core = Agent(name=name, kinds=kinds, capacity=capacity, slots=slots, fresh=lambda: _uuid(chance), host=name, rules=rules)
        self.clock = LeaseClock(machine.monotonic, machine.wall)
        self.outbox = Outbox(schedule, chance, broker, link, topics.reports.name, name, self._acknowledged)
        self.handlers = Handlers(schedule, self.clock, self, ledger, scripts, process)
        self._reading = Reading(broker, topics.control.name, topics.buckets.name, name)
        self._frozen_until = 0.0
        self._turn: Entry | None = None
        self._look_at = schedule.now + rules.topics_every_s
        # what came in since the last turn
        self._acks: list[Say] = []
        self._begun: list[tuple[Held, float, Instant, float | None]] = []
        self._ended: list[tuple[Held, End]] = []
        self._declined: list[Held] = []
        self._signals: list[float] = []
        self._reading.find_control()
        for key in self._reading.keys:
            broker.watch(*key, self._comes, name)
        self._wake(schedule.now)

    # -- what is done to it

    def pause(self, seconds: float, *, frozen: bool = False) -> None:
        """The process stands still. `frozen`: its machine does, so that its monotonic clock stands, and its wall clock is ahead of that afterwards."""
        now = self._schedule.now
        if now >= self._frozen_until:
            self.handlers.frozen_at = now
        self._frozen_until = max(self._frozen_until, now + seconds)
        self.handlers.frozen_until = self.outbox.frozen_until = self._frozen_until
        if frozen:
            self._schedule.at(now + seconds, lambda: self._thaw(seconds), "machine goes on")

    def kill(self) -> None:
        """Its end, without a word."""
        if not self.alive:
            return
        self.alive = False
        if self._turn is not None:
            self._turn.dropped = True
        for key in self._reading.keys:
            self._broker.unwatch(*key, self._comes, self.name)
        self.outbox.die()
        self.handlers.close()
        self._over(self)

    def terminate(self, grace_s: float) -> None:
        """SIGTERM."""
        self._signals.append(grace_s)
        self._wake(self._schedule.now + SOON_S)

    @property
    def standing(self) -> bool:
        """It stands still."""
        return self._schedule.now < self._frozen_until

    # -- what executors tell (Facts)

    def begun(self, held: Held, now: float, at: Instant, deadline: float | None) -> None:
        self._begun.append((held, now, at, deadline))
        if deadline is not None:
            self._wake(self._schedule.now + SOON_S)

    def ended(self, ended: list[tuple[Held, End]]) -> None:
        self._ended += ended
        self._wake(self._schedule.now + SOON_S)

    def declined(self, held: Held) -> None:
        self._declined.append(held)
        self._wake(self._schedule.now + SOON_S)

    def progressed(self, held: Held, done: float, total: float | None, message: str) -> None:
        self.core.progressed(held, done, total, message)

    # -- the turn

    def _comes(self, topic: str, number: int) -> None:
        self._reading.stir(topic, number)
        if self._turn is None or self._turn.when > self._schedule.now + 0.01:
            self._wake(self.link.arrival())

    def _wake(self, when: float) -> None:
        when = max(when, self._frozen_until)
        if not self.alive or (self._turn is not None and self._turn.when <= when):
            return
        if self._turn is not None:
            self._turn.dropped = True
        self._turn = self._schedule.at(when, self._run, f"turn of {self.name}")

    def _run(self) -> None:
        self._turn = None
        if self.standing:
            self._wake(self._frozen_until)
            return
        bundles: list[BundleMessage] = []
        control: list[ControlMessage] = []
        more = False
        if self.link.open and self._broker.up:
            if self._schedule.now >= self._look_at:
                self._look_at = self._schedule.now + self._rules.topics_every_s
                self._reading.look()
            more = self._reading.read(control, bundles)
        if self._dies("bundle read"):
            return
        self._hear(control, bundles)
        now = self.clock.now()
        actions = self.core.decide(now, self.clock.wall(), self.outbox.settled, now - self.clock.ran())
        if self._dies("decided"):
            return
        says: list[Say] = []
        for action in actions:
            if isinstance(action, Say):
                says.append(action)
            elif isinstance(action, Start):
                self.outbox.say(says)
                says = []
                self.handlers.start(action.held)
            elif isinstance(action, Stop):
                self.handlers.stop(action.held, action.why)
            elif isinstance(action, Assign):
                added, dropped = self._reading.assign(action.buckets)
                for key in dropped:
                    self._broker.unwatch(*key, self._comes, self.name)
                for key in added:
                    self._broker.watch(*key, self._comes, self.name)
                    self._reading.stir(*key)
                more = more or bool(added)
            elif isinstance(action, Reread):
                self.rereads += 1
            elif isinstance(action, Leave):
                self.left = action
        self.outbox.say(says)
        if self._dies("said"):
            return
        if self.left is not None:
            self.kill()
            return
        due = self.core.next_due(now) - now
        if more or self._ended or self._declined or self._acks:
            due = min(due, SOON_S)
        elif not (self.link.open and self._broker.up):
            due = min(due, 0.25)
        self._wake(self._schedule.now + max(due, SOON_S))

    def _hear(self, control: list[ControlMessage], bundles: list[BundleMessage]) -> None:
        now, at = self.clock.now(), self.clock.wall()
        acks, self._acks = self._acks, []
        begun, self._begun = self._begun, []
        ended, self._ended = self._ended, []
        declined, self._declined = self._declined, []
        signals, self._signals = self._signals, []
        core = self.core
        if acks:
            core.acknowledged(acks, now)
        for message in control:
            core.hear_control(message, now, at)
        if bundles:
            self._saw(self, bundles)
            for bundle in bundles:
                core.hear_bundle(bundle, now, at)
        if ended:
            core.ended(ended, now)
        for held in declined:
            core.declined(held, now, at)
        for held, began, began_at, deadline in begun:
            core.begun(held, began, began_at, deadline)
        for grace_s in signals:
            core.terminate(now, grace_s)

    def _acknowledged(self, says: list[Say]) -> None:
        told = [say for say in says if isinstance(say.report, (Hello, Heartbeat, Started, Progress))]  # of others nothing follows
        if told:
            self._acks += told
            self._wake(self._schedule.now + SOON_S)

    def _dies(self, point: str) -> bool:
        if self.killed_at == point:
            self.kill()
        return not self.alive

    def _thaw(self, seconds: float) -> None:
        self.machine.stood += seconds


def _uuid(chance: Random) -> str:
    digits = f"{chance.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
