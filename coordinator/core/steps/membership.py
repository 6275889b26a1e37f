"""Who is there: hello, heartbeat, inventory, goodbye, silence (L6, L10 to L12, L15, L16, T4, T5, S12)."""

from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import Error, Goodbye, Heartbeat, Hello
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome
from jobyard.coordinator.core.batch import Batch, ReportsRead
from jobyard.coordinator.core.books.agents import Agent
from jobyard.coordinator.core.books.bundles import SHIFT, Bundles
from jobyard.coordinator.core.books.drains import Drains
from jobyard.coordinator.core.books.fleet import Fleet, fenced_reason
from jobyard.coordinator.core.books.newcomers import Newcomers
from jobyard.coordinator.core.closing import Closing
from jobyard.coordinator.core.events import (
    AgentChanged,
    AgentEnded,
    AgentJoined,
    AgentsHeard,
    AgentState,
    BucketsWanted,
    CancelSent,
    Confirmed,
    DrainEnded,
    DrainSent,
    Ended,
    Event,
    FencedOff,
    RepairAction,
    Repaired,
    Resent,
    Welcomed,
)
from jobyard.coordinator.core.questions import Answers, NewAgent, Questions

_HEARD_EVERY_S = 5.0
_GROW_EVERY_S = 10.0
_LOOK_AGAIN_S = 0.25
_REPAIRS_KNOWN = 100_000


