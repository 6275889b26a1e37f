"""Agents by what they can run, sorted for placement: `free` by (load, id), `ahead` by (unstarted seconds, id). Full and reserved agents are in neither."""

from bisect import bisect_left, insort

from jobyard.coordinator.core.books.agents import Agent, Entry


class Pool:
    """Agents with the same handlers. `agents`: all that are not over, by number."""

    __slots__ = ("agents", "ahead", "free", "kinds", "number")

    def __init__(self, number: int, kinds: dict[str, int]) -> None:
        self.number = number
        self.kinds = kinds
        self.free: list[Entry] = []
        self.ahead: list[Entry] = []
        self.agents: dict[int, Agent] = {}


class Pools:
    """All pools of a lane. `changed`: room may have grown since the last pass."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._pools: dict[tuple[tuple[str, int], ...], Pool] = {}
        self._by_kind: dict[tuple[str, int], list[Pool]] = {}
        self._largest: dict[tuple[str, int], float] = {}
        self._of: dict[int, Pool] = {}
        self.changed = True

    def joined(self, agent: Agent) -> None:
        """An agent that may get work by and by."""
        key = tuple(sorted(agent.kinds.items()))
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(len(self._pools), dict(key))
            self._by_kind.clear()
        pool.agents[agent.agent_id] = agent
        self._of[agent.agent_id] = pool
        self.resized()
        self.refresh(agent)

    def gone(self, agent: Agent) -> None:
        """It gets nothing more."""
        pool = self._of.pop(agent.agent_id, None)
        if pool is None:
            return
        self._out(agent)
        del pool.agents[agent.agent_id]
        self._largest.clear()
        self.changed = True
        if not pool.agents:
            del self._pools[tuple(sorted(pool.kinds.items()))]
            self._by_kind.clear()

    def resized(self) -> None:
        """A capacity or a state changed: the largest ones are counted anew."""
        self._largest.clear()
        self.changed = True

    def refresh(self, agent: Agent) -> None:
        """Put it where it belongs by what it holds now. Once a bundle and once a report."""
        self._out(agent)
        if agent.reserved or agent.alone or not self.eligible(agent):
            return
        pool = self._of.get(agent.agent_id)
        if pool is None:
            return
        jobs, size = agent.jobs + agent.others_jobs, agent.size + agent.others_size
        if jobs < agent.slots and size < agent.capacity:
            where, value = pool.free, max(size / agent.capacity, jobs / agent.slots) + agent.gave_back
        elif agent.ended_jobs:
            most, most_size = agent.window(self._window_s)
            if jobs >= most or size >= most_size:
                return
            rate, size_rate = agent.rate
            where, value = pool.ahead, max((jobs - agent.slots) / rate, (size - agent.capacity) / size_rate)
        else:
            return
        agent.where = where
        agent.entry = entry = (value, agent.agent_id, agent)
        insort(where, entry)

    def eligible(self, agent: Agent) -> bool:
        """Whether it may get anything at all: active, heard from under this epoch, not suspended, with buckets (S5, L6)."""
        return agent.state == "active" and agent.met and not agent.suspended and bool(agent.buckets)

    def pool_of(self, agent: Agent) -> Pool:
        """The pool of an agent that is not over."""
        return self._of[agent.agent_id]

    def knowing(self, kind: str, version: int) -> list[Pool]:
        """The pools whose handlers run this version of the kind."""
        found = self._by_kind.get((kind, version))
        if found is None:
            found = self._by_kind[kind, version] = [pool for pool in self._pools.values() if pool.kinds.get(kind, -1) >= version]
        return found

    def known(self, kind: str) -> bool:
        """Whether anybody runs the kind at all."""
        return bool(self.knowing(kind, 0))

    def largest(self, kind: str, version: int) -> float:
        """The largest capacity among those that know the kind and are not lost or draining; one that is only unreachable counts (S6). 0: nobody."""
        top = self._largest.get((kind, version))
        if top is None:
            top = self._largest[kind, version] = max(
                (agent.capacity for pool in self.knowing(kind, version) for agent in pool.agents.values() if agent.state != "draining"),
                default=0.0,
            )
        return top

    @property
    def full(self) -> bool:
        """Whether nobody has room for anything."""
        return not any(pool.free or pool.ahead for pool in self._pools.values())

    def _out(self, agent: Agent) -> None:
        if agent.where is not None and agent.entry is not None:
            del agent.where[bisect_left(agent.where, agent.entry)]
            agent.where = agent.entry = None
