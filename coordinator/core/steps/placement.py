"""The pass: due jobs go to agents, in order (S2, S4), but for the share of those that have waited longest (S3). It costs what it places, not what waits."""

from jobyard.contracts.moments import LATEST, Instant
from jobyard.contracts.priority import PRIORITIES
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.core.books.bundles import Bundles
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.books.pauses import Pauses
from jobyard.coordinator.core.books.reservations import Reservations
from jobyard.coordinator.core.books.share import AgedShare
from jobyard.coordinator.core.books.strand import Strand
from jobyard.coordinator.core.books.waiting import WaitingJobs
from jobyard.coordinator.core.choice import Choice, Chosen
from jobyard.coordinator.core.events import Event, Placed
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.coordinator.core.questions import Answers

_CRITICAL = PRIORITIES[0]


class Placement:
    """The step."""

    def __init__(
        self,
        rules: Rules,
        waiting: WaitingJobs,
        fleet: Fleet,
        bundles: Bundles,
        reservations: Reservations,
        share: AgedShare,
        choice: Choice,
        pauses: Pauses,
    ) -> None:
        self._rules = rules
        self._waiting = waiting
        self._fleet = fleet
        self._bundles = bundles
        self._reservations = reservations
        self._share = share
        self._choice = choice
        self._pauses = pauses

    def decide(self, batch: Batch, answers: Answers, events: list[Event], now: Instant) -> None:
        """One pass, if anything has changed since the last; and another if an agent is kept no longer, since others may have sat out that fit there."""
        waiting, pools = self._waiting, self._fleet.pools
        while not self._pauses.lane and (waiting.changed or pools.changed):
            self._choice.begin()
            waiting.changed = pools.changed = False
            self._pass(events, now)

    def _pass(self, events: list[Event], now: Instant) -> None:
        waiting, pools, share = self._waiting, self._fleet.pools, self._share
        share.begin()
        sat_out: list[Strand] = []
        for priority in PRIORITIES:
            while (strand := waiting.first(priority)) is not None:
                if pools.full and not self._reservations:
                    break
                oldest = share.turn(now)
                if oldest is not None and oldest is not strand:
                    chosen = self._choice.agent(oldest, now)
                    if chosen is None:
                        self._choice.holds_up(oldest)  # or short urgent ones would fill each slot before it is seen free
                        share.found_no_room()
                    else:
                        self._place(oldest, chosen, events, now, aged=True)
                        share.served(1, aged=True, first=False)
                    continue
                chosen = self._choice.agent(strand, now)
                if chosen is None:
                    self._choice.sat_out(strand)
                    waiting.sits_out(strand)
                    sat_out.append(strand)
                    continue
                share.served(self._place(strand, chosen, events, now), aged=False, first=oldest is strand)
        waiting.returns(sat_out)

    def _place(self, strand: Strand, chosen: Chosen, events: list[Event], now: Instant, *, aged: bool = False) -> int:
        """A bundle from the head of the strand; how many jobs."""
        agent = chosen.agent
        jobs, room = (1, 0.0) if aged else self._choice.room(strand, chosen)
        urgent = self._share.aged(strand.heap[0][0], now)  # in its own bucket it would starve a second time, behind the higher ones
        self._choice.placed(strand)
        due_by = self._share.since(now) if urgent else LATEST
        taken = self._waiting.take(strand, jobs, room, agent.capacity, self._rules.batch_bytes, due_by)
        bundle = self._bundle(strand, chosen, taken, agent.buckets[_CRITICAL if urgent else strand.priority].partition, now)
        if aged:
            bundle.reason["rule"] = "aged"
        self._bundles.opened(bundle)
        sizes = [job.size for job in bundle.jobs]
        self._fleet.gave(agent, len(sizes), sum(sizes), max(sizes))
        events.append(Placed(bundle))
        return len(sizes)

    def _bundle(self, strand: Strand, chosen: Chosen, taken: list[Waiting], bucket: int, now: Instant) -> Bundle:
        used = [waiting.used for waiting in taken]
        bounds = [waiting.bound for waiting in taken]
        return Bundle(
            fence=self._bundles.next_fence(),
            agent_id=chosen.agent.agent_id,
            incarnation=chosen.agent.incarnation,
            bucket=bucket,
            kind=strand.kind,
            priority=strand.priority,
            placed_at=now,
            reason={"rule": chosen.rule, "room": chosen.room, "load": chosen.load, "next": chosen.next},
            jobs=[waiting.job for waiting in taken],
            attempts=[waiting.attempt + 1 for waiting in taken],
            used=used,
            interruptions=[waiting.interruptions for waiting in taken],
            bounds=bounds,
            careful=[before + 1 >= bound for before, bound in zip(used, bounds, strict=True)],
        )
