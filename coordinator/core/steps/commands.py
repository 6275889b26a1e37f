"""What people ask of one job, or of the lane: cancel, retry, reschedule, sync, pause, drain (L13, L21). A command may be refused, with a code and a reason."""

from jobyard.contracts.job import Job
from jobyard.contracts.moments import EARLIEST, LATEST, Instant
from jobyard.contracts.priority import NAMES, NUMBERS
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import State
from jobyard.coordinator.core.batch import Batch
from jobyard.coordinator.core.books.bundles import Bundles
from jobyard.coordinator.core.books.drains import Drains
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.books.pauses import Pauses
from jobyard.coordinator.core.books.waiting import WaitingJobs
from jobyard.coordinator.core.closing import MOST_PLACEMENTS
from jobyard.coordinator.core.events import AgentChanged, Answered, CancelSent, DrainSent, Event, Noted, NotHere, Reopened
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.coordinator.core.questions import Answers, Command, Modes, Questions

_RETRYABLE = frozenset({State.FAILED, State.CANCELLED, State.EXPIRED})
_MOST_USED = 32_767
_ABOUT_JOBS = frozenset({"cancel", "retry", "reschedule", "explain"})
_READ_AGAIN = {
    "sync": "the kinds have been read again",
    "pause_lane": "nothing is placed any more; what is placed goes on",
    "resume_lane": "jobs are placed again",
    "pause_kind": "nothing of the kind is placed any more; what is placed goes on",
    "resume_kind": "jobs of the kind are placed again",
    "drain_agent": "the agent gets nothing new, and was told so",
    "resume_agent": "the agent was told to go on",
    "fair_share": "submitters are served as the lane's setting says",
}
"""Verbs that mean: something was written by whoever asked; read it again. With the answer once that has been done."""


