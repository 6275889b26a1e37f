"""Why a job is where it is, for whoever asks (S17): looks at the books, and changes none."""

from jobyard.contracts.codec import encode
from jobyard.contracts.explanation import AgentFacts, Explanation, Why
from jobyard.contracts.job import Job
from jobyard.contracts.moments import Instant
from jobyard.contracts.priority import NAMES
from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.core.books.agents import Agent
from jobyard.coordinator.core.books.bundles import Bundles
from jobyard.coordinator.core.books.durations import Durations, size_class
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.books.pauses import Pauses
from jobyard.coordinator.core.books.reservations import Reservations
from jobyard.coordinator.core.books.share import AgedShare
from jobyard.coordinator.core.books.waiting import Strand, WaitingJobs
from jobyard.coordinator.core.events import Answered, Event
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.coordinator.core.questions import Answers, Command

_MOST_AGENTS = 5
_MOST_A_TICK = 20
"""Each may count what waits: who asks about thousands of jobs delays nobody's placement by much. The others are answered in the next ticks."""


class Explanations:
    """The step. Last of all, so that it tells how things stand after the pass. `left`: more have asked than one tick answers."""

    def __init__(
        self,
        waiting: WaitingJobs,
        bundles: Bundles,
        fleet: Fleet,
        durations: Durations,
        reservations: Reservations,
        share: AgedShare,
        pauses: Pauses,
    ) -> None:
        self._waiting = waiting
        self._bundles = bundles
        self._fleet = fleet
        self._durations = durations
        self._reservations = reservations
        self._share = share
        self._pauses = pauses
        self.left = False

    def decide(self, batch: Batch, answers: Answers, events: list[Event], now: Instant) -> None:
        """Answer who asked; about a job of which something became in this very tick, in the next one."""
        answered, self.left = 0, False
        for command in answers.commands:
            if command.verb == "explain" and command.job is not None:
                found = self._explained(command, command.job, now)
                if found is not None:
                    events.append(Answered(command.command_id, None, encode(found).decode()))
                    answered += 1
                    if answered == _MOST_A_TICK:
                        self.left = True
                        break

    def _explained(self, command: Command, job: Job, now: Instant) -> Explanation | None:
        spot = self._bundles.spot(job.id)
        if spot is not None:
            return self._placed(*spot)
        waiting = self._waiting.find(job.id)
        if waiting is not None:
            return self._waits(waiting, now)
        if self._waiting.touched(job.id):
            return None
        if command.waiting is not None:
            return self._waits(command.waiting, now)
        if command.state is not None:
            return self._about(job, "ended", state=command.state.value, attempt=command.attempt)
        return None

    def _about(self, job: Job, why: Why, **facts: object) -> Explanation:
        duration = self._durations.known(job.kind, size_class(job.size))
        seen = 0 if duration is None else duration.seen
        return Explanation(
            why=why,
            kind=job.kind,
            version=job.version,
            priority=NAMES[job.priority],
            size=job.size,
            mean_s=round(duration.mean, 6) if duration is not None and seen else None,
            ends=seen,
            **facts,  # type: ignore[arg-type]  # fields of the answer, as named below
        )

    def _placed(self, bundle: Bundle, index: int) -> Explanation:
        agent = self._fleet.holder(bundle.incarnation)
        started = bundle.running.get(index)
        reason = bundle.reason
        return self._about(
            bundle.jobs[index],
            "placed" if started is None else "running",
            since=bundle.placed_at if started is None else started,
            attempt=bundle.attempts[index],
            agent=agent.name if agent is not None else None,
            bucket=bundle.bucket,
            rule=reason.get("rule"),
            room=reason.get("room"),
            load=reason.get("load"),
            next=reason.get("next"),
            cancel_asked=bundle.cancels.get(index),
        )

    def _waits(self, waiting: Waiting, now: Instant) -> Explanation:
        job = waiting.job
        knowing = [agent for pool in self._fleet.pools.knowing(job.kind, job.version) for agent in pool.agents.values()]
        strand = self._waiting.standing(waiting)
        ahead, earlier, first, first_waits = 0, 0, None, None
        why: Why
        if job.run_at > now:
            why = "future"
        elif self._pauses.lane:
            why = "lane_paused"
        elif self._pauses.kind(job.kind):
            why = "kind_paused"
        elif not knowing:
            why = "no_agent"
        elif not any(self._fleet.pools.eligible(agent) for agent in knowing):
            why = "none_eligible"
        elif strand is None:
            why = "unread"
        else:
            ahead, earlier = self._waiting.before(waiting, self._placeable)
            head = strand.heap[0][3].job
            why = self._held_by(strand, knowing, now)
            if ahead:
                first, first_waits, why = head.id, why, "behind"
        return self._about(
            job,
            why,
            since=job.run_at if job.run_at <= now else None,
            run_at=job.run_at,
            attempt=waiting.attempt,
            highest=self._highest(job.kind),
            ahead=ahead,
            earlier=earlier,
            first=first,
            first_waits=first_waits,
            knowing=len(knowing),
            largest=self._fleet.pools.largest(job.kind, job.version) or None,
            agents=self._nearest(job, strand, knowing),
            aged=job.run_at <= now and self._share.aged(job.run_at, now),
        )

    def _held_by(self, strand: Strand, knowing: list[Agent], now: Instant) -> Why:
        """What holds the first of a strand."""
        if self._reservations.of(strand) is not None:
            return "drains_for_it"
        size = strand.heap[0][3].job.size
        open_to = {agent.agent_id for agent in self._reservations.open_to(strand.priority, now)}
        eligible = [agent for agent in knowing if self._fleet.pools.eligible(agent)]
        usable = [agent for agent in eligible if not agent.reserved or agent.agent_id in open_to]
        if any(agent.fits(size) for agent in usable):
            return "next_pass"
        if any(agent.fits(size) for agent in eligible):
            return "kept_for_another"
        return "no_room" if any(agent.held_jobs < agent.slots and not agent.alone for agent in usable) else "no_slot"

    def _placeable(self, strand: Strand) -> bool:
        """Nobody waits behind what nobody runs (S14), or what is paused (S15)."""
        return not self._pauses.kind(strand.kind) and self._fleet.pools.largest(strand.kind, strand.version) > 0.0

    def _highest(self, kind: str) -> int | None:
        return max(
            (pool.kinds[kind] for pool in self._fleet.pools.knowing(kind, 0) if kind in pool.kinds),
            default=None,
        )

    def _nearest(self, job: Job, strand: Strand | None, knowing: list[Agent]) -> list[AgentFacts]:
        kept = {reservation.agent.agent_id for reservation in self._reservations if reservation.strand is strand}

        def distance(agent: Agent) -> tuple[bool, bool, float, int]:
            eligible = self._fleet.pools.eligible(agent)
            return (agent.agent_id not in kept, not eligible, max(job.size - agent.free_room, 0.0), agent.agent_id)

        return [
            AgentFacts(
                agent=agent.name,
                state=_state(agent),
                free_slots=max(agent.slots - agent.held_jobs, 0),
                free_room=round(max(agent.free_room, 0.0), 6),
                capacity=agent.capacity,
                missing=round(max(min(job.size, agent.capacity) - agent.free_room, 0.0), 6),
                reserved=agent.reserved,
            )
            for agent in sorted(knowing, key=distance)[:_MOST_AGENTS]
        ]


def _state(agent: Agent) -> str:
    """What keeps it from taking work, if anything does."""
    if agent.state != "active":
        return agent.state
    if agent.suspended:
        return "suspended"
    return "active" if agent.met and agent.buckets else "not heard from yet"
