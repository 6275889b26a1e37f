"""Runs the command line in a process that is killed, or paused, when it gets to a named point: `python at_point.py SPEC coordinator run …`."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from agent_points import MADE

from jobyard.process import points
from jobyard.process.points import Point

When = Callable[..., bool]


def _always(*facts: Any) -> bool:
    return True


CONDITIONS: Final[dict[str, When]] = {"always": _always}
"""What the point's facts must be, by name: the process that is to break gets the name."""


@dataclass(frozen=True)
class AtPoint:
    """Where a process breaks: when it gets to `point`, with facts for which `when` holds (see CONDITIONS), for the `nth` time.

    `after_s`: so much later, by a timer, while the process goes on (0: at once, there). `jobs`: ids of the jobs that the condition is about, if it is
    one of those that are made for jobs.
    """

    point: Point
    what: Literal["kill", "pause"] = "kill"
    when: str = "always"
    nth: int = 1
    after_s: float = 0.0
    jobs: tuple[str, ...] = ()

    def spec(self, told: Path) -> str:
        """What the process is given. `told`: the file that it makes when it has got there."""
        return json.dumps({**asdict(self), "told": str(told)})

    @classmethod
    def parse(cls, spec: str) -> tuple[Self, Path]:
        given = json.loads(spec)
        told = Path(given.pop("told"))
        return cls(**{**given, "point": Point(given["point"]), "jobs": tuple(given["jobs"])}), told


class Breaking:
    """Breaks this process once."""

    def __init__(self, at: AtPoint, told: Path) -> None:
        self._at = at
        self._told = told
        self._holds = MADE[at.when](frozenset(at.jobs)) if at.when in MADE else CONDITIONS[at.when]
        self._met = 0

    def __call__(self, *facts: object) -> None:
        if self._told.exists() or not self._holds(*facts):
            return
        self._met += 1
        if self._met < self._at.nth:
            return
        if self._at.after_s:
            threading.Timer(self._at.after_s, self._break).start()
        else:
            self._break()

    def _break(self) -> None:
        self._told.touch()
        os.kill(os.getpid(), signal.SIGKILL if self._at.what == "kill" else signal.SIGSTOP)


def main() -> None:
    at, told = AtPoint.parse(sys.argv[1])
    sys.argv[1:] = sys.argv[2:]
    points.arm(at.point, Breaking(at, told))

    from jobyard.cli.app import main as run  # after arming: what it imports may look at once

    run()


if __name__ == "__main__":
    main()
