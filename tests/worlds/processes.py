"""The processes of a world by their names: started, signalled, ended, and broken at points that the test has chosen."""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from faults.at_point import AtPoint, go_of

from jobyard.embedded.child import Child
from worlds.patience import PATIENCE_S

TAIL_LINES: Final = 60


def stopped(pid: int) -> bool:
    """By SIGSTOP."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Processes:
    """Each writes its log into `folder`. `around`: what is otherwise in the environment of a process, by its name; read when it starts."""

    def __init__(self, folder: Path, around: Mapping[str, Mapping[str, str]]) -> None:
        self._folder = folder
        self.around = dict(around)
        self._children: dict[str, Child] = {}
        self._dying: set[str] = set()

    def stop_all(self) -> None:
        """None of them gets time to end by itself."""
        for child in self._children.values():
            child.ask_to_stop()
        for child in self._children.values():
            child.stop()

    def _start(self, name: str, arguments: Sequence[str], environment: dict[str, str], at: AtPoint | None) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("JOBYARD_")}
        program = ["-m", "jobyard.cli.app"]
        self._dying.discard(name)
        if at is not None:
            if at.what == "kill":
                self._dying.add(name)
            self._broken(name).unlink(missing_ok=True)
            go_of(self._broken(name)).unlink(missing_ok=True)
            program = ["-m", "faults.at_point", at.spec(self._broken(name))]
        self._children[name] = Child(
            [sys.executable, *program, *arguments],
            stop_signal=signal.SIGKILL,
            patience_s=1.0,
            log=self._folder / f"{name}.log",
            env={**inherited, **environment, **self.around.get(name, {})},
            folder=self._folder,
        )

    def pid(self, name: str) -> int:
        return self._children[name].pid

    def send(self, name: str, what: signal.Signals) -> None:
        """Any signal; does not wait."""
        self._children[name].send(what)

    def kill(self, name: str) -> float:
        """kill -9; the moment of it."""
        child = self._children.pop(name)
        at = time.monotonic()
        child.send(signal.SIGKILL)
        assert child.wait(PATIENCE_S)
        return at

    def terminate(self, name: str) -> int:
        """SIGTERM, and wait; its exit status."""
        self.send(name, signal.SIGTERM)
        return self.status_of(name)

    def status_of(self, name: str) -> int:
        """Wait for it to end by itself; its exit status."""
        child = self._children.pop(name)
        assert child.wait(PATIENCE_S), f"{name} does not end"
        status = child.returncode()
        assert status is not None
        return status

    def let_go(self, name: str) -> None:
        """One that stands at its point goes on."""
        go_of(self._broken(name)).touch()

    def told(self, name: str) -> dict[str, Any]:
        """The facts of the point at which it broke: see leader_points."""
        found: dict[str, Any] = json.loads(self._broken(name).read_text())
        return found

    def broken(self, name: str) -> bool:
        """Whether it has got to its point."""
        return self._broken(name).exists()

    def _broken(self, name: str) -> Path:
        return self._folder / f"{name}.broken"

    def names(self) -> tuple[str, ...]:
        """What was started here and has not been seen to end."""
        return tuple(self._children)

    def ended_processes(self) -> list[tuple[str, int]]:
        """Those that have ended by themselves, or by their point, since the last call, with their exit status (128 + N: by signal N)."""
        ended = [(name, status) for name, child in self._children.items() if (status := child.returncode()) is not None]
        for name, _ in ended:
            self._children.pop(name).ask_to_stop()
        return ended

    def living(self) -> list[int]:
        """The pids of those that run, and are not paused."""
        return [child.pid for child in self._children.values() if child.alive() and not stopped(child.pid)]

    def said(self) -> str:
        """The end of every process' log."""
        parts: list[str] = []
        for log in sorted(self._folder.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()
            parts += [f"--- {log.name}, {len(lines)} lines", *lines[-TAIL_LINES:]]
        return "\n".join(parts)

    def log_of(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")
