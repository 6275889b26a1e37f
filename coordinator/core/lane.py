"""The lane: builds books and steps, and is the order of thinking. No decision of its own, no I/O, no clock."""

from jobyard.contracts.control import Bucket
from jobyard.contracts.moments import Instant, later
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.core.books.agents import Agent
from jobyard.coordinator.core.books.backlog import Backlogs
from jobyard.coordinator.core.books.bundles import Bundles
from jobyard.coordinator.core.books.drains import Drains
from jobyard.coordinator.core.books.durations import Durations
from jobyard.coordinator.core.books.fleet import Fleet, fenced_reason
from jobyard.coordinator.core.books.kinds import Kinds
from jobyard.coordinator.core.books.newcomers import Newcomers
from jobyard.coordinator.core.books.pauses import Pauses
from jobyard.coordinator.core.books.pools import Pools
from jobyard.coordinator.core.books.quarantine import Quarantine
from jobyard.coordinator.core.books.reservations import Reservations
from jobyard.coordinator.core.books.share import AgedShare
from jobyard.coordinator.core.books.turns import Turns
from jobyard.coordinator.core.books.waiting import WaitingJobs
from jobyard.coordinator.core.choice import Choice
from jobyard.coordinator.core.closing import Closing
from jobyard.coordinator.core.dispatch import Dispatch, Outgoing
from jobyard.coordinator.core.events import BucketsMoved, CancelSent, Event, FencedOff, Repaired, Resent, Started, Welcomed
from jobyard.coordinator.core.places import Bundle
from jobyard.coordinator.core.questions import Answers, Questions
from jobyard.coordinator.core.snapshot import AgentRow, Snapshot
from jobyard.coordinator.core.steps.admission import Admission
from jobyard.coordinator.core.steps.commands import Commands
from jobyard.coordinator.core.steps.explanations import Explanations
from jobyard.coordinator.core.steps.membership import Membership
from jobyard.coordinator.core.steps.outcomes import Outcomes
from jobyard.coordinator.core.steps.placement import Placement
from jobyard.coordinator.core.steps.readahead import Readahead


