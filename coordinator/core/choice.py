"""Which agent the head of a strand goes to, and by which rule (S5 to S8). In a pass room only shrinks, so what found none isn't tried again."""

from bisect import bisect_left
from collections.abc import Iterable
from operator import gt, lt
from typing import Literal, TypeAlias

from jobyard.contracts.moments import Instant
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.books.agents import Agent, Entry
from jobyard.coordinator.core.books.durations import Durations
from jobyard.coordinator.core.books.pauses import Pauses
from jobyard.coordinator.core.books.pools import Pool, Pools
from jobyard.coordinator.core.books.reservations import Reservations
from jobyard.coordinator.core.books.strand import Strand

_NO_CLASS = 1 << 30
Rule: TypeAlias = Literal["free", "packed", "window", "oversized", "reserved"]
Found: TypeAlias = tuple[Entry, float | None, int]
"""An agent as it stands in its pool's list, the load of the next best (None: there is none), and how many were in question."""


class Chosen:
    """Where a head goes. `room`: agents in question; `load`, `next`: of this one and the next best, before the job came (S17)."""

    __slots__ = ("agent", "load", "next", "room", "rule")

    def __init__(self, agent: Agent, rule: Rule, room: int, load: float, following: float | None) -> None:
        self.agent = agent
        self.rule: Rule = rule
        self.room = room
        self.load = round(load, 4)
        self.next = None if following is None else round(following, 4)


class Choice:
    """Used by the pass alone."""

    def __init__(self, rules: Rules, pools: Pools, reservations: Reservations, durations: Durations, pauses: Pauses) -> None:
        self._rules = rules
        self._pools = pools
        self._reservations = reservations
        self._durations = durations
        self._pauses = pauses
        # of this pass: (kind, version, short, priority if it matters) → a size that found no room; pool → the smallest class of a long kind that waits
        # for a slot; the largest class that waits for room; per priority the first that waits without a reservation
        self._full: dict[tuple[str, int, bool, int], float] = {}
        self._held_up: dict[int, int] = {}
        self._packed_below = -_NO_CLASS
        self._blocked: dict[int, Strand] = {}

    def begin(self) -> None:
        """A pass begins."""
        self._full.clear()
        self._held_up.clear()
        self._packed_below = -_NO_CLASS
        self._blocked.clear()
        if self._reservations:
            self._reservations.check()
            for strand in [reservation.strand for reservation in self._reservations if self._pauses.kind(reservation.strand.kind)]:
                self._reservations.ended(strand)

    def agent(self, strand: Strand, now: Instant) -> Chosen | None:
        """Where the head of a strand goes; None: it waits. May reserve an agent for a larger job that waits longer, which this one would pass."""
        if self._pauses.kind(strand.kind):
            return None
        size = strand.heap[0][3].job.size
        short = self._durations.short(strand.duration)
        # while agents are reserved, a higher priority may have room that a lower one has not
        key = (strand.kind, strand.version, short, strand.priority if self._reservations else _NO_CLASS)
        limit = self._full.get(key)
        chosen = None if limit is not None and size >= limit else self._among_all(strand, size, short, now)
        while chosen is not None and self._blocked and self._reserves(strand, chosen.agent, now):
            chosen = self._among_all(strand, size, short, now)
        if chosen is not None:
            return chosen
        reservation = self._reservations.of(strand) if self._reservations else None
        if reservation is not None:
            agent = reservation.agent
            if agent.fits(size) or (size > agent.capacity and agent.held_jobs == 0):
                return Chosen(agent, "reserved", 1, agent.load, None)
        else:
            self._full[key] = size
        return None

    def placed(self, strand: Strand) -> None:
        """The head is about to go: what was kept for it is free again."""
        if self._reservations and self._reservations.of(strand) is not None:
            self._reservations.ended(strand)
            self._full.clear()

    def sat_out(self, strand: Strand) -> None:
        """Its head waits: those that come later in order make gaps for it, get no window where it waits for a slot, and pass it only for so long.

        But for a paused one, for which nothing is kept free (S15).
        """
        if self._pauses.kind(strand.kind):
            return
        if self._pools.largest(strand.kind, strand.version) > 0.0:
            self._packed_below = max(self._packed_below, strand.size_class)
            reserved = bool(self._reservations) and self._reservations.of(strand) is not None
            if not reserved and strand.priority not in self._blocked:
                self._blocked[strand.priority] = strand
        self.holds_up(strand)

    def holds_up(self, strand: Strand) -> None:
        """Its head waits for a slot: at agents that know its kind, others that are asked after it get no window, unless they are of a smaller class (S8)."""
        if not self._pauses.kind(strand.kind) and not self._durations.short(strand.duration):
            for pool in self._pools.knowing(strand.kind, strand.version):
                self._held_up[pool.number] = min(strand.size_class, self._held_up.get(pool.number, _NO_CLASS))

    def room(self, strand: Strand, chosen: Chosen) -> tuple[int, float]:
        """How many jobs, and sizes, may go in one bundle (S11): what the agent starts within `bundle_s`, no more than slots and window hold.

        Nothing is left of the room for an oversized job; the first of a bundle is taken all the same.
        """
        agent = chosen.agent
        if chosen.rule == "reserved" or not self._durations.short(strand.duration) or not agent.ended_jobs:
            return 1, agent.free_room
        if strand.heap[0][3].job.size > agent.capacity:
            return 1, agent.free_room
        within = min(int(self._rules.bundle_s * min(agent.slots / max(strand.duration.mean, 1e-6), agent.rate[0])), self._rules.bundle_max)
        if agent.reserved or self._is_held_up(self._pools.pool_of(agent), strand):
            most, most_size = agent.slots, agent.capacity
        else:
            most, most_size = agent.window(self._rules.window_s)
        return max(1, min(within, most - agent.held_jobs)), most_size - agent.held_size

    # -- which agent

    def _among_all(self, strand: Strand, size: float, short: bool, now: Instant) -> Chosen | None:
        pools = self._pools.knowing(strand.kind, strand.version)
        packs = strand.size_class < self._packed_below
        found = _best(pools, size, packs)
        if self._reservations:
            found = _better_of(found, self._open_to(strand, pools, size, now), packs)
        if found is not None:
            entry, after, with_room = found
            return Chosen(entry[2], "packed" if packs else "free", with_room, entry[2].load, after)
        if short:
            found = self._ahead(pools, strand, size)
            if found is not None:
                entry, after, with_room = found
                return Chosen(entry[2], "window", with_room, entry[2].load, after)
        top = self._pools.largest(strand.kind, strand.version)
        if size > top > 0.0:
            empty = [
                agent for pool in pools for _, _, agent in pool.free if agent.capacity == top and agent.jobs == 0 and agent.others_jobs == 0
            ]
            if empty:
                agent = min(empty, key=lambda one: one.agent_id)
                return Chosen(agent, "oversized", len(empty), 0.0, 0.0 if len(empty) > 1 else None)
        return None

    def _open_to(self, strand: Strand, pools: list[Pool], size: float, now: Instant) -> list[Entry]:
        """Agents reserved for less urgent jobs, which this one may use."""
        return [
            (agent.load, agent.agent_id, agent)
            for agent in self._reservations.open_to(strand.priority, now)
            if agent.fits(size) and self._pools.pool_of(agent) in pools
        ]

    def _ahead(self, pools: list[Pool], strand: Strand, size: float) -> Found | None:
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
        return None if best is None else (best, after, with_room)

    def _is_held_up(self, pool: Pool, strand: Strand) -> bool:
        return bool(self._held_up) and self._held_up.get(pool.number, _NO_CLASS) <= strand.size_class

    # -- who keeps an agent

    def _reserves(self, later: Strand, agent: Agent, now: Instant) -> bool:
        """Whether an agent was reserved just now, because a later job would take room that a job which has waited long enough could have used (S7)."""
        for priority, strand in list(self._blocked.items()):
            if strand is later or not strand.heap:
                continue
            due, _, _, waiting = strand.heap[0]
            if now - due < self._rules.reserve_after_s:
                continue
            size = waiting.job.size
            pools = self._pools.knowing(strand.kind, strand.version)
            least = min(size, self._pools.largest(strand.kind, strand.version))
            if agent.capacity < least or self._pools.pool_of(agent) not in pools:
                continue
            del self._blocked[priority]
            kept = min(
                (
                    (one.load, one.agent_id, one)
                    for pool in pools
                    for one in pool.agents.values()
                    if one.capacity >= least and not one.reserved and self._pools.eligible(one)
                ),
                default=None,
            )
            if kept is not None and self._reservations.allowed(strand):
                self._reservations.made(strand, kept[2], now)
                return True
        return False


