"""One agent process: the real core of the agent, with simulated reading, sending and handlers."""

from typing import TYPE_CHECKING

from jobyard.agent.core.actions import Assign, Leave, Say, Start, Stop
from jobyard.agent.core.agent import Agent
from jobyard.agent.core.held import Held
from jobyard.contracts import codec
from jobyard.contracts.reports import End, Error, Reports
from jobyard.contracts.states import Outcome
from jobyard.coordinator.simulation.kafka import Told
from jobyard.coordinator.simulation.plan import PlannedAgent

if TYPE_CHECKING:
    from jobyard.coordinator.simulation.world import World

HOP_S = 0.002
_IDLE_S = 1.0
_BEGUN_S = 0.4
"""Handlers that take longer are told to the core as begun, as executors do."""


class Node:
    """`paused_until`: it does nothing; `cut_until`: its messages wait. `over`: the process has ended. Its clock counts from its own start on."""

    def __init__(self, world: "World", planned: PlannedAgent, number: int) -> None:
        self.world = world
        self.planned = planned
        self.name = planned.name
        self.over = False
        self.paused_until = 0.0
        self.cut_until = 0.0
        self.wall_offset = 0.0
        self._started = world.now - 1_000.0 * (number % 7)
        self._lives = 0
        self._number = number
        self.core = Agent(
            name=self.name,
            kinds={"tiny": 1, "short": 1, "long": 1},
            capacity=planned.capacity,
            slots=planned.slots,
            fresh=self._fresh,
            rules=world.rules,
        )
        self._control = (world.kafka.topic_id("control"), world.kafka.end("control", 0))
        self._buckets: dict[int, tuple[str, int]] = {}
        self._seq = 0
        self._unsaid: list[tuple[int, list[Say]]] = []
        self._sent = 0
        self._acked: list[Say] = []
        self._ended: list[tuple[Held, End]] = []
        self._declined: list[Held] = []
        self._wakes_at = float("inf")
        self.running: dict[str, Held] = {}
        self.busy_s = 0.0
        self.wake()

    # -- clocks

    @property
    def clock(self) -> float:
        """Its own, which counts sleep, too."""
        return self.world.now - self._started

    @property
    def wall(self) -> float:
        """What it takes the time of day for."""
        return self.world.now + self.wall_offset

    # -- turns

    def wake(self, after: float = 0.0) -> None:
        """There is something to do, soon."""
        at = max(self.world.now + after, self.paused_until)
        if at < self._wakes_at and not self.over:
            self._wakes_at = at
            self.world.at(at, self._turn)

    def _turn(self) -> None:
        world = self.world
        if self.over or world.now < self._wakes_at:
            return
        self._wakes_at = float("inf")
        if world.now < self.paused_until:
            self.wake()
            return
        now, core = self.clock, self.core
        if world.now >= self.cut_until:
            self._read(now)
        if self._acked:
            acked, self._acked = self._acked, []
            core.acknowledged(acked, now)
        if self._ended:
            ended, self._ended = self._ended, []
            core.ended(ended, now)
        declined, self._declined = self._declined, []
        for held in declined:
            core.declined(held, now, self.wall)
        self._do(now)
        if not self.over:
            self.wake(min(max(core.next_due(now) - now, 0.001), _IDLE_S))

    def _read(self, now: float) -> None:
        kafka = self.world.kafka
        topic_id, offset = self._control
        if topic_id != kafka.topic_id("control"):
            topic_id, offset = kafka.topic_id("control"), 0
        for message in kafka.read("control", 0, offset):
            offset += 1
            if isinstance(message, Told) and message.agent == self.name:
                self.core.hear_control(codec.decode_control(message.raw), now, self.wall)
        self._control = (topic_id, max(offset, kafka.begin("control", 0)))
        for partition in list(self._buckets):
            topic_id, offset = self._buckets[partition]
            if topic_id != kafka.topic_id("buckets"):
                topic_id, offset = kafka.topic_id("buckets"), 0
            for message in kafka.read("buckets", partition, offset):
                offset += 1
                if isinstance(message, bytes):
                    self.core.hear_bundle(codec.decode_bundle(message), now, self.wall)
            if partition in self._buckets:
                self._buckets[partition] = (topic_id, max(offset, kafka.begin("buckets", partition)))

    def _do(self, now: float) -> None:
        says: list[Say] = []
        for action in self.core.decide(now, self.wall, not self._unsaid and not self._acked, 0.0):
            if isinstance(action, Say):
                says.append(action)
            elif isinstance(action, Start):
                self._say(says)
                says = []
                for held in action.held:
                    self._start(held, now)
            elif isinstance(action, Stop):
                self._stop(action)
            elif isinstance(action, Assign):
                wanted = {bucket.partition: bucket for bucket in action.buckets}
                self._buckets = {
                    part: self._buckets[part]
                    if part in self._buckets and self._buckets[part][0] == bucket.topic_id
                    else (bucket.topic_id, bucket.start_offset)
                    for part, bucket in wanted.items()
                }
                self.world.reads(self, list(self._buckets))
            elif isinstance(action, Leave):
                self.over = True
        self._say(says)

    # -- reports

    def _say(self, says: list[Say]) -> None:
        if not says:
            return
        self._seq += 1
        self._unsaid.append((self._seq, says))
        self._send_next()

    def _send_next(self) -> None:
        """All that was said, in order; the broker has it a hop later, and its acknowledgement comes another hop later."""
        if self.world.now < self.cut_until:
            self.world.at(self.cut_until, self._send_next)
            return
        for number, says in self._unsaid:
            if number <= self._sent:
                continue
            self._sent = number
            self.world.at(self.world.now + HOP_S, lambda says=says: self._arrived(says))  # type: ignore[misc]  # bound here

    def _arrived(self, says: list[Say]) -> None:
        world = self.world
        by_life: list[tuple[str, list[Say]]] = []
        for say in says:
            if by_life and by_life[-1][0] == say.incarnation:
                by_life[-1][1].append(say)
            else:
                by_life.append((say.incarnation, [say]))
        for incarnation, some in by_life:
            self._lives += 1
            message = Reports(v=1, agent=self.name, incarnation=incarnation, seq=self._lives, reports=[say.report for say in some])
            world.kafka.append("reports", 0, message)
        world.reported()
        world.at(world.now + HOP_S, lambda: self._acknowledged(says))

    def _acknowledged(self, says: list[Say]) -> None:
        if self.over:
            return
        self._unsaid = [(number, unsaid) for number, unsaid in self._unsaid if unsaid is not says]
        self._acked += says
        self.wake()

    # -- handlers

    def _start(self, held: Held, now: float) -> None:
        if not held.life.lease.holds(now):
            self._declined.append(held)
            self.wake(0.001)
            return
        world = self.world
        job = world.planned[held.job.id]
        world.checks.started(self, held)
        self.running[held.job.id] = held
        began_at = self.wall
        if job.took_s > _BEGUN_S:
            self.core.begun(held, now, began_at, None)
        world.at(world.now + job.took_s, lambda: self._finish(held, began_at, job.took_s))

    def _finish(self, held: Held, began_at: float, took_s: float) -> None:
        if self.over or self.running.get(held.job.id) is not held:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, lambda: self._finish(held, began_at, took_s))
            return
        job = self.world.planned[held.job.id]
        fails = self.world.checks.attempts_of(held.job.id) <= job.fails
        self._end(held, Outcome.FAILED if fails else Outcome.SUCCEEDED, began_at, took_s)

    def _end(self, held: Held, outcome: Outcome, began_at: float, took_s: float) -> None:
        del self.running[held.job.id]
        self.world.checks.stopped(self, held)
        self.busy_s += took_s
        error = None if outcome is Outcome.SUCCEEDED else Error("Planned", "it was planned to fail", "")
        end = End(held.job.id, held.attempt, outcome, min(began_at, self.wall), self.wall, error=error, delay_s=0.05 if error else None)
        self._ended.append((held, end))
        self.wake()

    def _stop(self, action: Stop) -> None:
        held = action.held
        if self.running.get(held.job.id) is held:
            outcome = Outcome.CANCELLED if action.why in ("cancelled", "closed") else Outcome.INTERRUPTED
            self._end(held, outcome, self.wall, 0.0)

    # -- faults

    def kill(self) -> None:
        """kill -9: what ran there is gone, and nobody says so."""
        self.over = True
        self.world.checks.died(self)
        self.running.clear()

    def leave(self) -> None:
        """SIGTERM."""
        self.core.terminate(self.clock, 0.5)
        self.wake()

    def pause(self, until: float) -> None:
        """SIGSTOP until then."""
        self.paused_until = max(self.paused_until, until)
        self._wakes_at = float("inf")
        self.wake()

    def cut(self, until: float) -> None:
        """Nothing goes out or comes in until then."""
        self.cut_until = max(self.cut_until, until)

    def _fresh(self) -> str:
        self.world.incarnations += 1
        return f"00000000-0000-4000-8000-{self.world.incarnations:012x}"
