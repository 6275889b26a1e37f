"""An agent as a process: builds its parts from plain values, starts and ends them."""

import gc
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from jobyard.agent.core.actions import Leave
from jobyard.agent.core.agent import Agent
from jobyard.agent.executors.attempt import Surroundings
from jobyard.agent.executors.dispatch import Dispatch
from jobyard.agent.inbox import Inbox
from jobyard.agent.reader import Reader
from jobyard.agent.reporter import Reporter
from jobyard.agent.resources import Resources
from jobyard.agent.telemetry import Telemetry
from jobyard.agent.turn import Turn
from jobyard.api.app import App
from jobyard.contracts.errors import ConfigurationError, JobyardError, ServiceUnavailable
from jobyard.contracts.rights import rights_of
from jobyard.contracts.rules import RULES, Rules
from jobyard.contracts.topics import lane_topics
from jobyard.kafka.admin import Admin
from jobyard.kafka.consumer import open_consumer
from jobyard.kafka.producer import open_producer
from jobyard.process.lease_clock import LeaseClock
from jobyard.process.lifecycle import Supervisor
from jobyard.process.signals import Signals

_log: Final = logging.getLogger(__name__)

_KAFKA_AGAIN_S: Final = 1.0
_CLOSE_S: Final = 2.0
_COLLECT: Final = (10_000, 20, 20)
"""A turn makes some thousand objects that live for milliseconds; with Python's own (700, 10, 10) a quarter of its time went into looking at them."""
_RESOURCES_S: Final = 5.0


def default_name() -> str:
    """HOST-PID."""
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, kw_only=True)
class AgentPlan:
    """What one agent is to be. `slots`: jobs at once. `capacity`: size units at once, None = as many as slots. `grace_s`: see SIGTERM in the design."""

    app: App
    bootstrap_servers: str
    lane: str = "default"
    namespace: str = "jobyard"
    kafka_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    slots: int = 10
    capacity: float | None = None
    name: str = field(default_factory=default_name)
    grace_s: float = 25.0
    rules: Rules = RULES

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= 100_000:
            raise ConfigurationError(f"slots={self.slots} must lie between 1 and 100,000")
        if self.capacity is not None and not 0 < self.capacity <= 1e12:
            raise ConfigurationError(f"capacity={self.capacity} must be a number above 0, at most 1e12")
        if not (1 <= len(self.name) <= 200 and self.name.isprintable()):
            raise ConfigurationError(f"name={self.name[:60]!a} must be 1 to 200 printable characters")
        if not 0 <= self.grace_s < float("inf"):
            raise ConfigurationError(f"grace_s={self.grace_s} must be a finite number of seconds, 0 or more")


