"""The agents of a lane: who is current under each name, who is over, and which partitions are free."""

from collections.abc import Iterator
from dataclasses import dataclass

from jobyard.contracts.control import Bucket, FencedReason
from jobyard.contracts.moments import Instant
from jobyard.coordinator.core.books.agents import Agent
from jobyard.coordinator.core.books.pools import Pools
from jobyard.coordinator.core.events import AgentState

BUCKETS = 5
"""An agent has one partition for each priority."""
_REMEMBERED_S = 3_600.0


def fenced_reason(state: AgentState) -> FencedReason:
    """What an incarnation that ended so is told."""
    if state == "lost" or state == "replaced":
        return state
    return "unknown"


@dataclass(slots=True)
class Over:
    """An incarnation that is over: who, how, when."""

    name: str
    state: AgentState
    at: Instant


class Fleet:
    """Current incarnations, those replaced that may still hold a careful job (L11), and those that are over.

    `partitions`: how many the buckets topic has; None: not told yet. `topic_id`: of the buckets topic.
    """

    def __init__(self, pools: Pools, topic_id: str) -> None:
        self.pools = pools
        self.topic_id = topic_id
        self.partitions: int | None = None
        self._current: dict[str, Agent] = {}
        self._names: dict[str, Agent] = {}
        self._limbo: dict[str, Agent] = {}
        self._over: dict[str, Over] = {}
        self._last: dict[str, Agent] = {}
        self._ready: dict[int, int] = {}
        self._taken: set[int] = set()

    # -- who is who

    def current(self, incarnation: str) -> Agent | None:
        """The agent, if this is the incarnation that counts."""
        return self._current.get(incarnation)

    def limbo(self, incarnation: str) -> Agent | None:
        """The agent, if it was replaced and may still hold a careful job."""
        return self._limbo.get(incarnation)

    def holder(self, incarnation: str) -> Agent | None:
        """The agent that may hold open bundles."""
        return self._current.get(incarnation) or self._limbo.get(incarnation)

    def over(self, incarnation: str) -> Over | None:
        """How it ended, as far as that is remembered; None: it is current, or was never met, or ended long ago."""
        return self._over.get(incarnation)

    def named(self, name: str) -> Agent | None:
        """The current incarnation of a name."""
        return self._names.get(name)

    def __iter__(self) -> Iterator[Agent]:
        """The current ones, in the order in which they joined."""
        return iter(self._current.values())

    @property
    def holders(self) -> int:
        """How many may hold open bundles."""
        return len(self._current) + len(self._limbo)

    def in_limbo(self) -> list[Agent]:
        """The replaced ones that may still hold a careful job."""
        return list(self._limbo.values())

    def ended(self) -> Iterator[tuple[str, Over]]:
        """Incarnations that are over, as far as remembered."""
        return iter(self._over.items())

    # -- facts

    def joined(self, agent: Agent) -> None:
        """This is the current incarnation of its name."""
        self._current[agent.incarnation] = agent
        self._names[agent.name] = agent
        self._taken.update(bucket.partition for bucket in agent.buckets)
        self.pools.joined(agent)

    def left(self, agent: Agent, state: AgentState, now: Instant, limbo: bool = False) -> None:
        """It is over. Its partitions are free at once (A1). `limbo`: it holds careful jobs that may not go yet."""
        self.pools.gone(agent)
        agent.state = state
        if self._current.pop(agent.incarnation, None) is not None:
            self._taken.difference_update(bucket.partition for bucket in agent.buckets)
            agent.buckets = []
        if self._names.get(agent.name) is agent:
            del self._names[agent.name]
        self.noted_over(agent.incarnation, agent.name, state, now)
        if limbo:
            self._limbo[agent.incarnation] = agent
        else:
            self._limbo.pop(agent.incarnation, None)

    def noted_over(self, incarnation: str, name: str, state: AgentState, at: Instant) -> None:
        """An incarnation that never became current, or that ended under an earlier leader."""
        while self._over and next(iter(self._over.values())).at < at - _REMEMBERED_S:
            del self._over[next(iter(self._over))]
        self._over[incarnation] = Over(name, state, at)

    def found_over(self, agent: Agent, now: Instant) -> None:
        """At the take-over: it ended under an earlier leader; it may still hold a careful job (`found_in_limbo` tells)."""
        self._last[agent.incarnation] = agent
        self.noted_over(agent.incarnation, agent.name, agent.state, now)

    def found_in_limbo(self, agent_id: int, incarnation: str, lost_after_s: float, now: Instant) -> Agent:
        """At the take-over: an open bundle of an incarnation that is over, replaced as a rule (L11)."""
        agent = self._last.pop(incarnation, None)
        if agent is None:  # ended so long ago that its row was not loaded
            agent = Agent(agent_id, f"agent {agent_id}", incarnation, "", 1.0, 1, {}, lost_after_s, now, "replaced")
            self.noted_over(incarnation, agent.name, agent.state, now)
        self._limbo[incarnation] = agent
        return agent

    def gave(self, agent: Agent, jobs: int, size: float, largest: float) -> None:
        """A bundle went to it. `largest`: the size of its largest job."""
        agent.jobs += jobs
        agent.size += size
        if largest > agent.capacity:
            agent.alone = True
        self.pools.refresh(agent)

    def freed(self, agent: Agent, jobs: int, size: float) -> None:
        """It holds these no longer."""
        agent.jobs -= jobs
        agent.size = agent.size - size if agent.jobs else 0.0
        if not agent.jobs:
            agent.alone = False
            if self._limbo:
                self._limbo.pop(agent.incarnation, None)
        self.pools.changed = True
        self.pools.refresh(agent)

    # -- partitions

    def ready(self, partitions: list[tuple[int, int]]) -> None:
        """End offsets of free partitions, asked for just now (L22)."""
        for partition, offset in partitions:
            if partition not in self._taken:
                self._ready[partition] = offset

    def allot(self) -> list[Bucket] | None:
        """Five partitions whose end offset is known, the lowest first, one for each priority; None: there are fewer."""
        if len(self._ready) < BUCKETS:
            return None
        chosen = sorted(self._ready)[:BUCKETS]
        self._taken.update(chosen)
        return [Bucket(priority, partition, self.topic_id, self._ready.pop(partition)) for priority, partition in enumerate(chosen)]

    def wanted(self, agents: int) -> tuple[list[int], bool]:
        """Free partitions whose end offset should be asked for, and whether the topic must grow first."""
        need = agents * BUCKETS - len(self._ready)
        found: list[int] = []
        if need > 0 and self.partitions is not None:
            for partition in range(self.partitions):
                if partition not in self._taken and partition not in self._ready:
                    found.append(partition)
                    if len(found) == need:
                        break
        return found, self.partitions is not None and len(found) < need

    def picture(self) -> list[tuple[object, ...]]:
        """The agents, for comparing."""
        return sorted(
            (
                agent.agent_id,
                agent.name,
                agent.incarnation,
                agent.state,
                agent.capacity,
                agent.slots,
                tuple(agent.kinds.items()),
                agent.lost_after_s,
                tuple(agent.buckets),
                agent.jobs,
                round(agent.size, 6),
                agent.incarnation in self._limbo,
            )
            for agent in (*self._current.values(), *self._limbo.values())
        )