class Lane:
    """One leadership's memory of a lane. After any failure it is thrown away (L3): there is no undo."""

    def __init__(
        self, snapshot: Snapshot, *, lane: str, rules: Rules, epoch: int, now: Instant, bucket_topic_id: str, report_topic: str
    ) -> None:
        self.name = lane
        self.epoch = epoch
        self._now = now
        self._bucket_topic_id = bucket_topic_id
        self._opening: list[Event] = []
        self._events: list[Event] = []

        self._kinds = Kinds(snapshot.kinds)
        self._durations = Durations(rules, snapshot.durations)
        self._backlogs = Backlogs(rules)
        self._turns = Turns(snapshot.modes.fair_share)
        self._waiting = WaitingJobs(self._backlogs, self._durations, self._turns)
        self._fleet = Fleet(Pools(rules.window_s), bucket_topic_id)
        self._bundles = Bundles(snapshot.fence)
        self._quarantine = Quarantine(rules)
        self._pauses = Pauses(snapshot.modes)
        self._drains = Drains(snapshot.modes)

        closing = Closing(rules, self._bundles, self._fleet, self._waiting)
        self._outcomes = Outcomes(self._bundles, self._fleet, self._waiting, self._durations, closing, self._quarantine, report_topic)
        newcomers = Newcomers(rules, self._quarantine, report_topic, now)
        self._membership = Membership(rules, epoch, self._fleet, newcomers, self._bundles, self._drains, closing, now)
        self._admission = Admission(rules, self._kinds, self._waiting, self._quarantine, snapshot.held)
        self._commands = Commands(rules, self._bundles, self._fleet, self._waiting, self._pauses, self._drains)
        self._readahead = Readahead(self._backlogs, self._waiting, self._fleet.pools)
        reservations = Reservations(self._fleet.pools, rules.reserved_share, rules.aging_s)
        share = AgedShare(self._waiting, rules.aging_s, rules.aged_every)
        choice = Choice(rules, self._fleet.pools, reservations, self._durations, self._pauses)
        self._placement = Placement(rules, self._waiting, self._fleet, self._bundles, reservations, share, choice, self._pauses)
        self._explanations = Explanations(self._waiting, self._bundles, self._fleet, self._durations, reservations, share, self._pauses)
        self._dispatch = Dispatch(epoch, self._bundles, self._fleet, self._drains)
        for row in snapshot.backlog:
            self._backlogs.of(row.priority, row.kind, row.flow).next_at = row.next_at

    @classmethod
    def load(
        cls,
        snapshot: Snapshot,
        *,
        lane: str,
        rules: Rules,
        epoch: int,
        now: Instant,
        topic_ids: dict[str, str],
        topics: LaneTopics,
        reports_lost: bool = False,
        fence_all: bool = False,
    ) -> "Lane":
        """The lane of a new leadership (T2 to T4). `topic_ids`: by name, as Kafka says now. `reports_lost`: the stored offset of the reports topic
        lies beyond its end, which is as bad as a new topic (L17). `fence_all`: the Master DB was restored from a backup (T1); until `opening` has
        been committed, each further take-over must say so again."""
        reports = topics.reports.name
        made = cls(
            snapshot,
            lane=lane,
            rules=rules,
            epoch=epoch,
            now=now,
            bucket_topic_id=topic_ids[topics.buckets.name],
            report_topic=reports,
        )
        made._load_agents(snapshot.agents, rules, now)
        made._load_bundles(snapshot.bundles, rules, now)
        if reports_lost or (reports in snapshot.offsets and snapshot.offsets[reports][0] != topic_ids[reports]):
            made._mark_started(now)
        if fence_all:
            made._fence_all(now)
        return made

    def opening(self) -> list[Event]:
        """What is written and sent first: ends of all (T1), marks of lost topics (L17), then welcome, `fenced`, every open bundle, every cancel asked
        (T5, T6)."""
        events, self._opening = self._opening, []
        events.extend(Welcomed(agent.incarnation) for agent in self._fleet if agent.buckets)
        for incarnation, over in self._fleet.ended():
            if over.state != "gone":
                events.append(FencedOff(over.name, incarnation, fenced_reason(over.state)))
        bundles = sorted(self._bundles, key=lambda bundle: (bundle.bucket, bundle.fence))
        events.extend(Resent(bundle.fence) for bundle in bundles)
        for bundle in bundles:
            agent = self._fleet.holder(bundle.incarnation)
            name = agent.name if agent is not None else ""
            for index in sorted(bundle.cancels):
                reason = bundle.cancels[index]
                events.append(CancelSent(bundle.fence, bundle.jobs[index].id, bundle.bucket, name, bundle.incarnation, reason))
        return events

    def hear(self, batch: Batch, now: Instant) -> Questions:
        """Facts enter the books; what must be looked up comes out."""
        self._now = now
        questions, self._events = Questions(), []
        for step in (self._outcomes, self._membership, self._admission, self._commands, self._readahead):
            step.hear(batch, questions, self._events, now)  # reports before silence (L10)
        return questions

    def decide(self, batch: Batch, answers: Answers, now: Instant) -> list[Event]:
        """All that happened and was decided since `hear`."""
        self._now = now
        events, self._events = self._events, []
        for step in (self._outcomes, self._membership, self._commands, self._admission, self._readahead, self._placement):
            step.decide(batch, answers, events, now)  # late reports, who joined, commands, the new, the due, the pass
        self._explanations.decide(batch, answers, events, now)
        self._quarantine.settle(events, now)
        self._bundles.settle(events)
        self._durations.settle(events, now)
        self._waiting.settle(events)  # who needs a pending row, whose row goes: set operations
        return events

    def message(self, event: Event) -> Outgoing | None:
        """What an event says to an agent, by the state of the last commit (L5). Not between `hear` and the commit."""
        return self._dispatch.message(event)

    @property
    def fence(self) -> int:
        """The last one given."""
        return self._bundles.fence

    @property
    def in_memory(self) -> tuple[int, int]:
        """How many waiting jobs memory holds, and the bytes of their arguments."""
        return self._waiting.count, self._backlogs.bytes

    @property
    def outranked_by(self) -> int | None:
        """An epoch above ours that an agent has seen: the Master DB was restored from a backup (T1)."""
        return self._membership.outranked_by

    def next_at(self, now: Instant) -> Instant | None:
        """When the lane needs a tick though nothing comes in; in the past: at once; None: never."""
        moments = (self._membership.next_at(now), self._commands.next_at, self._admission.next_at, self._readahead.next_at)
        first = min((moment for moment in moments if moment is not None), default=None)
        if self._commands.syncing or self._explanations.left:
            return now
        return first

    def wants_reports_end(self, now: Instant) -> bool:
        """Whether the end offset of the reports topic should be asked for (L10)."""
        return self._membership.wants_reports_end(now)

    @property
    def wants_intake_end(self) -> bool:
        """Whether the end offset of the intake topic should be asked for (L21)."""
        return self._commands.wants_intake_end

    @property
    def busy(self) -> bool:
        """Whether the lane has something to do that nothing from outside will wake it for: due rows to read, jobs held back, kinds to sync."""
        due = self._readahead.next_at
        return self._commands.syncing or self._explanations.left or self._admission.held or (due is not None and due <= self._now)

    def picture(self) -> dict[str, object]:
        """All that a take-over must know as well, in a form to be compared. What is only learned (rates, means) is left out."""
        return {
            "fence": self.fence,
            "kinds": self._kinds.picture(),
            "waiting": self._waiting.picture(),
            "bundles": self._bundles.picture(),
            "agents": self._fleet.picture(),
            "held": self._admission.held,
            "paused": self._pauses.picture(),
            "fair_share": self._turns.fair,
            "drained": self._drains.picture(),
        }

    # -- the take-over

    def _load_agents(self, rows: list[AgentRow], rules: Rules, now: Instant) -> None:
        for row in rows:
            agent = Agent(
                row.agent_id,
                row.name,
                row.incarnation,
                row.host,
                row.capacity,
                row.slots,
                row.kinds,
                row.lost_after_s,
                now,
                row.state,
            )  # T4: heard now; not met before it is heard from (L6)
            agent.buckets = sorted(row.buckets, key=lambda bucket: bucket.priority)
            if row.ended:
                self._fleet.found_over(agent, now)
                continue
            if agent.buckets and any(bucket.topic_id != self._bucket_topic_id for bucket in agent.buckets):
                agent.buckets = [Bucket(bucket.priority, bucket.partition, self._bucket_topic_id, 0) for bucket in agent.buckets]
                self._opening.append(BucketsMoved(agent.agent_id, agent.buckets))
            self._fleet.joined(agent)

    def _load_bundles(self, bundles: list[Bundle], rules: Rules, now: Instant) -> None:
        for bundle in sorted(bundles, key=lambda one: one.fence):
            self._bundles.opened(bundle)
            self._bundles.sent_again(bundle, now)
            for index in sorted(bundle.cancels):
                self._bundles.cancel_asked(bundle, index, bundle.cancels[index], now)
            agent = self._fleet.holder(bundle.incarnation) or self._fleet.found_in_limbo(
                bundle.agent_id, bundle.incarnation, rules.lost_after_s, now
            )
            sizes = [job.size for index, job in enumerate(bundle.jobs) if index not in bundle.ended]
            self._fleet.gave(agent, len(sizes), sum(sizes), max(sizes, default=0.0))

    def _fence_all(self, now: Instant) -> None:
        self._membership.fence_all(self._opening, now)
        self._bundles.settle(self._opening)
        self._waiting.settle(self._opening)

    def _mark_started(self, now: Instant) -> None:
        """The reports topic is another: whatever is open may have been started, and its report destroyed (L17)."""
        for bundle in self._bundles:
            marked = [index for index in range(len(bundle.jobs)) if index not in bundle.ended and index not in bundle.running]
            for index in marked:
                bundle.running[index] = now
                timeout = bundle.jobs[index].timeout_s
                self._opening.append(Started(bundle, index, now, None if timeout is None else later(now, timeout)))
            if marked:
                agent = self._fleet.holder(bundle.incarnation)
                jobs = [bundle.jobs[index].id for index in marked]
                self._opening.append(Repaired("L17", "marked_started", bundle.fence, jobs, agent.name if agent is not None else "", now))
