"""Which process a number meant when it was written down."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from jobyard.contracts.errors import ServiceUnavailable

PROC = Path("/proc")
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Identity:
    """A process: its number, and when it began (an opaque text), since numbers are used again."""

    pid: int
    began: str

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """The process that has this number now; None if there is none, or only its exit status is left."""
        began = _began_linux(pid) if (PROC / "self" / "stat").exists() else _began_ps(pid)
        return None if began is None else cls(pid, began)

    @classmethod
    def here(cls) -> "Identity":
        """This process."""
        found = cls.of(os.getpid())
        if found is None:
            raise RuntimeError("this process cannot see itself in the process table")
        return found

    def alive(self) -> bool:
        return Identity.of(self.pid) == self


def command_line(pid: int) -> str:
    """The words that the process was started with, divided by blanks; empty if there is no such process."""
    try:
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except (FileNotFoundError, ProcessLookupError):
        return "" if (PROC / "self").exists() else _ps("command=", pid)


def _began_linux(pid: int) -> str | None:
    try:
        # the name, in parentheses, may hold anything: what follows the last one is state, then 19 fields to the start time
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else f"{boot} {fields[19]}"


def _began_ps(pid: int) -> str | None:
    state, _, began = _ps("stat=,lstart=", pid).partition(" ")
    return None if not state or state.startswith("Z") else began.strip()


def _ps(columns: str, pid: int) -> str:
    command = ["ps", "-ww", "-o", columns, "-p", str(pid)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S).stdout.strip()  # noqa: S603  fixed words
    except subprocess.TimeoutExpired as error:
        raise ServiceUnavailable(f"{' '.join(command)} did not answer in {_PATIENCE_S:g} s") from error