def _best(pools: list[Pool], size: float, packs: bool) -> Found | None:
    """The least loaded agent with a free slot and enough room, ties by number (S5). `packs`: the most loaded one, of equal ones the last, so that what is
    emptier stays so for a larger job (S7)."""
    better = gt if packs else lt
    best: Entry | None = None
    after: float | None = None
    with_room = 0
    for pool in pools:
        free = pool.free
        with_room += len(free)
        for entry in reversed(free) if packs else free:
            if entry[2].free_room >= size:
                if best is None or better(entry, best):
                    after, best = None if best is None else best[0], entry
                elif after is None or better(entry[0], after):
                    after = entry[0]
                break
    if best is not None and with_room > 1:
        after = _following(best[2], after, packs)
    return None if best is None else (best, after, with_room)


def _following(agent: Agent, after: float | None, packs: bool) -> float | None:
    """The load of the next best: another pool's best, or the neighbour in its own."""
    where = agent.where
    if where is None or agent.entry is None or len(where) < 2:
        return after
    spot = bisect_left(where, agent.entry) + (-1 if packs else 1)
    if not 0 <= spot < len(where):
        return after
    own = where[spot][0]
    return own if after is None else (max(own, after) if packs else min(own, after))


def _better_of(found: Found | None, more: Iterable[Entry], packs: bool) -> Found | None:
    """The best of what was found and these."""
    for entry in more:
        if found is None:
            found = (entry, None, 1)
        elif (entry > found[0]) if packs else (entry < found[0]):
            found = (entry, found[0][0], found[2] + 1)
        else:
            found = (found[0], found[1], found[2] + 1)
    return found
