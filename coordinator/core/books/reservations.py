"""Agents that are kept for a large job until it fits there (S7). A reservation is draining, no more: nobody knows how long what runs there takes."""

from collections.abc import Iterator
from dataclasses import dataclass

from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.books.agents import Agent
from jobyard.coordinator.core.books.pools import Pools
from jobyard.coordinator.core.books.strand import Strand


@dataclass(slots=True)
class Reservation:
    """An agent kept for the head of a strand. `due`, `job_id`: of the job for which it was made; one that comes to stand before it takes it over."""

    strand: Strand
    agent: Agent
    due: Instant
    job_id: str
    since: Instant


class Reservations:
    """All of a lane, at most one for a strand and one for an agent. Never written: a take-over starts without, as it does without rates."""

    def __init__(self, pools: Pools, share: float, aging_s: float) -> None:
        self._pools = pools
        self._share = share
        self._aging = aging_s
        self._of: dict[Strand, Reservation] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._of.values())

    def of(self, strand: Strand) -> Reservation | None:
        """The one for this strand's head."""
        return self._of.get(strand)

    def open_to(self, priority: int, now: Instant) -> Iterator[Agent]:
        """Reserved agents that jobs of this priority may use all the same: those of strictly lower ones, whose job is not aged yet."""
        for reservation in self._of.values():
            if priority < reservation.strand.priority and now - reservation.due < self._aging:
                yield reservation.agent

    def allowed(self, strand: Strand) -> bool:
        """Whether one more of the agents that know the strand's kind may be reserved: a share of them, at least one."""
        return self._left(strand) > 0

    def _left(self, strand: Strand) -> int:
        """How many more may be; below 0 where agents have left since."""
        pools = self._pools.knowing(strand.kind, strand.version)
        agents = sum(len(pool.agents) for pool in pools)
        reserved = sum(1 for reservation in self._of.values() if self._pools.pool_of(reservation.agent) in pools)
        return max(1, int(self._share * agents)) - reserved

    def made(self, strand: Strand, agent: Agent, now: Instant) -> None:
        """The agent takes nothing new but the strand's head."""
        due, job_id = strand.heap[0][:2]
        self._of[strand] = Reservation(strand, agent, due, job_id, now)
        agent.reserved = True
        self._pools.refresh(agent)

    def ended(self, strand: Strand) -> None:
        """Its job was placed, or is no longer there, or the agent isn't."""
        reservation = self._of.pop(strand)
        reservation.agent.reserved = False
        self._pools.refresh(reservation.agent)
        self._pools.changed = True

    def check(self) -> None:
        """Before a pass: those end whose job or agent is no more what it was; the newest, too, while they are more than the share, since agents leave."""
        for strand, reservation in list(self._of.items()):
            if not self._holds(strand, reservation):
                self.ended(strand)
            else:
                reservation.due, reservation.job_id = strand.heap[0][:2]
        for strand in reversed(list(self._of)):
            if self._left(strand) < 0:
                self.ended(strand)

    def _holds(self, strand: Strand, reservation: Reservation) -> bool:
        agent = reservation.agent
        if not strand.heap or strand.heap[0][:2] > (reservation.due, reservation.job_id) or not self._pools.eligible(agent):
            return False
        size = strand.heap[0][3].job.size
        return agent.capacity >= size or agent.capacity >= self._pools.largest(strand.kind, strand.version)
