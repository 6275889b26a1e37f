"""The pass: due jobs go to eligible agents with a free slot and room, or a window (S2, S4, S5, S6, S8, S11)."""

from jobyard.contracts.moments import Instant
from jobyard.contracts.priority import PRIORITIES
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.core.books.agents import Agent, Entry
from jobyard.coordinator.core.books.bundles import Bundles
from jobyard.coordinator.core.books.durations import Durations
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.books.pools import Pool
from jobyard.coordinator.core.books.waiting import Strand, WaitingJobs
from jobyard.coordinator.core.events import Event, Placed
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.coordinator.core.questions import Answers

_NO_CLASS = 1 << 30


class Placement:
    """The step. In a pass room only shrinks: so what found none is not tried again, and a pass costs what it places, not what waits."""

    def __init__(self, rules: Rules, waiting: WaitingJobs, fleet: Fleet, bundles: Bundles, durations: Durations) -> None:
        self._rules = rules
        self._waiting = waiting
        self._fleet = fleet
        self._pools = fleet.pools
        self._bundles = bundles
        self._durations = durations
        # of this pass: (kind, version, short) → a size that found no room; pool → the smallest class of a long kind that waits for a slot
        self._full: dict[tuple[str, int, bool], float] = {}
        self._held_up: dict[int, int] = {}

    def decide(self, batch: Batch, answers: Answers, events: list[Event], now: Instant) -> None:
        """One pass, if anything has changed since the last."""
        if not (self._waiting.changed or self._pools.changed):
            return
        self._waiting.changed = self._pools.changed = False
        self._full.clear()
        self._held_up.clear()
        sat_out: list[Strand] = []
        for priority in PRIORITIES:
            while (strand := self._waiting.first(priority)) is not None:
                if self._pools.full:
                    break
                head = strand.heap[0][3].job
                short = self._durations.short(strand.duration)
                full = (strand.kind, strand.version, short)
                chosen: tuple[Agent, dict[str, object]] | None = None
                limit = self._full.get(full)
                if limit is None or head.size < limit:
                    chosen = self._choose(strand, head.size, short)
                    if chosen is None:
                        self._full[full] = head.size
                if chosen is None:
                    self._waiting.sits_out(strand)
                    sat_out.append(strand)
                    if not short:
                        for pool in self._pools.knowing(strand.kind, strand.version):
                            self._held_up[pool.number] = min(strand.size_class, self._held_up.get(pool.number, _NO_CLASS))
                    continue
                agent, reason = chosen
                jobs, room = self._bundle(strand, agent, short)
                taken = self._waiting.take(strand, jobs, room, agent.capacity, self._rules.batch_bytes)
                events.append(Placed(self._place(strand, agent, taken, reason, now)))
        self._waiting.returns(sat_out)

    def _choose(self, strand: Strand, size: float, short: bool) -> tuple[Agent, dict[str, object]] | None:
        """Where the head of a strand goes, and why; None: it waits."""
        pools = self._pools.knowing(strand.kind, strand.version)
        found = _least(pools, size)
        if found is not None:
            entry, after, with_room = found
            return entry[2], {"rule": "free", "room": with_room, "load": round(entry[0], 4), "next": after}
        if short:
            ahead = self._ahead(pools, strand, size)
            if ahead is not None:
                entry, after, with_room = ahead
                return entry[2], {"rule": "window", "room": with_room, "load": round(entry[2].load, 4), "next": after}
        top = self._pools.largest(strand.kind, strand.version)
        if size > top > 0.0:
            empty = [
                agent for pool in pools for _, _, agent in pool.free if agent.capacity == top and agent.jobs == 0 and agent.others_jobs == 0
            ]
            if empty:
                agent = min(empty, key=lambda one: one.agent_id)
                return agent, {"rule": "oversized", "room": len(empty), "load": 0.0, "next": 0.0 if len(empty) > 1 else None}
        return None

    def _ahead(self, pools: list[Pool], strand: Strand, size: float) -> tuple[Entry, float | None, int] | None:
        """The agent with the least unstarted work whose window is open, unless a long kind waits for a slot there (S8)."""
        best: Entry | None = None
        after: float | None = None
        with_room = 0
        for pool in pools:
            if self._is_held_up(pool, strand):
                continue
            with_room += len(pool.ahead)
            for entry in pool.ahead:
                agent = entry[2]
                if size <= agent.capacity and agent.held_size + size <= agent.window(self._rules.window_s)[1]:
                    if best is None or entry < best:
                        best, after = entry, None if best is None else best[2].load
                    else:
                        after = agent.load
                    break
        return None if best is None else (best, None if after is None else round(after, 4), with_room)

    def _is_held_up(self, pool: Pool, strand: Strand) -> bool:
        return bool(self._held_up) and self._held_up.get(pool.number, _NO_CLASS) <= strand.size_class

    def _bundle(self, strand: Strand, agent: Agent, short: bool) -> tuple[int, float]:
        """How many jobs, and sizes, may go in one bundle (S11): what the agent starts within `bundle_s`, no more than slots and window hold.

        Nothing is left of the room for an oversized job; the first of a bundle is taken all the same.
        """
        if not short or not agent.ended_jobs or strand.heap[0][3].job.size > agent.capacity:
            return 1, agent.free_room
        within = min(int(self._rules.bundle_s * min(agent.slots / max(strand.duration.mean, 1e-6), agent.rate[0])), self._rules.bundle_max)
        if self._is_held_up(self._pools.pool_of(agent), strand):
            most, most_size = agent.slots, agent.capacity
        else:
            most, most_size = agent.window(self._rules.window_s)
        return max(1, min(within, most - agent.held_jobs)), most_size - agent.held_size

    def _place(self, strand: Strand, agent: Agent, taken: list[Waiting], reason: dict[str, object], now: Instant) -> Bundle:
        jobs = [waiting.job for waiting in taken]
        used = [waiting.used for waiting in taken]
        bounds = [waiting.bound for waiting in taken]
        bundle = Bundle(
            fence=self._bundles.next_fence(),
            agent_id=agent.agent_id,
            incarnation=agent.incarnation,
            bucket=agent.buckets[strand.priority].partition,
            kind=strand.kind,
            priority=strand.priority,
            placed_at=now,
            reason=reason,
            jobs=jobs,
            attempts=[waiting.attempt + 1 for waiting in taken],
            used=used,
            interruptions=[waiting.interruptions for waiting in taken],
            bounds=bounds,
            careful=[before + 1 >= bound for before, bound in zip(used, bounds, strict=True)],
        )
        self._bundles.opened(bundle)
        sizes = [job.size for job in jobs]
        self._fleet.gave(agent, len(jobs), sum(sizes), max(sizes))
        return bundle


def _least(pools: list[Pool], size: float) -> tuple[Entry, float | None, int] | None:
    """The least loaded agent with a free slot and enough room, ties by number (S5); the next load, and how many have a free slot."""
    best: Entry | None = None
    after: float | None = None
    with_room = 0
    for pool in pools:
        free = pool.free
        with_room += len(free)
        for position, entry in enumerate(free):
            agent = entry[2]
            if agent.capacity - agent.size - agent.others_size >= size:
                following = free[position + 1][0] if position + 1 < len(free) else None
                if best is None or entry < best:
                    after = following if best is None or (following is not None and following < best[0]) else best[0]
                    best = entry
                elif after is None or entry[0] < after:
                    after = entry[0]
                break
    return None if best is None else (best, None if after is None else round(after, 4), with_room)