class Commands:
    """The step. All unanswered commands come with every look; those that cannot be answered yet stay."""

    def __init__(self, rules: Rules, bundles: Bundles, fleet: Fleet, waiting: WaitingJobs, pauses: Pauses, drains: Drains) -> None:
        self._rules = rules
        self._bundles = bundles
        self._fleet = fleet
        self._waiting = waiting
        self._pauses = pauses
        self._drains = drains
        self._intake_read_at: Instant | None = None
        self._syncs: set[int] = set()
        self._reading: set[int] = set()
        self._read: set[int] = set()
        self._not_here: set[int] = set()
        self._wants_intake_end = False
        # unknown jobs' commands → the first tick of ours that began after they were read; None: they were read in the last one
        self._seen: dict[int, Instant | None] = {}

    def hear(self, batch: Batch, questions: Questions, events: list[Event], now: Instant) -> None:
        """Cancels without an answer are sent again (L13)."""
        for bundle, index in self._bundles.cancels_due(now - self._rules.cancel_again_s):
            self._send(bundle, index, bundle.cancels[index], events, now)
        for command_id, seen in self._seen.items():
            if seen is None:
                self._seen[command_id] = now
        self._reading, self._syncs = self._syncs, set()
        questions.kinds = questions.modes = bool(self._reading)

    def decide(self, batch: Batch, answers: Answers, events: list[Event], now: Instant) -> None:
        """Answer what can be answered."""
        self._read |= self._reading
        if answers.modes is not None:
            self._modes(answers.modes, events)
        if batch.look or answers.commands:
            self._wants_intake_end = False
            given = {command.command_id for command in answers.commands}
            self._not_here &= given
            self._read &= given
            self._seen = {command_id: seen for command_id, seen in self._seen.items() if command_id in given}
        for command in answers.commands:
            if command.verb in _READ_AGAIN:
                self._read_again(command, events)
            elif command.verb not in _ABOUT_JOBS:
                self._refuse(command, "JY002", f"verb {command.verb!r} is unknown to this version", events)
            elif command.job_id is None:
                self._refuse(command, "JY002", f"{command.verb} needs a job", events)
            elif command.job is None:
                self._unknown(command, answers.held_left, events)
            elif command.verb != "explain":  # explanations come last
                self._job(command, command.job_id, events, now)
        if batch.intake_read_at is not None:
            # not before: jobs of this very tick may have been looked up before they were inserted
            self._intake_read_at = max(batch.intake_read_at, self._intake_read_at or 0.0)

    @property
    def wants_intake_end(self) -> bool:
        """Whether a command's job may still lie in the intake topic, unread (L21)."""
        return self._wants_intake_end

    @property
    def next_at(self) -> Instant | None:
        """When the next cancel is sent again; None: none is unanswered."""
        first = self._bundles.first_cancel
        return None if first is None else first + self._rules.cancel_again_s

    @property
    def syncing(self) -> bool:
        """Whether kinds and modes are to be read in the next tick."""
        return bool(self._syncs)

    # -- verbs

    def _read_again(self, command: Command, events: list[Event]) -> None:
        if command.command_id in self._read:
            events.append(Answered(command.command_id, None, _READ_AGAIN[command.verb]))
        else:
            self._syncs.add(command.command_id)

    def _modes(self, modes: Modes, events: list[Event]) -> None:
        """Placing heeds them in this very tick; an agent is told now, and again while its heartbeat disagrees."""
        pools = self._fleet.pools
        if self._pauses.told(modes):
            self._waiting.changed = True
        self._waiting.share_fairly(modes.fair_share)
        for name in self._drains.told(modes):
            agent = self._fleet.named(name)
            if agent is None:
                continue
            drained = self._drains.drained(name)
            if drained and agent.state == "active":  # resumed: by its heartbeat, since until then it gives everything back
                agent.state = "draining"
                events.append(AgentChanged(agent.agent_id, agent.name, agent.state, agent.capacity, agent.slots))
                pools.resized()
                pools.refresh(agent)
            events.append(DrainSent(agent.incarnation, drained, self._drains.stops(name)))

    def _unknown(self, command: Command, held_left: bool, events: list[Event]) -> None:
        """By the leader's clock alone: the database's, which says when the command was recorded, may be ahead of it."""
        seen = self._seen.setdefault(command.command_id, None)
        if seen is None or self._intake_read_at is None or self._intake_read_at < seen or held_left:
            self._wants_intake_end = True
        elif command.command_id not in self._not_here:
            self._not_here.add(command.command_id)
            events.append(NotHere(command.command_id))

    def _job(self, command: Command, job_id: str, events: list[Event], now: Instant) -> None:
        placed = self._bundles.spot(job_id)
        if placed is not None:
            self._placed(command, *placed, events, now)
            return
        waiting = self._waiting.find(job_id)
        if waiting is None and self._waiting.touched(job_id):
            return  # something became of it in this tick: the next look tells
        if waiting is None and command.waiting is not None:
            waiting = command.waiting
            waiting.stored = True
        if waiting is not None:
            self._pending(command, waiting, events, now)
        elif command.state is not None and command.job is not None:
            self._final(command, command.job, command.state, events, now)

    def _placed(self, command: Command, bundle: Bundle, index: int, events: list[Event], now: Instant) -> None:
        if command.verb != "cancel":
            done = "retried" if command.verb == "retry" else "rescheduled"
            self._refuse(command, "JY009", f"job {bundle.jobs[index].id} is placed: it cannot be {done}", events)
            return
        if index not in bundle.cancels:
            reason = _reason(command)
            events.append(
                Noted(
                    bundle.jobs[index].id,
                    bundle.kind,
                    "cancel_asked",
                    now,
                    attempt=bundle.attempts[index],
                    used=bundle.used[index],
                    actor=command.actor,
                    detail={"reason": reason, "fence": bundle.fence},
                )
            )
            self._send(bundle, index, reason, events, now)
        events.append(Answered(command.command_id, None, "asked: the agent that has the job was told to stop it, and its answer decides"))

    def _pending(self, command: Command, waiting: Waiting, events: list[Event], now: Instant) -> None:
        job = waiting.job
        if command.verb == "cancel":
            self._waiting.left(waiting)
            self._note(command, waiting, "cancelled", {"reason": _reason(command)}, events, now, State.CANCELLED)
            events.append(Answered(command.command_id, None, "cancelled"))
        elif command.verb == "retry":
            self._refuse(command, "JY009", f"job {job.id} waits: it will run without being retried", events)
        else:
            self._reschedule(command, waiting, events, now)

    def _reschedule(self, command: Command, waiting: Waiting, events: list[Event], now: Instant) -> None:
        job = waiting.job
        run_at, priority = job.run_at, job.priority
        asked_at, asked_priority = command.args.get("run_at"), command.args.get("priority")
        if asked_at is not None:
            if isinstance(asked_at, bool) or not isinstance(asked_at, int | float) or not EARLIEST <= asked_at < LATEST:
                self._refuse(command, "JY002", f"run_at {asked_at!r} must be seconds since 1970, before 2200", events)
                return
            run_at = round(float(asked_at), 6)
        if asked_priority is not None:
            if not isinstance(asked_priority, str) or asked_priority not in NUMBERS:
                self._refuse(command, "JY002", f"priority {asked_priority!r} is unknown; use one of {', '.join(NAMES)}", events)
                return
            priority = NUMBERS[asked_priority]
        detail: dict[str, object] = {
            "run_at": run_at,
            "priority": NAMES[priority],
            "was": {"run_at": job.run_at, "priority": NAMES[job.priority]},
        }
        if (run_at, priority) != (job.run_at, job.priority):
            self._waiting.moved(waiting, run_at, priority, now)
        self._note(command, waiting, "rescheduled", detail, events, now)
        events.append(Answered(command.command_id, None, "rescheduled"))

    def _final(self, command: Command, job: Job, state: State, events: list[Event], now: Instant) -> None:
        if command.verb != "retry" or state not in _RETRYABLE:
            self._refuse(command, "JY009", f"job {job.id} has ended as {state.value}", events)
            return
        if command.attempt >= MOST_PLACEMENTS:
            self._refuse(
                command, "JY009", f"job {job.id} has been placed {command.attempt} times; at most {MOST_PLACEMENTS} are allowed", events
            )
            return
        job.run_at = round(now, 6)
        bound = min(command.used + job.max_attempts, _MOST_USED)
        waiting = Waiting(job, command.attempt, command.used, command.interruptions, bound, "h")
        events.append(Reopened(job.id, now, bound, command.actor))
        self._note(command, waiting, "retried", {"reason": _reason(command), "was": state.value}, events, now)
        self._waiting.came(waiting, now)
        events.append(Answered(command.command_id, None, f"retried: {job.max_attempts} more attempts"))

    # -- inside

    def _send(self, bundle: Bundle, index: int, reason: str, events: list[Event], now: Instant) -> None:
        self._bundles.cancel_asked(bundle, index, reason, now)
        agent = self._fleet.holder(bundle.incarnation)
        name = agent.name if agent is not None else ""
        events.append(CancelSent(bundle.fence, bundle.jobs[index].id, bundle.bucket, name, bundle.incarnation, reason))

    def _note(
        self,
        command: Command,
        waiting: Waiting,
        event: str,
        detail: dict[str, object],
        events: list[Event],
        now: Instant,
        final: State | None = None,
    ) -> None:
        job = waiting.job
        attempt = waiting.attempt or None
        events.append(
            Noted(job.id, job.kind, event, now, final=final, attempt=attempt, used=waiting.used, actor=command.actor, detail=detail)
        )

    def _refuse(self, command: Command, code: str, reason: str, events: list[Event]) -> None:
        events.append(Answered(command.command_id, code, reason))


def _reason(command: Command) -> str:
    reason = command.args.get("reason")
    return reason[:1000] if isinstance(reason, str) else ""
