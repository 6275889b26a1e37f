"""What every placement must keep: who may get it, how much an agent may hold, and the order inside a strand (S4 to S6, S8, S12, S15)."""

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.books.durations import size_class
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.places import Bundle
from jobyard.coordinator.core.snapshot import AgentRow
from jobyard.coordinator.simulation.database import SimulatedStore
from jobyard.coordinator.simulation.violation import Violation
from jobyard.testing.memory_tables import MemoryLane

_LEAST_BUSY_S: Final = 0.05
_LOOKED_AT: Final = 60


class _Held:
    """What an agent holds by the tables. `ends`: reported since the epoch began or it gave something back: what its window rests on."""

    __slots__ = ("ends", "jobs", "size")

    def __init__(self) -> None:
        self.jobs = 0
        self.size = 0.0
        self.ends = 0


class Placements:
    """`order`: whether the order inside strands is looked at, too: it costs a look at what waits."""

    def __init__(self, tables: MemoryLane, rules: Rules, now: Callable[[], float], *, order: bool) -> None:
        self._t = tables
        self._rules = rules
        self._now = now
        self._order = order
        self._held: dict[int, _Held] = {}
        self._epoch = 0
        self._written_at: dict[str, float] = {}
        self.checked = 0
        self.rules: dict[str, int] = {}

    def committed(
        self, store: SimulatedStore, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, epoch: int
    ) -> None:
        """Follow what was decided, in its order."""
        if epoch != self._epoch:
            self._epoch = epoch
            for held in self._held.values():
                held.ends = 0
        for event in events:
            match event:
                case e.Ended():
                    self._ended(event)
                case e.Placed():
                    for job in event.bundle.jobs:
                        self._written_at.pop(job.id, None)  # should it come back, its row is a new one
                    self._placed(event.bundle, store)
                case e.Waits():
                    if self._order:
                        self._written_at.update((waiting.job.id, self._now()) for waiting in event.waiting)
                case e.Moved():
                    self._written_at[event.waiting.job.id] = self._now()
                case _:
                    pass

    def wrote(self, job_id: str) -> None:
        """A client has committed it."""
        self._written_at[job_id] = self._now()

    def held(self, agent_id: int) -> tuple[int, float]:
        """Jobs and sizes that an agent holds by the tables."""
        found = self._held.get(agent_id)
        return (found.jobs, found.size) if found is not None else (0, 0.0)

    def _ended(self, event: e.Ended) -> None:
        bundle = event.bundle
        held = self._held[bundle.agent_id]
        size = {job.id: job.size for job in bundle.jobs}
        for end in event.ends:
            held.jobs -= 1
            held.size -= size[end.job]
            if end.outcome is Outcome.RELEASED:
                held.ends = 0
            elif end.started_at is not None:
                held.ends += 1
        if not held.jobs:
            held.size = 0.0

    def _placed(self, bundle: Bundle, store: SimulatedStore) -> None:
        self.checked += 1
        row = self._t.agents[bundle.agent_id]
        rule = str(bundle.reason["rule"])
        self.rules[rule] = self.rules.get(rule, 0) + len(bundle.jobs)
        if row.ended or row.state != "active":
            raise Violation("S5", f"fence {bundle.fence} went to {row.name}, which is {row.state}")
        if row.kinds.get(bundle.kind, -1) < bundle.jobs[0].version:
            raise Violation("S14", f"fence {bundle.fence} of kind {bundle.kind} went to {row.name}, which knows {row.kinds}")
        held = self._held.setdefault(bundle.agent_id, _Held())
        size = sum(job.size for job in bundle.jobs)
        self._room(bundle, row, held, size)
        held.jobs += len(bundle.jobs)
        held.size += size
        if self._order:
            self._in_order(bundle, store.looks[0])

    def _room(self, bundle: Bundle, row: AgentRow, held: _Held, size: float) -> None:
        what = f"fence {bundle.fence} ({len(bundle.jobs)} jobs, {size:g}) on {row.name}, which holds {held.jobs} ({held.size:g})"
        full = row.capacity * (1 + 1e-9)
        if size > full and len(bundle.jobs) == 1:
            if held.jobs:
                raise Violation("S6", f"{what} of {row.capacity:g}: an oversized job must be alone")
            larger = [
                one.name
                for one in self._t.agents.values()
                if not one.ended and one.capacity > row.capacity and one.state == "active" and one.kinds.get(bundle.kind, -1) >= 0
            ]
            if larger:
                raise Violation("S6", f"{what} of {row.capacity:g}, but {larger} are larger")
            return
        if held.size > full:
            if held.jobs == 1:
                raise Violation("S6", f"{what}: an oversized job is there")
            window = self._rules.window_s * held.ends / _LEAST_BUSY_S
            if not window:
                raise Violation("S8", f"{what}: it has no window")
            return
        window = self._rules.window_s * held.ends / _LEAST_BUSY_S
        if held.jobs + len(bundle.jobs) > row.slots + window:
            raise Violation("S8", f"{what}: more than {row.slots} slots and a window of at most {window:g}")
        if held.size + size > full and not held.ends:
            raise Violation("S8", f"{what}: more than {row.capacity:g}, without a window")

    def _in_order(self, bundle: Bundle, known_by: float) -> None:
        """Nobody whom the leader knew is passed inside the strand (S4): whose row it found at the look before the last, and read after that."""
        last = max((job.run_at, job.id) for job in bundle.jobs)
        strand = (bundle.jobs[0].version, size_class(bundle.jobs[0].size))
        for row in islice(self._t.pending.behind(bundle.priority, bundle.kind, 0, (0.0, "")), _LOOKED_AT):
            if (row.run_at, row.job_id) >= last:
                return
            job = self._t.jobs[row.job_id]
            if (job.version, size_class(job.size)) == strand and self._written_at.get(row.job_id, math.inf) < known_by:
                raise Violation("S4", f"job {row.job_id}, due {row.run_at}, was passed by one due {last[0]} of fence {bundle.fence}")
