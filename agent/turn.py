"""The agent's loop: take what came in, let the core decide, do what it says.

In a thread of its own, with everything that keeps the agent alive: heartbeats wait for no job. A handler may block the event loop for as long as
it likes. Only code that keeps the interpreter's lock delays this thread: a call into C that does not release it (a regular expression that
backtracks for 20 s, a huge `json.loads`). After `lost_after` of that, 15 s, the agent is declared lost.
"""

from typing import Protocol

from jobyard.agent.core.actions import Assign, Leave, Reread, Say, Start, Stop
from jobyard.agent.core.agent import Agent
from jobyard.agent.executors.executor import Clock, Executor
from jobyard.agent.inbox import Inbox, Taken
from jobyard.agent.reporter import Reporter
from jobyard.agent.telemetry import Telemetry
from jobyard.contracts.control import Bucket
from jobyard.process.points import Point, reached


class Assigning(Protocol):
    """Who reads the buckets."""

    def assign(self, buckets: list[Bucket]) -> None: ...
    def renew(self) -> None: ...


class Turn:
    """One loop over the seams; `run` is its thread's body."""

    def __init__(
        self,
        agent: Agent,
        inbox: Inbox,
        reporter: Reporter,
        reader: Assigning,
        executor: Executor,
        clock: Clock,
        telemetry: Telemetry,
        grace_s: float,
    ) -> None:
        self._agent = agent
        self._inbox = inbox
        self._reporter = reporter
        self._reader = reader
        self._executor = executor
        self._clock = clock
        self._telemetry = telemetry
        self._grace_s = grace_s

    def run(self) -> Leave:
        """Until the core says to leave."""
        wait_s = 0.0
        while True:
            taken = self._inbox.take(wait_s, bundles=not self._reporter.full)
            now = self._clock.now()
            acknowledged = self._hear(taken, now)
            reached(Point.TURN_HEARD, taken, acknowledged, self._reporter.settled)
            left = self._decide(now)
            if left is not None:
                return left
            now = self._clock.now()
            due = self._agent.next_due(now)
            again = self._reporter.next_due()
            wait_s = (due if again is None else min(due, again)) - now

    def _hear(self, taken: Taken, now: float) -> list[Say]:
        """Returns what the broker has acknowledged since the last turn, as far as that means something to the core."""
        agent, at = self._agent, self._clock.wall()
        acknowledged: list[Say] = []
        if taken.deliveries:
            acknowledged = self._reporter.delivered(taken.deliveries, now)
            agent.acknowledged(acknowledged, now)
        for control in taken.control:
            agent.hear_control(control, now, at)
        for bundle in taken.bundles:
            agent.hear_bundle(bundle, now, at)
        if taken.ended:
            agent.ended(taken.ended, now)
        for held in taken.declined:
            agent.declined(held, now, at)
        for held, began, began_at, deadline in taken.begun:
            agent.begun(held, began, began_at, deadline)
        for held, (done, total, message) in taken.progress.items():
            agent.progressed(held, done, total, message)
        for _ in range(taken.signals):
            agent.terminate(now, self._grace_s)
        return acknowledged

    def _decide(self, now: float) -> Leave | None:
        clock = self._clock
        actions = self._agent.decide(now, clock.wall(), self._reporter.settled, clock.now() - clock.ran())
        says: list[Say] = []
        left: Leave | None = None
        for action in actions:
            if isinstance(action, Say):
                says.append(action)
            elif isinstance(action, Start):
                # Reports first: the broker works on them while this thread hands the jobs over.
                self._say(says, now)
                says = []
                self._executor.start(action.held)
            elif isinstance(action, Stop):
                self._executor.stop(action.held, action.why)
            elif isinstance(action, Assign):
                self._reader.assign(action.buckets)
            elif isinstance(action, Reread):
                self._reader.renew()
            elif isinstance(action, Leave):
                left = action
        self._say(says, now)
        self._telemetry.saw(actions)
        return left

    def _say(self, says: list[Say], now: float) -> None:
        reached(Point.REPORTS_DECIDED, says)
        self._reporter.say(says, now)
        reached(Point.REPORTS_SENT, says)
