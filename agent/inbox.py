"""Where threads meet: what was read, delivered and ended waits here for the turn. The only lock between them."""

import threading
from dataclasses import dataclass, field

from jobyard.agent.core.held import Held
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import ControlMessage
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import End

MOST_BUNDLES = 1_000
"""So many bundles wait at most; then the reader does."""

Begun = tuple[Held, float, Instant, float | None]
Delivery = tuple[int, int, str | None]
"""Generation of the producer, number of the batch, what went wrong (None: acknowledged)."""


@dataclass(slots=True)
class Taken:
    """What came in since the last turn. `signals`: how often the process was asked to end."""

    control: list[ControlMessage] = field(default_factory=list[ControlMessage])
    bundles: list[BundleMessage] = field(default_factory=list[BundleMessage])
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    ended: list[tuple[Held, End]] = field(default_factory=list[tuple[Held, End]])
    declined: list[Held] = field(default_factory=list[Held])
    begun: list[Begun] = field(default_factory=list[Begun])
    progress: dict[Held, tuple[float, float | None, str]] = field(default_factory=dict[Held, tuple[float, float | None, str]])
    signals: int = 0


class Inbox:
    """Anybody puts, the turn takes. Nothing is dropped; only the reader is made to wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._emptied = threading.Condition(self._lock)
        self._taken = Taken()
        self._awake = False
        self._closed = False

    # ---- the turn ----

    def take(self, timeout_s: float, bundles: bool = True) -> Taken:
        """All that is there; waits at most `timeout_s` for something. `bundles` false: those stay, nothing new is wanted now."""
        with self._lock:
            if not (self._awake or (bundles and self._taken.bundles)) and timeout_s > 0:
                self._filled.wait(timeout_s)
            taken, self._taken = self._taken, Taken()
            self._awake = False
            if bundles:
                if len(taken.bundles) >= MOST_BUNDLES:
                    self._emptied.notify()
            else:
                self._taken.bundles, taken.bundles = taken.bundles, []
            return taken

    def close(self) -> None:
        """Nobody takes any more: the reader must not wait for it."""
        with self._lock:
            self._closed = True
            self._emptied.notify_all()

    # ---- the reader ----

    def read(self, control: list[ControlMessage], bundles: list[BundleMessage]) -> None:
        """Messages, in the order in which they were read. Blocks while too many bundles wait."""
        with self._lock:
            if control:
                self._taken.control += control
                self._wake()
            while len(self._taken.bundles) >= MOST_BUNDLES and bundles and not self._closed:
                self._emptied.wait(1.0)
            if bundles:
                self._taken.bundles += bundles
                self._wake()

    # ---- the executors (Facts) ----

    def begun(self, held: Held, now: float, at: Instant, deadline: float | None) -> None:
        """Wakes nobody, but for a deadline: the turn looks twice a second while something was handed over."""
        with self._lock:
            self._taken.begun.append((held, now, at, deadline))
            if deadline is not None:
                self._wake()

    def ended(self, ended: list[tuple[Held, End]]) -> None:
        with self._lock:
            self._taken.ended += ended
            self._wake()

    def declined(self, held: Held) -> None:
        with self._lock:
            self._taken.declined.append(held)
            self._wake()

    def progressed(self, held: Held, done: float, total: float | None, message: str) -> None:
        with self._lock:
            self._taken.progress[held] = (done, total, message)
            self._wake()

    # ---- the rest ----

    def delivered(self, delivery: Delivery) -> None:
        """What became of a batch of reports; from the thread that polls the producer."""
        with self._lock:
            self._taken.deliveries.append(delivery)
            self._wake()

    def signalled(self) -> None:
        """The process is to end; a second time: at once. Not from a signal handler: it may have interrupted `take`."""
        with self._lock:
            self._taken.signals += 1
            self._wake()

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._filled.notify()
