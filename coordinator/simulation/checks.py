"""What must hold after every step, whatever breaks. Broken is raised at the first that doesn't: with what, when, and of which job or agent."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobyard.agent.core.held import Held
from jobyard.contracts.states import FINAL, Outcome
from jobyard.coordinator.core.events import Ended, Event, Placed
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.seams import Term

if TYPE_CHECKING:
    from jobyard.coordinator.simulation.leader import Leader
    from jobyard.coordinator.simulation.node import Node
    from jobyard.coordinator.simulation.world import World
    from jobyard.testing.memory_store import MemoryLaneStore

_ROOM = 1e-6


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(slots=True)
class _Execution:
    node: "Node"
    fence: int
    incarnation: str


class Checks:
    """`count`: how many single checks were made, by name."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.count: Counter[str] = Counter()
        self.waits: dict[int, list[float]] = {}
        self._starts: Counter[str] = Counter()
        self._fences: dict[str, int] = {}
        self._live: dict[str, list[_Execution]] = {}
        self._holds: dict[str, list[float]] = {}
        self._fence = 0
        self.placed = self.bundles = self.doubled = 0

    # -- executions

    def attempts_of(self, job_id: str) -> int:
        """How often its handler was started."""
        return self._starts[job_id]

    def started(self, node: "Node", held: Held) -> None:
        """A handler is called."""
        job_id, fence = held.job.id, held.fence
        planned = self._world.planned[job_id]
        self._starts[job_id] += 1
        self.count["starts"] += 1
        if planned.max_attempts == 1 and self._starts[job_id] > 1:
            raise Broken(self._said(f"job {job_id} with max_attempts 1 is started a second time, under fence {fence} (promise 5)"))
        if fence <= self._fences.get(job_id, 0):
            raise Broken(
                self._said(
                    f"job {job_id} is started under fence {fence} after {self._fences[job_id]} (a fence is started once, and fences grow)"
                )
            )
        self._fences[job_id] = fence
        live = self._live.setdefault(job_id, [])
        attempts = self._world.tables.attempts
        for other in live:
            row = attempts.get((job_id, other.fence))
            if row is None or row.outcome not in (Outcome.LOST, Outcome.SUPERSEDED):
                raise Broken(
                    self._said(
                        f"job {job_id} runs on {node.name} under fence {fence} and on {other.node.name} under {other.fence}, which was not lost (promise 4)"
                    )
                )
            self.doubled += 1
        live.append(_Execution(node, fence, held.life.id))
        if self._starts[job_id] == 1:
            self.waits.setdefault(planned.priority, []).append(self._world.length_s - planned.at)

    def stopped(self, node: "Node", held: Held) -> None:
        """A handler has returned."""
        live = self._live[held.job.id]
        live[:] = [one for one in live if one.node is not node or one.fence != held.fence]

    def died(self, node: "Node") -> None:
        """Nothing runs there any more."""
        for job_id in node.running:
            self._live[job_id] = [one for one in self._live[job_id] if one.node is not node]

    # -- ticks

    def committed(self, leader: "Leader", lane: Lane, events: Iterable[Event]) -> None:
        """A tick of this leader is in the tables."""
        if lane.fence < self._fence:
            raise Broken(self._said(f"the fence counter went from {self._fence} to {lane.fence}"))
        self._fence = lane.fence
        for event in events:
            if isinstance(event, Placed):
                self._was_placed(event)
            elif isinstance(event, Ended):
                holds = self._holds.get(event.bundle.incarnation)
                if holds is not None:
                    sizes = {job.id: job.size for job in event.bundle.jobs}
                    holds[0] -= len(event.ends)
                    holds[1] -= sum(sizes[end.job] for end in event.ends)

    def _was_placed(self, event: Placed) -> None:
        bundle = event.bundle
        row = self._world.tables.agents[bundle.agent_id]
        holds = self._holds.setdefault(bundle.incarnation, [0, 0.0])
        rule = bundle.reason["rule"]
        size = sum(job.size for job in bundle.jobs)
        self.placed += len(bundle.jobs)
        self.bundles += 1
        self.count["placements"] += 1
        if row.ended:
            raise Broken(self._said(f"fence {bundle.fence} is placed on agent {row.name}, whose incarnation is over"))
        if rule in ("oversized",) and holds[0]:
            raise Broken(self._said(f"fence {bundle.fence} is oversized on agent {row.name}, which holds {holds[0]} jobs (S6)"))
        if rule != "window" and holds[0] >= row.slots:
            raise Broken(
                self._said(
                    f"fence {bundle.fence} goes to a slot of agent {row.name}, which has none: {holds[0]} of {row.slots} are held (S5)"
                )
            )
        alone = size > row.capacity and len(bundle.jobs) == 1 and not holds[0]
        first = bundle.jobs[0].size
        if rule != "window" and not alone and holds[1] + first > row.capacity + _ROOM:
            raise Broken(
                self._said(
                    f"fence {bundle.fence}, size {first}, goes to agent {row.name}, where {holds[1]} of {row.capacity} are held (S5)"
                )
            )
        holds[0] += len(bundle.jobs)
        holds[1] += size

    def take_over_law(self, store: "MemoryLaneStore", lane: Lane, ids: Mapping[str, str], term: Term) -> None:
        """Who took over now would know what this leader knows."""
        from jobyard.coordinator.simulation.leader import TOPICS

        self.count["take-over law"] += 1
        found = Lane.load(
            store.snapshot(),
            lane="default",
            rules=self._world.rules,
            epoch=term.epoch,
            now=self._world.now,
            topic_ids=dict(ids),
            topics=TOPICS,
        ).picture()
        known = lane.picture()
        for name, value in known.items():
            if found[name] != value:
                raise Broken(self._said(f"a take-over would know other {name}: {found[name]!r} instead of {value!r}"))

    # -- the end

    def at_the_end(self) -> None:
        """All that was submitted has ended, with all its attempts."""
        tables = self._world.tables
        for job_id, planned in self._world.planned.items():
            self.count["ends"] += 1
            state = tables.final(job_id)
            if state not in FINAL:
                where = "unknown" if job_id not in tables.jobs else str(tables.state(job_id))
                raise Broken(self._said(f"job {job_id} ({planned.kind}, size {planned.size}) has not ended: {where} (promise 1, 2)"))
            rows = sorted(row.attempt for row in tables.attempts_of.get(job_id, []))
            if rows != list(range(1, len(rows) + 1)):
                raise Broken(self._said(f"job {job_id} has attempts {rows} (promise 8)"))
            used = max((row.used for row in tables.attempts_of.get(job_id, [])), default=0)
            if used > planned.max_attempts:
                raise Broken(self._said(f"job {job_id} has used {used} of {planned.max_attempts} attempts (promise 3)"))
        if tables.bundles:
            raise Broken(self._said(f"bundles are open though every job has ended: {sorted(tables.bundles)[:5]}"))

    def _said(self, what: str) -> str:
        return f"at {self._world.now - self._world.zero:.3f} s: {what}"
