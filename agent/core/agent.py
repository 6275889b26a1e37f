"""The agent's decisions: what is read, acknowledged and ended goes in with the time; what is to be done comes out.

Pure: no I/O, no thread, no clock, no chance. One thread calls it. `now` is the agent's own clock in seconds, which counts sleep; `at` is the
wall clock, an instant. The order of the calls of a turn: what came in (`hear_…`, `acknowledged`, `ended`, …), then `decide`.
"""

from collections.abc import Callable, Iterable

from jobyard.agent.core.actions import Action, Assign, Leave, Note, Reread, Say, Start, Stop
from jobyard.agent.core.backlog import Backlog
from jobyard.agent.core.custody import Custody
from jobyard.agent.core.ends import Ends
from jobyard.agent.core.fences import Fences, Known
from jobyard.agent.core.held import CLOSED, ENDED, QUEUED, Held
from jobyard.agent.core.incarnation import Incarnations, Life
from jobyard.agent.core.leaving import LAST_REPORTS_S, Leaving
from jobyard.agent.core.pulse import Pulse
from jobyard.agent.core.running import Running
from jobyard.agent.core.slots import Slots
from jobyard.agent.core.starting import Starting
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import Cancel, Confirm, ControlMessage, Drain, Fenced, Resume, Welcome
from jobyard.contracts.priority import PRIORITIES
from jobyard.contracts.reports import End, Goodbye, Heartbeat, Hello, Progress, Started
from jobyard.contracts.rules import RULES, Rules

LONGEST_WAIT_S = 1.0


