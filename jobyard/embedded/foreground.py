"""Several programs as one: started in order, ended in the opposite order, and all ended when one of them ends."""

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.embedded.child import Child

LOOK_S = 0.2  # how often it is looked at who has ended


@dataclass(frozen=True)
class Program:
    """What to run. Programs of one `rank` end together, the higher ranks first. `patience_s`: from SIGTERM to SIGKILL."""

    name: str
    rank: int
    argv: Sequence[str]
    env: Mapping[str, str]
    patience_s: float


class Foreground:
    """Main thread only, since it takes SIGINT and SIGTERM while it runs. `tell` gets a line for whatever happens.

    `ended` is asked now and then for the name of something else that must run and has ended; None: nothing has.
    """

    def __init__(self, programs: Sequence[Program], folder: Path, tell: Callable[[str], None], ended: Callable[[], str | None]) -> None:
        self._programs = programs
        self._folder = folder
        self._tell = tell
        self._ended = ended
        self._running: list[tuple[Program, Child]] = []
        self._asked = threading.Event()

    def run(self) -> None:
        """Returns when everything has ended because somebody asked for it; a second signal is passed on, for those that hurry then.

        Raises ServiceUnavailable if something ended by itself.
        """
        before = {signum: signal.signal(signum, self._note) for signum in (signal.SIGINT, signal.SIGTERM)}
        try:
            for program in self._programs:
                child = Child(program.argv, stop_signal=signal.SIGTERM, patience_s=program.patience_s, env=program.env, folder=self._folder)
                self._running.append((program, child))
                self._tell(f"{program.name} runs (process {child.pid})")
            reason = self._wait()
        finally:
            self._end()
            self._restore(before)
        if reason is not None:
            raise ServiceUnavailable(reason)

    def _wait(self) -> str | None:
        """Until a signal (None) or an end that nobody asked for (what to say)."""
        while not self._asked.wait(LOOK_S):
            for program, child in self._running:
                if not child.alive():
                    return f"{program.name} ended by itself (exit status {child.returncode()}), so everything was ended: see what it wrote above"
            if (name := self._ended()) is not None:
                return f"{name} ended by itself, so everything was ended: see its log in the folder of the services (`jobyard dev status`)"
        return None

    def _end(self) -> None:
        for rank in sorted({program.rank for program, _ in self._running}, reverse=True):
            ending = [(program, child) for program, child in self._running if program.rank == rank]
            for program, child in ending:
                if child.alive():
                    self._tell(f"ending {program.name}")
                child.ask_to_stop()
            for _, child in ending:
                while not child.wait(LOOK_S):
                    pass

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            for _, child in self._running:
                child.send(signal.SIGTERM)
        self._asked.set()

    @staticmethod
    def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
