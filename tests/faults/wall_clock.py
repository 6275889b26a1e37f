"""The wall clock of one process, or of several, that a test sets. The machine's own is never touched.

By libfaketime, which is loaded before everything else and shifts what a program reads, whatever it is written in; monotonic clocks stay as they are.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LIBRARY: Final = Path("vendor/libfaketime/src/libfaketime.so.1")
SEEN_S: Final = 2.0
"""A program sees a clock that was set after this, at the latest: it looks once a second."""


class NoWallClock(Exception):
    """On this machine the library cannot be loaded."""


class WallClock:
    """Set by `shift`, again and again. `file`: where it stands; every account that is to see it must be able to read it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.shift(0.0)

    def shift(self, seconds: float) -> None:
        """From now on (see SEEN_S) it is ahead of the machine's by so much, or behind if negative."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+f}\n")
        fresh.chmod(0o644)
        fresh.replace(self._file)

    @contextmanager
    def shifted(self, seconds: float) -> Generator[None]:
        self.shift(seconds)
        try:
            yield
        finally:
            self.shift(0.0)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a program must be started with to go by this clock. NoWallClock."""
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "0",  # whole seconds, one of which is over at the next
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def demand_wall_clock() -> None:
    """NoWallClock, unless programs here can be given another clock."""
    said = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time() < 86_400 * 365)"],
        env={**os.environ, "LD_PRELOAD": str(_library()), "FAKETIME": "@1970-06-01 00:00:00"},
        capture_output=True,
        text=True,
        check=False,
    )
    if said.stdout.strip() != "True":
        raise NoWallClock(f"libfaketime has no effect: {said.stderr.strip()[:300]}")


def _library() -> Path:
    spec = importlib.util.find_spec("libfaketime")
    if spec is None or not spec.submodule_search_locations:
        raise NoWallClock("libfaketime is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / _LIBRARY
