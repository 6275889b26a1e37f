"""Runs the command line in a process that is killed, or paused, when it gets to a named point: `python -m faults.at_point SPEC coordinator run …`."""

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from faults import leader_points
from faults.agent_points import MADE
from jobyard.process import points
from jobyard.process.points import Point

When = Callable[..., bool]


def _always(*facts: Any) -> bool:
    return True


CONDITIONS: Final[dict[str, When]] = {"always": _always, **leader_points.CONDITIONS}
"""What the point's facts must be, by name: the process that is to break gets the name."""

MADE_FOR_JOBS: Final = {**MADE, **leader_points.MADE}
STEP_S: Final = 0.01


def go_of(told: Path) -> Path:
    """The file that lets go a process that stands at its point."""
    return told.with_suffix(".go")


@dataclass(frozen=True)
class AtPoint:
    """Where a process breaks: when it gets to `point`, with facts for which `when` holds (see CONDITIONS), for the `nth` time.

    `after_s`: so much later, by a timer, while the process goes on (0: at once, there). `jobs`: ids of the jobs that the condition is about, if it is
    one of those that are made for jobs. `stands`: its thread stands there first, while the others go on, until the test
    has seen what it waits for (see World.until_broken): what was handed to the network before gets there.
    `stands_again`: when it goes on after a pause, it stands at that point until World.let_go.
    """

    point: Point
    what: Literal["kill", "pause"] = "kill"
    when: str = "always"
    nth: int = 1
    after_s: float = 0.0
    jobs: tuple[str, ...] = ()
    stands: bool = False
    stands_again: Point | None = None

    def spec(self, told: Path) -> str:
        """What the process is given. `told`: the file that it makes when it has got there, with the facts of a leader in it."""
        return json.dumps({**asdict(self), "told": str(told)})

    @classmethod
    def parse(cls, spec: str) -> tuple[Self, Path]:
        given: dict[str, Any] = json.loads(spec)
        told = Path(given.pop("told"))
        again = given["stands_again"]
        given.update(point=Point(given["point"]), jobs=tuple(given["jobs"]), stands_again=None if again is None else Point(again))
        return cls(**given), told


class Breaking:
    """Breaks this process once."""

    def __init__(self, at: AtPoint, told: Path) -> None:
        self._at = at
        self._told = told
        self._holds = MADE_FOR_JOBS[at.when](frozenset(at.jobs)) if at.when in MADE_FOR_JOBS else CONDITIONS[at.when]
        self._met = 0
        self._tick = leader_points.Tick()

    def arm(self) -> None:
        for point in Point:
            watch = self._tick.watches.get(point)
            if point is self._at.point:
                points.arm(point, self if watch is None else self._after(watch))
            elif watch is not None:
                points.arm(point, watch)

    def _after(self, watch: points.Action) -> points.Action:
        def both(*facts: object) -> None:
            watch(*facts)
            self(*facts)

        return both

    def __call__(self, *facts: object) -> None:
        if self._told.exists() or not self._holds(*facts):
            return
        self._met += 1
        if self._met < self._at.nth:
            return
        if self._at.after_s:
            threading.Timer(self._at.after_s, self._break, facts).start()
        else:
            self._break(*facts)

    def _break(self, *facts: object) -> None:
        whole = self._told.with_suffix(".told")
        whole.write_text(json.dumps(self._tick.told(facts)))
        whole.rename(self._told)  # it is whole when it is seen
        if self._at.stands:
            self._stand()
        if self._at.stands_again is not None:
            points.arm(self._at.stands_again, self._stand)
        # To this very thread: sent to the process, a stop waits for the main thread to be run, while this one would go on.
        signal.pthread_kill(threading.get_ident(), signal.SIGKILL if self._at.what == "kill" else signal.SIGSTOP)

    def _stand(self, *_: object) -> None:
        while not go_of(self._told).exists():
            time.sleep(STEP_S)


def main() -> None:
    at, told = AtPoint.parse(sys.argv[1])
    sys.argv[1:] = sys.argv[2:]
    Breaking(at, told).arm()

    from jobyard.cli.app import main as run  # after arming: what it imports may look at once

    run()


if __name__ == "__main__":
    main()
