"""Several programs as one: started in order, ended in the opposite order, and all ended when one ends that must not."""

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.embedded.child import Child

LOOK_S = 0.2  # how often it is looked at who has ended
SOON_S: Final = 10.0
"""A program that ends within this time of its start has hardly worked."""
MOST_SOON: Final = 3
"""So many such ends in a row, and it is given up."""
BACK_OFF_S: Final = 0.5
"""Before a program is started again; after each further end in a row twice as long."""


@dataclass(frozen=True)
class Program:
    """What to run. Programs of one `rank` end together, the higher ranks first. `patience_s`: from SIGTERM to SIGKILL.

    `restarts`: one that ends by itself is started again, and the others go on; else all end with it.
    """

    name: str
    rank: int
    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    patience_s: float
    restarts: bool = False


class Foreground:
    """Main thread only, since it takes SIGINT and SIGTERM while it runs. `tell` gets a line for whatever happens.

    `ended` is asked now and then for the name of something else that must run and has ended; None: nothing has. `ready` is asked until it says yes:
    then `tell` gets `greeting`.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        folder: Path,
        tell: Callable[[str], None],
        ended: Callable[[], str | None],
        ready: Callable[[], bool] = lambda: False,
        greeting: str = "ready",
    ) -> None:
        self._runs = [_Run(program, folder) for program in programs]
        self._tell = tell
        self._ended = ended
        self._ready = ready
        self._greeting = greeting
        self._asked = threading.Event()

    def run(self) -> None:
        """Returns when everything has ended because somebody asked for it; a second signal is passed on, for those that hurry then.

        Raises ServiceUnavailable if something ended by itself that is not started again, or not once more.
        """
        before = {signum: signal.signal(signum, self._note) for signum in (signal.SIGINT, signal.SIGTERM)}
        try:
            for run in self._runs:
                self._tell(run.start())
            reason = self._wait()
            if reason is not None:
                self._tell(f"{reason}: ending everything")
        finally:
            self._end()
            self._restore(before)
        if reason is not None:
            raise ServiceUnavailable(f"{reason}, so everything was ended: see what was written above")

    def _wait(self) -> str | None:
        """Until a signal (None) or an end that ends all (what to say)."""
        greeted = False
        while not self._asked.wait(LOOK_S):
            for run in self._runs:
                if (reason := self._look(run)) is not None:
                    return reason
            if (name := self._ended()) is not None:
                return f"{name} ended by itself (its log is in the folder of the services, see `jobyard dev status`)"
            if not greeted and self._ready():
                greeted = True
                self._tell(self._greeting)
        return None

    def _look(self, run: "_Run") -> str | None:
        """Starts it again when it is time for that. The reason why all must end, or None."""
        if run.child is None:
            if time.monotonic() >= run.again_at:
                self._tell(run.start())
            return None
        if run.child.alive():
            return None
        how = run.ended(run.child)
        if not run.program.restarts:
            return how
        if run.soon >= MOST_SOON:
            return f"{how}, {MOST_SOON} times in a row within {SOON_S:g} s of its start"
        self._tell(f"{how}; it is started again in {run.back_off():g} s, the others go on")
        return None

    def _end(self) -> None:
        for rank in sorted({run.program.rank for run in self._runs}, reverse=True):
            ending = [(run.program, run.child) for run in self._runs if run.program.rank == rank and run.child is not None]
            for program, child in ending:
                if child.alive():
                    self._tell(f"ending {program.name}")
                child.ask_to_stop()
            for _, child in ending:
                while not child.wait(LOOK_S):
                    pass

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            for run in self._runs:
                if run.child is not None:
                    run.child.send(signal.SIGTERM)
        self._asked.set()

    @staticmethod
    def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


class _Run:
    """A program and its process. `child`: None before the first start and between an end and the next start."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program = program
        self._folder = folder
        self._started_at = 0.0
        self.child: Child | None = None
        self.soon = 0
        """Ends in a row that came soon after the start."""
        self.again_at = 0.0

    def start(self) -> str:
        program = self.program
        self.child = Child(program.argv, stop_signal=signal.SIGTERM, patience_s=program.patience_s, env=program.env, folder=self._folder)
        self._started_at = time.monotonic()
        return f"{program.name} runs (process {self.child.pid})"

    def ended(self, child: Child) -> str:
        """Lets go of its process, which has ended; how it did."""
        status = child.returncode()
        child.stop()
        self.child = None
        self.soon = self.soon + 1 if time.monotonic() - self._started_at < SOON_S else 0
        self.again_at = time.monotonic() + self.back_off()
        return f"{self.program.name} ended by itself ({_how(status)})"

    def back_off(self) -> float:
        return BACK_OFF_S * 2.0 ** max(0, self.soon - 1)


_STATUSES: Final = {2: "exit status 2: wrong usage or settings", 3: "exit status 3: something was not found"}


def _how(status: int | None) -> str:
    if status is not None and status > 128:
        try:
            return f"killed by {signal.Signals(status - 128).name}"
        except ValueError:
            pass
    return _STATUSES.get(status or 0, f"exit status {status}")
