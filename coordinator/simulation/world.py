"""A world: one clock, one order of events, one source of chance. Made from a plan, run to its end; the same plan gives the same history."""

import hashlib
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from jobyard.contracts.job import Job, NewJob
from jobyard.contracts.priority import NAMES
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import FINAL
from jobyard.coordinator.simulation.checks import Broken, Checks
from jobyard.coordinator.simulation.kafka import Kafka, Submitted
from jobyard.coordinator.simulation.leader import Leader, Steps
from jobyard.coordinator.simulation.node import HOP_S, Node
from jobyard.coordinator.simulation.plan import Fault, Plan, PlannedAgent, PlannedJob
from jobyard.testing.memory_tables import MemoryLane

_PATIENCE_S = 300.0
"""Simulated time after the last fault within which everything must have ended."""
_BACK_S = 0.5


@dataclass(slots=True)
class _Process:
    """A leader's process: its generator, and until when it stands still. `armed`: faults by the point where they strike."""

    leader: Leader
    steps: Steps
    paused_until: float = 0.0
    armed: dict[str, Fault] = field(default_factory=dict[str, Fault])
    over: bool = False
    waits: int = 0


class World:
    """`laws`: whether the costly check is made now and then: what a take-over would know. `zero`: the instant of its beginning."""

    def __init__(self, plan: Plan, *, laws: bool = True) -> None:
        self.plan = plan
        self.laws = laws
        self.rng = random.Random(plan.seed)
        self.zero = self.now = 1_000_000.0
        self.rules = Rules(
            lost_after_s=plan.lost_after_s,
            unreachable_after_s=min(2.0, plan.lost_after_s / 2),
            read_ahead=5_000_000,
            read_ahead_bytes=1 << 40,
        )
        self.kafka = Kafka()
        self.tables = MemoryLane(lambda: self.now)
        self.planned: dict[str, PlannedJob] = {job.id: job for job in plan.jobs}
        self.checks = Checks(self)
        self.incarnations = 0
        self.core_s = 0.0
        self.client_committed_at = 0.0
        self.steps = 0
        self.faults = 0
        self._order = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._nodes: dict[str, Node] = {}
        self._readers: dict[int, Node] = {}
        self._processes: list[_Process] = []
        self._leaders = 0
        self._born = 0
        self.gone: list[Node] = []
        self._trace = hashlib.sha256()
        for agent in plan.agents:
            self.at(self.zero + agent.at, lambda agent=agent: self._join(agent))  # type: ignore[misc]  # bound here
        for job in plan.jobs:
            self.at(self.zero + job.at, lambda job=job: self._submit(job))  # type: ignore[misc]  # bound here
        for fault in plan.faults:
            self.at(self.zero + fault.at, lambda fault=fault: self._break(fault))  # type: ignore[misc]  # bound here
        for number in range(plan.leaders):
            self.at(self.zero + 0.01 * number, self._lead)

    # -- time

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call it then, after what was to be called at the same moment before."""
        self._order += 1
        heapq.heappush(self._queue, (when, self._order, call))

    def monotonic(self) -> float:
        """The leaders' clock."""
        return self.now - self.zero

    def run(self) -> None:
        """To the end of the plan, and until every job has ended. Raises Broken at the first invariant that doesn't hold."""
        ends = self.zero + self.plan.ends
        check_at = ends
        while self._queue:
            when, _, call = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            self.steps += 1
            try:
                call()
            except Broken:
                raise
            except Exception as error:
                raise Broken(f"at {self.now - self.zero:.3f} s: {type(error).__name__}: {error}") from error
            if self.now >= check_at:
                check_at = self.now + 0.5
                if (
                    not self.tables.pending
                    and not self.tables.bundles
                    and all(self.tables.final(job_id) in FINAL for job_id in self.planned)
                ):
                    break
                if self.now > ends + _PATIENCE_S:
                    break
        self.checks.at_the_end()

    @property
    def trace(self) -> str:
        """The same for the same history."""
        return self._trace.hexdigest()[:16]

    @property
    def length_s(self) -> float:
        """Simulated seconds so far."""
        return self.now - self.zero

    # -- who wakes whom

    def reported(self) -> None:
        """Something new is to be read by whoever leads."""

    def bundled(self, partition: int) -> None:
        """A bundle lies in a bucket."""
        reader = self._readers.get(partition)
        if reader is not None:
            reader.wake(HOP_S)

    def told(self, names: set[str]) -> None:
        """Control messages for these agents were sent."""
        for name in sorted(names):
            node = self._nodes.get(name)
            if node is not None:
                node.wake(HOP_S)

    def reads(self, node: Node, partitions: list[int]) -> None:
        """The agent reads these buckets from now on."""
        for partition in [partition for partition, reader in self._readers.items() if reader is node]:
            del self._readers[partition]
        for partition in partitions:
            self._readers[partition] = node

    # -- what is planned

    def _submit(self, job: PlannedJob) -> None:
        if job.way == "sql":
            self.client_committed_at = self.now
            self.tables.submit(
                Job(id=job.id, kind=job.kind, run_at=self.now, priority=job.priority, size=job.size, max_attempts=job.max_attempts)
            )
        else:
            new = NewJob(id=job.id, kind=job.kind, size=job.size, priority=NAMES[job.priority], max_attempts=job.max_attempts)
            self.kafka.append("intake", 0, Submitted(self.now, new))

    def _join(self, planned: PlannedAgent) -> None:
        self._born += 1
        self._nodes[planned.name] = Node(self, planned, self._born)

    def _lead(self) -> None:
        self._leaders += 1
        leader = Leader(self, f"leader-{self._leaders}")
        process = _Process(leader, leader.run())
        self._processes.append(process)
        self._go_on(process)

    def _go_on(self, process: _Process) -> None:
        """From one point to the next that takes time, unless a fault strikes there."""
        while not process.over:
            if self.now < process.paused_until:
                self._later(process, process.paused_until)
                return
            point, wait_s = next(process.steps)
            fault = process.armed.pop(point, None) or process.armed.pop("", None)
            if fault is not None:
                self._strike(process, fault)
                if process.over:
                    return
            if wait_s:
                self._later(process, self.now + wait_s)
                return

    def _later(self, process: _Process, when: float) -> None:
        process.waits += 1
        mine = process.waits

        def again() -> None:
            if mine == process.waits:
                self._go_on(process)

        self.at(when, again)

    def _strike(self, process: _Process, fault: Fault) -> None:
        if fault.what == "kill_leader":
            process.over = True
            process.steps.close()
            self._processes.remove(process)
            self.at(self.now + max(fault.for_s, _BACK_S), self._lead)
        else:
            process.paused_until = self.now + fault.for_s

    def _break(self, fault: Fault) -> None:
        self.faults += 1
        self._note(f"{fault.what} {fault.who}")
        leading = next((process for process in self._processes if process.leader.lane is not None), None)
        node = self._nodes.get(fault.who)
        match fault.what:
            case "kill_leader" | "pause_leader":
                if leading is not None:
                    leading.armed[fault.point] = fault
            case "unknown_commit" | "failed_commit" | "undelivered" | "twice":
                if leading is not None:
                    self._spoil(leading.leader, fault)
            case "kill_agent":
                if node is not None and not node.over:
                    node.kill()
                    self._again(node, max(fault.for_s, _BACK_S))
            case "leave_agent":
                if node is not None and not node.over:
                    node.leave()
                    self.at(self.now + 2.0, lambda: self._again(node, fault.for_s))
            case "pause_agent":
                if node is not None:
                    node.pause(self.now + fault.for_s)
            case "cut_agent":
                if node is not None:
                    node.cut(self.now + fault.for_s)
            case "remake":
                self.kafka.remake(fault.who)  # type: ignore[arg-type]  # one of the topics
            case "wall_clock":
                if node is not None:
                    node.wall_offset += fault.for_s
            case "join_agent":
                pass

    def _spoil(self, leader: Leader, fault: Fault) -> None:
        if fault.what == "unknown_commit":
            leader.unknown_commit = True
        elif fault.what == "failed_commit":
            leader.failed_commit = True
        elif fault.what == "undelivered":
            leader.undelivered_until = self.now + fault.for_s
        else:
            leader.twice_until = self.now + fault.for_s

    def _again(self, node: Node, after_s: float) -> None:
        """The agent's process is started again, under its name."""
        if not node.over:
            node.kill()
        self.gone.append(node)
        self.at(self.now + after_s, lambda: self._join(node.planned))

    def _note(self, what: str) -> None:
        self._trace.update(f"{self.now:.6f} {what} {self.steps} {self.checks.placed}\n".encode())

    @property
    def nodes(self) -> list[Node]:
        """Those that are there, and were."""
        return [*self._nodes.values(), *self.gone]