class Agent:
    """One process's state, over all its incarnations. `fresh` gives a new incarnation's UUID; `kinds`: each kind with its handler's version."""

    def __init__(
        self,
        *,
        name: str,
        kinds: dict[str, int],
        capacity: float,
        slots: int,
        fresh: Callable[[], str],
        host: str = "",
        rules: Rules = RULES,
    ) -> None:
        self._rules = rules
        self._who = Incarnations(name, fresh)
        self.slots = Slots(slots, capacity)
        self.fences = Fences()
        self._backlog = Backlog(rules.release_after_s)
        self._running = Running(rules.started_after_s)
        self._starting = Starting(self._who, self._backlog, self.slots, self._running)
        self._ends = Ends()
        self._custody = Custody(self.fences, self._backlog, self._starting, self._running, self._ends)
        self._pulse = Pulse(kinds, host, self.slots, rules)
        self._leaving: Leaving | None = None
        self._draining = False
        self._stops = False
        self._suspended = False
        self._actions: list[Action] = []

    @property
    def life(self) -> Life:
        """The current incarnation."""
        return self._who.life

    @property
    def epoch(self) -> int:
        """The highest seen, over all topics (A2)."""
        return self._who.epoch

    @property
    def running(self) -> int:
        """How many jobs hold a slot."""
        return len(self._running)

    # ---- what comes in ----

    def hear_bundle(self, message: BundleMessage, now: float, at: float) -> None:
        """A message of a bucket."""
        life = self._who.life
        # Asked in this order: before welcome nothing is taken (A10), not even an epoch; and nothing is said after goodbye (A11).
        if not life.welcomed or self._silent or not self._who.accepts(message):
            return
        if message.open is not None:
            for held in self.fences.closed(message.bucket, message.fence, message.open, message.as_of):
                self._custody.close(held, now, self._actions)
        known = self.fences.get(message.fence)
        if known is None:
            self._new_bundle(message, life, now, at)
        else:
            self._known_bundle(message, known, now, at)

    def hear_control(self, message: ControlMessage, now: float, at: float) -> None:
        """A message of the control topic. Before welcome only welcome and fenced are taken (A10)."""
        if not (self._who.life.welcomed or isinstance(message, (Welcome, Fenced))) or not self._who.accepts(message):
            return
        match message:
            case Welcome():
                self._welcome(message, now)
            case Confirm():
                life = self._who.life
                life.lease.confirm(message.stamp, now, life.lost_after_s, self._rules.lease_margin_s)
            case Cancel():
                self._cancel_asked(message, now, at)
            case Drain():
                self._drain(True)
                self._stops = message.stop
            case Resume():
                self._drain(False)
            case Fenced():
                self._fenced(message, now)

    def acknowledged(self, says: Iterable[Say], now: float) -> None:
        """The broker has these. Only hello, heartbeat, started and progress are looked at."""
        for say in says:
            report = say.report
            if isinstance(report, (Hello, Heartbeat)):
                self._pulse.acknowledged(self._who.life, report, say.incarnation, now)
            elif isinstance(report, (Started, Progress)) and say.incarnation == self._who.life.id:
                known = self.fences.get(report.fence)
                held = known.jobs.get(report.job) if known else None
                if held is None:
                    continue
                if isinstance(report, Started):
                    self._starting.acknowledge(held)
                else:
                    self._running.progress_acknowledged(held)

    def begun(self, held: Held, now: float, at: float, deadline: float | None = None) -> None:
        """An executor has called the handler at `now`. May be left out for jobs that have ended by the time it would be told."""
        if self._running.has_slot(held):
            self._running.began(held, now, at, deadline)

    def ended(self, ended: Iterable[tuple[Held, End]], now: float) -> None:
        """Attempts whose code has really stopped (A11)."""
        life = self._who.life
        for held, end in ended:
            self._starting.free(held, now)
            if held.state == CLOSED:
                continue
            held.state = ENDED
            held.end = end
            self._ends.ended(held.life.id, held.fence, end)
            if held.life is not life:
                held.end = None

    def declined(self, held: Held, now: float, at: float) -> None:
        """An executor did not start it: the lease had ended, or it was to stop before it had begun."""
        self._starting.free(held, now)
        if held.state == CLOSED:
            return
        if held.life is not self._who.life:
            held.state = CLOSED
        elif held.cancelled:
            self._custody.cancelled(held, at)
        elif self._leaving or self._draining:
            self._custody.release(held, "the agent takes nothing new")
        elif self._backlog.is_overdue(held, now):
            self._custody.release(held, "not started in time")
        else:
            self._backlog.put_back(held)

    def progressed(self, held: Held, done: float, total: float | None, message: str) -> None:
        """What a handler says of itself; finite numbers, storable text."""
        if held.life is self._who.life:
            self._running.progressed(held, done, total, message)

    def terminate(self, now: float, grace_s: float) -> None:
        """SIGTERM; a second one hurries (A11)."""
        if self._leaving:
            self._leaving.hurry(now)
            return
        self._leaving = Leaving(now, grace_s, replaced=False)
        self._actions.append(Note("leaving", {"running": len(self._running), "grace_s": grace_s}))
        self._who.life.lease.end()
        self._pulse.hasten()
        self._custody.give_back_all("the agent shuts down", now)

    # ---- what comes out ----

    def decide(self, now: float, at: float, settled: bool, jumped_s: float = 0.0) -> list[Action]:
        """All that is to be done now. `settled`: the broker has acknowledged every report said so far. `jumped_s`: see Running."""
        actions, self._actions, self._running.jumped_s = self._actions, [], jumped_s
        starts: list[Held] = []
        for held in self._starting.acknowledged(starts, now):
            self._custody.release(held, "not started in time")
        if not self._leaving:
            for held in self._backlog.overdue(now):
                self._custody.release(held, "not started in time")
            if self._who.life.lease.holds(now):
                self._starting.heads(starts, actions, at)
        self._beat(actions, now)  # first: whoever reads what comes back must know by then that this one takes nothing new
        actions += self._running.tell(self._who.life, now)
        actions += self._ends.take()
        if self._draining and self._stops and not self._leaving and not len(self._running):
            self.terminate(now, LAST_REPORTS_S)
            actions += self._actions
            self._actions = []
        if self._leaving:
            self._leave(self._leaving, actions, now, settled)
        if starts:
            actions.append(Start(starts))
        return actions

    def next_due(self, now: float) -> float:
        """When `decide` must be called again, though nothing comes in. At most a second away."""
        due = now + LONGEST_WAIT_S
        pulse = None if self._silent else self._pulse.next_due()
        leaving = self._leaving.next_due() if self._leaving else None
        for when in (pulse, self._backlog.next_due(), self._running.next_due(now), leaving):
            if when is not None and when < due:
                due = when
        return due

    # ---- bundles ----

    def _new_bundle(self, message: BundleMessage, life: Life, now: float, at: float) -> None:
        fence, bucket, attempts, used, careful = message.fence, message.bucket, message.attempts, message.used, message.careful
        priority = life.priorities.get(bucket, PRIORITIES[-1])
        held = [
            Held(fence, bucket, job, attempts[i], used[i], careful[i] if careful else False, life, priority, now, now)
            for i, job in enumerate(message.jobs)
        ]
        jobs = {one.job.id: one for one in held}
        cancelled = self.fences.add(fence, bucket, jobs)
        if cancelled or message.cancel:
            for job in {**cancelled, **dict.fromkeys(message.cancel)}:
                if job in jobs:
                    self._custody.cancelled(jobs[job], at)
        if self._draining or self._leaving:  # it was sent before the leader had read that: elsewhere it need not wait for what runs here
            for one in held:
                if one.state == QUEUED:
                    self._custody.release(one, "the agent takes nothing new")
        else:
            self._backlog.add(held, priority, now)

    def _known_bundle(self, message: BundleMessage, known: Known, now: float, at: float) -> None:
        """Starts nothing; says again what was said, stops what is closed or to be cancelled (A4)."""
        listed, cancelled = [job.id for job in message.jobs], frozenset(message.cancel)
        for held in self.fences.unlisted(known, listed):
            self._custody.close(held, now, self._actions)
        for job in listed:
            one = known.jobs.get(job)
            if one is None:
                continue
            if not one.unfinished:
                self._custody.say_again(one)
            elif job in cancelled:
                self._custody.cancel(one, now, at, self._actions)

    # ---- control ----

    def _welcome(self, message: Welcome, now: float) -> None:
        life = self._who.life
        life.lost_after_s = message.lost_after_s
        life.lease.confirm(message.stamp, now, message.lost_after_s, self._rules.lease_margin_s)
        if not life.welcomed:
            life.welcomed = True
            self._pulse.welcomed(now)
            self._actions.append(Note("welcomed", {"incarnation": life.id, "buckets": [b.partition for b in message.buckets]}))
        if not self._leaving:
            if life.assigned(message.buckets):
                self._actions.append(Assign(message.buckets))
            self._drain(message.draining)

    def _cancel_asked(self, message: Cancel, now: float, at: float) -> None:
        known = self.fences.get(message.fence)
        if known is None:
            self.fences.cancel_first(message.fence, message.bucket, message.job)
            return
        held = known.jobs.get(message.job)
        if held is None:
            return
        if held.unfinished:
            self._custody.cancel(held, now, at, self._actions)
        else:
            self._custody.say_again(held)

    def _drain(self, draining: bool) -> None:
        if draining and not self._draining:
            self._pulse.hasten()
            for held in list(self._backlog.all()):
                self._custody.release(held, "the agent is drained")
        if not draining:
            self._stops = False
        if draining != self._draining:
            self._draining = draining
            self._actions.append(Note("draining" if draining else "resumed"))

    def _fenced(self, message: Fenced, now: float) -> None:
        """This incarnation is over: what is unstarted is dropped, what runs goes on under its old name (A12)."""
        life = self._who.life
        self._actions += (Note("fenced", {"incarnation": life.id, "reason": message.reason}), Assign([]))
        self._custody.drop(now)
        life.lease.end()
        if message.reason == "replaced":
            self._leaving = Leaving(now, 0.0, replaced=True)
            return
        for held in self._running.all():
            if held.life is life:
                self.slots.disown(held.job.size)
        self._who.renew()
        self._pulse.begin()
        self._draining = False

    # ---- telling ----

    def _beat(self, actions: list[Action], now: float) -> None:
        life = self._who.life
        suspended = life.welcomed and not self._leaving and not life.lease.holds(now)
        if suspended != self._suspended:
            self._suspended = suspended
            actions.append(Note("suspended" if suspended else "unsuspended"))
            if not suspended:
                self._pulse.hasten()  # a suspended one gets no work
        if not self._leaving and self._pulse.unheard(life, now):
            actions.append(Reread())
        if self._silent or not self._pulse.due(now):
            return
        if life.welcomed:
            held = list(self.fences.held()) if self._pulse.inventory_due(now) else None
            draining = self._draining or self._leaving is not None
            actions.append(Say(life.id, self._pulse.heartbeat(life, now, self.epoch, suspended, draining, held)))
        else:
            actions.append(Say(life.id, self._pulse.hello(life, now)))

    @property
    def _silent(self) -> bool:
        """No heartbeat any more: after goodbye, as a replaced one, or on the way out before a welcome."""
        leaving = self._leaving
        return leaving is not None and (leaving.replaced or leaving.said_goodbye or not self._who.life.welcomed)

    def _leave(self, leaving: Leaving, actions: list[Action], now: float, settled: bool) -> None:
        said = any(isinstance(action, Say) for action in actions)
        match leaving.step(now, len(self._running) > 0, settled and not said):
            case "interrupt":
                actions += [Stop(held, "interrupted") for held in self._running.all()]
            case "goodbye":
                if self._who.life.introduced:
                    actions.append(Say(self._who.life.id, Goodbye()))
            case "left":
                if leaving.replaced:
                    actions.append(Leave(1, f"another process has taken the name {self._who.name!r}; give each agent its own"))
                else:
                    actions.append(Leave(0, "goodbye was acknowledged"))
            case "late":
                what = f"{len(self._running)} jobs still run" if len(self._running) else "not all reports were acknowledged"
                code = 1 if leaving.replaced else 5
                actions.append(Leave(code, f"left without goodbye: {what}"))
            case "wait":
                pass