class Membership:
    """The step. `outranked_by`: an epoch above ours that a heartbeat named (T1); None: there was none."""

    def __init__(
        self, rules: Rules, epoch: int, fleet: Fleet, newcomers: Newcomers, bundles: Bundles, drains: Drains, closing: Closing, now: Instant
    ) -> None:
        self._rules = rules
        self._epoch = epoch
        self._fleet = fleet
        self._newcomers = newcomers
        self._bundles = bundles
        self._drains = drains
        self._closing = closing
        self.outranked_by: int | None = None
        self._heard_written_at = now
        self._heard: dict[int, Instant] = {}
        self._look_at: Instant = now
        self._grew_at: Instant | None = None
        self._repaired: set[tuple[int, str]] = set()
        # of this tick
        self._new: dict[str, tuple[NewAgent, float]] = {}
        self._told: set[str] = set()
        self._names: set[str] = set()
        self._wanting = False
        self._welcome: dict[str, None] = {}
        self._confirm: dict[str, float] = {}
        self._changed: dict[str, Agent] = {}
        self._drain: dict[str, tuple[bool, bool]] = {}

    def hear(self, batch: Batch, questions: Questions, events: list[Event], now: Instant) -> None:
        """Reports come before silence (L10)."""
        self._new, self._told, self._names, self._wanting = {}, set(), set(), False
        self._welcome, self._confirm, self._changed, self._drain = {}, {}, {}, {}
        if batch.partitions is not None:
            if batch.partitions != self._fleet.partitions:
                self._grew_at = None
            self._fleet.partitions = batch.partitions
        self._fleet.ready(batch.buckets_ready)
        for read in batch.reports:
            self._report(read, events, now)
        self._answer(events)
        questions.agents.extend(new for new, _ in self._new.values())
        if now >= self._look_at or batch.reports_read_at is not None:
            self._silence(batch.reports_read_at, events, now)
        if self._heard and now - self._heard_written_at >= _HEARD_EVERY_S:
            events.append(AgentsHeard(dict(sorted(self._heard.items()))))
            self._heard = {}
            self._heard_written_at = now

    def decide(self, batch: Batch, answers: Answers, events: list[Event], now: Instant) -> None:
        """New incarnations have their numbers now, and end the current ones of their names, in the order in which the hellos were read (L11).

        One without a number ended long ago: it is told so, and ends nobody. Who still has no partitions gets them when they are ready (L22).
        """
        for new, stamp in self._new.values():
            number = answers.agents.get(new.incarnation)
            if number is None:
                events.append(FencedOff(new.name, new.incarnation, "unknown"))
                continue
            old = self._fleet.named(new.name)
            if old is not None:
                self._replaced(old, events, now)
            agent = Agent(number, new.name, new.incarnation, new.host, new.capacity, new.slots, new.kinds, new.lost_after_s, new.heard_at)
            agent.met = True
            agent.stamp = stamp
            if self._drains.drained(agent.name):  # it was lost, and is here again
                agent.state = "draining"
                events.append(AgentChanged(agent.agent_id, agent.name, agent.state, agent.capacity, agent.slots))
            self._fleet.joined(agent)
            self._look_at = min(self._look_at, agent.heard + self._rules.unreachable_after_s)
        if self._new or self._wanting or batch.buckets_ready or batch.partitions is not None:
            self._allot(events, now)

    def fence_all(self, events: list[Event], now: Instant) -> None:
        """The Master DB was restored from a backup: what it doesn't know any more may have been done by any incarnation, so all are over (T1).

        All that is open of them is lost, what has no `running` row too: the row may be what the backup lacks.
        """
        error = Error("Lost", "the Master DB was restored from a backup: every agent was fenced")
        for agent in [*self._fleet, *self._fleet.in_limbo()]:
            for bundle in self._bundles.of(agent.incarnation):
                lost = [(index, Outcome.LOST, error) for index in range(len(bundle.jobs)) if index not in bundle.ended]
                self._closing.decided(bundle, lost, now, events)
            if self._fleet.current(agent.incarnation) is not None:
                self._over(agent, "lost", events, now)

    def next_at(self, now: Instant) -> Instant | None:
        """When somebody may have been silent for too long; None: nobody is there. While only the end of the reports can tell, now and then."""
        if not self._fleet.holders:
            return None
        return self._look_at if self._look_at > now else now + _LOOK_AGAIN_S

    def wants_reports_end(self, now: Instant) -> bool:
        """Whether somebody has been silent for so long that only a look at the end of the reports can tell (L10)."""
        if now < self._look_at:
            return False
        return any(now - agent.heard >= self._patience(agent) for agent in self._fleet) or any(
            now - agent.heard >= agent.lost_after_s for agent in self._fleet.in_limbo()
        )

    # -- reports

    def _report(self, read: ReportsRead, events: list[Event], now: Instant) -> None:
        message = read.message
        incarnation = message.incarnation
        agent = self._fleet.current(incarnation)
        if agent is None:
            self._stranger(read, events, now)
            return
        if read.fetched > agent.heard:
            agent.heard = read.fetched
        self._heard[agent.agent_id] = agent.heard
        if not agent.met or agent.state == "unreachable":
            self._met(agent, events)
        repeated = message.seq <= agent.seq
        agent.seq = max(agent.seq, message.seq)
        for report in message.reports:
            if isinstance(report, Heartbeat) and not repeated:
                self._heartbeat(agent, report, read.fetched, events)
            elif isinstance(report, Hello):
                agent.stamp = max(agent.stamp, report.stamp)
                if agent.buckets:
                    self._welcome[incarnation] = None
                else:
                    self._wanting = True
            elif isinstance(report, Goodbye):
                self._goodbye(agent, events, now)
                return

    def _answer(self, events: list[Event]) -> None:
        """What the reports of this tick lead to, once for each agent however often it said the same."""
        for agent in self._changed.values():
            events.append(AgentChanged(agent.agent_id, agent.name, agent.state, agent.capacity, agent.slots))
        events.extend(Welcomed(incarnation) for incarnation in self._welcome)
        events.extend(Confirmed(incarnation, stamp) for incarnation, stamp in self._confirm.items())
        events.extend(DrainSent(incarnation, drain, stop) for incarnation, (drain, stop) in self._drain.items())

    def _stranger(self, read: ReportsRead, events: list[Event], now: Instant) -> None:
        """A report of an incarnation that is not current: a new one's hello, or one that must be told that it is over (L11, L16)."""
        message = read.message
        over = self._fleet.over(message.incarnation)
        limbo = self._fleet.limbo(message.incarnation)
        if limbo is not None:
            limbo.heard = max(limbo.heard, read.fetched)
            limbo.seq = max(limbo.seq, message.seq)
        for report in message.reports:
            if isinstance(report, Hello) and over is None:
                self._hello(message.agent, message.incarnation, report, read, events, now)
            elif isinstance(report, Heartbeat):
                self._look_above(report)  # it may have joined after the backup was made, and hears nobody below its epoch
            elif isinstance(report, Goodbye):
                if self._new.pop(message.incarnation, None) is not None:
                    # It came and went within one tick: it never joins, nothing is placed on it, and it ends nobody.
                    self._fleet.noted_over(message.incarnation, message.agent, "gone", now)
                elif limbo is not None:
                    self._nothing_more(limbo, events, now)
                    self._fleet.left(limbo, limbo.state, now)
                return
        if message.incarnation in self._new or message.incarnation in self._told:
            return
        self._told.add(message.incarnation)
        if over is None:
            events.append(FencedOff(message.agent, message.incarnation, "unknown"))
        else:
            events.append(FencedOff(over.name, message.incarnation, fenced_reason(over.state)))

    def _hello(self, name: str, incarnation: str, hello: Hello, read: ReportsRead, events: list[Event], now: Instant) -> None:
        """Whether it is new, and not one that ended long ago, the store tells."""
        known = self._new.get(incarnation)
        if known is not None:
            known[0].heard_at = max(known[0].heard_at, read.fetched)
            self._new[incarnation] = (known[0], max(known[1], hello.stamp))
            return
        taken = name in self._names or self._fleet.named(name) is not None
        there = self._fleet.holders + len(self._names)
        if not self._newcomers.admits(read, hello, known=taken, there=there, events=events, now=now):
            self._told.add(incarnation)
            return
        if not taken:
            self._names.add(name)
        kinds = dict(sorted(hello.kinds.items()))
        new = NewAgent(incarnation, name, hello.host, hello.capacity, hello.slots, kinds, self._rules.lost_after_s, read.fetched)
        self._new[incarnation] = (new, hello.stamp)

    def _heartbeat(self, agent: Agent, beat: Heartbeat, fetched: Instant, events: list[Event]) -> None:
        self._look_above(beat)
        if beat.epoch < self._epoch and agent.buckets:
            self._welcome[agent.incarnation] = None  # T5
        if beat.suspended:
            self._confirm[agent.incarnation] = max(beat.stamp, self._confirm.get(agent.incarnation, beat.stamp))
        drained, stops = self._drains.drained(agent.name), self._drains.stops(agent.name)
        if beat.draining != drained or stops:  # one that is to end is told until it has: its heartbeat doesn't say it knows
            self._drain[agent.incarnation] = (drained, stops)
        state: AgentState = "draining" if beat.draining or drained else "active"
        if agent.suspended is not beat.suspended:  # it would start nothing: A6
            agent.suspended = beat.suspended
            self._fleet.pools.changed = True
            self._fleet.pools.refresh(agent)
        changed = agent.state != state or agent.capacity != beat.capacity or agent.slots != beat.slots
        if changed:
            agent.state, agent.capacity, agent.slots = state, beat.capacity, beat.slots
            self._changed[agent.incarnation] = agent
            self._fleet.pools.resized()
        if changed or beat.others != (agent.others_jobs, agent.others_size):
            if beat.others[0] < agent.others_jobs or beat.others[1] < agent.others_size:
                self._fleet.pools.changed = True
            agent.others_jobs, agent.others_size = beat.others
            self._fleet.pools.refresh(agent)
        if beat.held is not None:
            self._inventory(agent, beat.held, fetched, events)

    def _look_above(self, beat: Heartbeat) -> None:
        """Whether the Master DB is older than what an agent has seen (T1). Only so far ahead as can be: no claim may use the epochs up."""
        if self._epoch < beat.epoch <= self._epoch + self._rules.epochs_ahead:
            self.outranked_by = max(self.outranked_by or 0, beat.epoch)

    def _inventory(self, agent: Agent, held: list[tuple[int, str]], fetched: Instant, events: list[Event]) -> None:
        """What it lacks is sent again, never requeued: its report may still be on its way. What it should not hold is cancelled (L12)."""
        has: set[int] = set()
        now_ended: set[tuple[int, str]] | None = None
        cancels = self._rules.inventory_cancels
        for fence, job_id in held:
            spot = self._bundles.spots.get(job_id, -1)
            if spot >> SHIFT == fence:
                has.add(spot)
            elif agent.buckets and cancels > 0:
                if now_ended is None:  # it may say so later in this very tick, in which outcomes are heard first
                    now_ended = {(event.bundle.fence, end.job) for event in events if isinstance(event, Ended) for end in event.ends}
                if (fence, job_id) in now_ended:
                    continue
                cancels -= 1
                bucket = agent.buckets[0].partition
                events.append(CancelSent(fence, job_id, bucket, agent.name, agent.incarnation, "it is not open under this fence"))
                self._repair("cancelled", fence, [job_id], agent, fetched, events)
        before = fetched - self._rules.inventory_s
        for bundle in self._bundles.of(agent.incarnation):
            if self._bundles.sent_at(bundle) >= before:
                continue
            base = bundle.fence << SHIFT
            lacking = [job.id for index, job in enumerate(bundle.jobs) if index not in bundle.ended and base | index not in has]
            if lacking:
                self._bundles.sent_again(bundle, fetched)
                events.append(Resent(bundle.fence))
                self._repair("sent_again", bundle.fence, lacking, agent, fetched, events)

    def _repair(self, action: RepairAction, fence: int, jobs: list[str], agent: Agent, at: Instant, events: list[Event]) -> None:
        """A row for each job the first time in this leadership: an inventory may name the same again for hours, as of a handler that does not end."""
        if len(self._repaired) > _REPAIRS_KNOWN:
            self._repaired.clear()
        new = [job for job in jobs if (fence, job) not in self._repaired]
        self._repaired.update((fence, job) for job in new)
        if new:
            events.append(Repaired("L12", action, fence, new, agent.name, at))

    # -- ends

    def _met(self, agent: Agent, events: list[Event]) -> None:
        """Heard from, for the first time under this epoch or after a silence: eligible at once, nothing moves (L6, S12)."""
        agent.met = True
        if agent.state == "unreachable":
            agent.state = "draining" if self._drains.drained(agent.name) else "active"
            self._changed[agent.incarnation] = agent
        self._fleet.pools.resized()
        self._fleet.pools.refresh(agent)

    def _goodbye(self, agent: Agent, events: list[Event], now: Instant) -> None:
        self._nothing_more(agent, events, now)
        self._over(agent, "gone", events, now)
        if self._drains.ended(agent.name):
            events.append(DrainEnded(agent.name))

    def _nothing_more(self, agent: Agent, events: list[Event], now: Instant) -> None:
        """What is still open of it was never started, but for what is known to run (L15)."""
        for bundle in self._bundles.of(agent.incarnation):
            self._closing.decided(
                bundle,
                [
                    (index, Outcome.LOST, Error("Lost", f"agent {agent.name!r} left while the job ran there"))
                    if index in bundle.running
                    else (index, Outcome.RELEASED, None)
                    for index in range(len(bundle.jobs))
                    if index not in bundle.ended
                ],
                now,
                events,
            )

    def _replaced(self, agent: Agent, events: list[Event], now: Instant) -> None:
        error = Error("Lost", f"agent {agent.name!r} was replaced by another process of its name")
        kept = False
        for bundle in self._bundles.of(agent.incarnation):
            kept |= self._closing.given_up(bundle, error, now, events, keep_careful=True)
        self._over(agent, "replaced", events, now, limbo=kept)
        events.append(FencedOff(agent.name, agent.incarnation, "replaced"))
        self._told.add(agent.incarnation)

    def _lost(self, agent: Agent, silent_s: float, events: list[Event], now: Instant) -> None:
        error = Error("Lost", f"nothing was heard of agent {agent.name!r} for {silent_s:.1f} s")
        for bundle in self._bundles.of(agent.incarnation):
            self._closing.given_up(bundle, error, now, events)
        if self._fleet.current(agent.incarnation) is None:
            self._fleet.left(agent, agent.state, now)  # it was replaced before
            return
        self._over(agent, "lost", events, now)
        events.append(FencedOff(agent.name, agent.incarnation, "lost"))
        self._told.add(agent.incarnation)

    def _over(self, agent: Agent, state: AgentState, events: list[Event], now: Instant, limbo: bool = False) -> None:
        self._heard.pop(agent.agent_id, None)
        self._changed.pop(agent.incarnation, None)
        self._fleet.left(agent, state, now, limbo)
        self._look_at = min(self._look_at, now)
        events.append(AgentEnded(agent.agent_id, agent.name, agent.incarnation, state, now))

    def _silence(self, read_at: Instant | None, events: list[Event], now: Instant) -> None:
        """Unreachable and lost, by the instant up to which reports had been read (L10). Without one nobody is judged."""
        if read_at is not None:
            for agent in list(self._fleet):
                silent = read_at - agent.heard
                if silent >= agent.lost_after_s:
                    self._lost(agent, silent, events, now)
                elif silent >= self._rules.unreachable_after_s and agent.state == "active":
                    agent.state = "unreachable"
                    events.append(AgentChanged(agent.agent_id, agent.name, "unreachable", agent.capacity, agent.slots))
                    self._fleet.pools.resized()
                    self._fleet.pools.refresh(agent)
            for agent in self._fleet.in_limbo():
                if read_at - agent.heard >= agent.lost_after_s:
                    self._lost(agent, read_at - agent.heard, events, now)
        moments = [agent.heard + self._patience(agent) for agent in self._fleet]
        moments += [agent.heard + agent.lost_after_s for agent in self._fleet.in_limbo()]
        self._look_at = min(moments, default=now + self._rules.unreachable_after_s)

    def _patience(self, agent: Agent) -> float:
        """How long it may be silent before something becomes of it."""
        return self._rules.unreachable_after_s if agent.state == "active" else agent.lost_after_s

    # -- partitions

    def _allot(self, events: list[Event], now: Instant) -> None:
        without = [agent for agent in self._fleet if not agent.buckets]
        while without:
            buckets = self._fleet.allot()
            if buckets is None:
                break
            agent = without.pop(0)
            agent.buckets = buckets
            self._fleet.pools.resized()
            self._fleet.pools.refresh(agent)
            events.append(AgentJoined(agent.agent_id, agent.name, agent.incarnation, buckets))
        if not without or self._fleet.partitions is None:
            if without:
                events.append(BucketsWanted([], False))
            return
        partitions, add = self._fleet.wanted(len(without))
        if add and self._grew_at is not None and now - self._grew_at < _GROW_EVERY_S:
            add = False
        if add:
            self._grew_at = now
        if partitions or add:
            events.append(BucketsWanted(partitions, add))