class AgentProcess:
    """One agent in threads of this process: `start`, `terminate` (twice: at once), `wait`. `wake` is called when it has ended, in its thread."""

    def __init__(self, plan: AgentPlan, wake: Callable[[], None] = lambda: None) -> None:
        self._plan = plan
        self._done = threading.Event()
        self._wake = wake
        self._inbox = Inbox()
        self._asked = 0
        self._left: Leave | None = None
        self._denied: JobyardError | None = None
        self._supervisor = Supervisor(self._ended)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Load the application and begin. Raises what its imports raise; TypeError for a handler that can't work."""
        self._plan.app.load()
        self._thread = self._supervisor.thread("jobyard-agent", self._run)
        self._thread.start()

    def terminate(self) -> None:
        """End in order; asked again: at once. From any thread, but not from a signal handler."""
        self._asked += 1
        self._inbox.signalled()

    def ended(self, timeout_s: float | None) -> bool:
        """Wait until it has ended, for at most `timeout_s`."""
        return self._done.wait(timeout_s)

    def result(self) -> Leave:
        """How it left, once it has ended. Raises what it died of, or why it may not read any more."""
        error = self._supervisor.error or self._denied
        if error is not None:
            raise error
        if self._left is None:
            raise RuntimeError("the agent has not ended")
        return self._left

    def _ended(self) -> None:
        self._done.set()
        self._wake()

    def _run(self) -> None:
        plan = self._plan
        clock = LeaseClock()
        around = Surroundings(
            lane=plan.lane,
            clock=clock,
            facts=self._inbox,
            middlewares=plan.app.middlewares,
            max_result_bytes=plan.rules.max_result_bytes,
        )
        executors = Dispatch(plan.app.handlers, around, plan.slots)
        resources = Resources(executors.tasks, plan.app.resources)
        try:
            resources.open()
            try:
                self._left = self._work(executors, clock)
            finally:
                try:
                    resources.close(_RESOURCES_S)
                except Exception as error:  # the agent has said goodbye; what the application could not close ends with the process
                    _log.warning("resources were not closed in order: %s: %s", type(error).__name__, error)
        finally:
            executors.close()
        self._ended()

    def _work(self, executors: Dispatch, clock: LeaseClock) -> Leave:
        plan = self._plan
        topics = lane_topics(plan.namespace, plan.lane)
        options = plan.kafka_options
        admin = Admin(plan.bootstrap_servers, options)
        reader = Reader(
            lambda: open_consumer(plan.bootstrap_servers, options, namespace=plan.namespace),
            admin,
            topics.control.name,
            topics.buckets.name,
            self._inbox,
            plan.rules.topics_every_s,
            self._give_up,
        )
        try:
            found = self._found(reader, admin)
        except BaseException:
            admin.close()
            raise
        if not found:
            admin.close()
            return Leave(0, "ended before Kafka was reached")
        reporter = Reporter(
            lambda: open_producer(plan.bootstrap_servers, options, timeout_s=0.0, block_s=0.0),
            topics.reports.name,
            plan.name,
            plan.rules.batch_bytes,
            self._inbox.delivered,
        )
        agent = Agent(
            name=plan.name,
            kinds={kind: spec.version for kind, spec in plan.app.handlers.items()},
            capacity=plan.slots if plan.capacity is None else plan.capacity,
            slots=plan.slots,
            fresh=lambda: str(uuid4()),
            host=socket.gethostname(),
            rules=plan.rules,
        )
        turn = Turn(agent, self._inbox, reporter, reader, executors, clock, Telemetry(plan.name), plan.grace_s)
        reading = self._supervisor.thread("jobyard-reader", reader.run)
        reading.start()
        try:
            return turn.run()
        finally:
            reader.stop()
            self._inbox.close()
            reporter.close(0.0)
            reading.join(_CLOSE_S)
            if not reading.is_alive():  # else it waits for an answer to what it has asked
                admin.close()

    def _give_up(self, error: JobyardError) -> None:
        """The reader may not read: nothing can be done here any more. What runs may go on to its end, as at SIGTERM."""
        _log.error("leaves, since it may not read its topics: %s", error)
        self._denied = error
        self.terminate()

    def _found(self, reader: Reader, admin: Admin) -> bool:
        """Control's end, asked for until Kafka answers; false: asked to end before that. ConfigurationError: a topic or a right is missing."""
        said = False
        rights = rights_of("agent", self._plan.namespace, self._plan.lane)
        while not self._asked:
            try:
                admin.demand(rights)
                reader.find_control()
                return True
            except ServiceUnavailable as error:
                if not said:
                    _log.warning("%s; trying until it answers", error)
                    said = True
                self._done.wait(_KAFKA_AGAIN_S)
        return False


def run(plan: AgentPlan) -> int:
    """Run an agent in the main thread until it is told to end. Returns the exit code; raises what it died of."""
    gc.set_threshold(*_COLLECT)
    with Signals() as signals:
        process = AgentProcess(plan, signals.wake)
        process.start()
        heard = 0
        while not process.ended(0):
            signals.wait(None)
            asked = 2 if signals.now else int(signals.orderly)
            for _ in range(asked - heard):
                process.terminate()
            heard = max(heard, asked)
    left = process.result()
    if left.code:
        _log.error("%s", left.reason)
    return left.code
