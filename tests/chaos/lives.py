"""The coordinators and agents of a run through all their lives: ended, broken and started again."""

import itertools
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from faults.at_point import AtPoint
from worlds.world import World

from chaos.disturbances import Disturbances
from chaos.timetable import Timetable

SLOTS: Final = 20
LOOK_S: Final = 0.05
ENDS_WITHIN_S: Final = 60.0
"""A process that was told to end must have, whatever is broken around it."""
ORDERLY: Final = frozenset({0, 5})
"""Exit status of a process that was told to end: in order, or it could not report in time."""
REPLACED: Final = 1
KILLED: Final = 128 + signal.SIGKILL


@dataclass
class Process:
    """A coordinator or an agent, by its name, through all its lives. `process`: what its current life is called in the world; None: it is away.

    `asked`: the number of the last request to end.
    """

    name: str
    process: str | None = None
    paused: bool = False
    ending: bool = False
    asked: int = 0
    armed: AtPoint | None = None
    back_after_s: float = 0.0


class Lives:
    """Starts and ends them. `problems`: what did not end as it was told to, or ended by itself."""

    def __init__(
        self, world: World, timetable: Timetable, disturbances: Disturbances, coordinators: Sequence[str], agents: Sequence[str]
    ) -> None:
        self._world = world
        self._timetable = timetable
        self._disturbances = disturbances
        self._agents = agents
        self._processes = {name: Process(name) for name in (*coordinators, *agents)}
        self._lives = itertools.count(2)
        self._requests = itertools.count()
        self._expected: dict[str, frozenset[int]] = {}
        self.problems: list[str] = []

    def get(self, name: str) -> Process | None:
        """None: it names none of the processes."""
        return self._processes.get(name)

    def start_missing(self) -> None:
        for process in self._processes.values():
            if process.process is None:
                self.start(process)

    def calm(self) -> None:
        """Nothing breaks any more: what is paused goes on, what would break ends, and what is away comes back."""
        for process in self._processes.values():
            if process.paused:
                self._wake(process)
            if process.armed is not None:
                self.end(process)
        deadline = self._timetable.now + ENDS_WITHIN_S
        while any(process.ending for process in self._processes.values()) and self._timetable.now < deadline:
            self.look()
            time.sleep(LOOK_S)
        self.start_missing()

    def start(self, process: Process, at: AtPoint | None = None) -> None:
        name = process.name if process.process is None else f"{process.name}-{next(self._lives)}"
        if name not in self._world.around:
            self._world.around[name] = self._world.around[process.name]
        if process.name in self._agents:
            self._world.agent(process.name, process=name, slots=SLOTS, at=at)
        else:
            self._world.coordinator(name, at=at)
        self._expected.pop(name, None)
        process.process, process.paused, process.ending, process.armed = name, False, False, at

    def start_if_away(self, process: Process) -> None:
        if process.process is None:
            self.start(process)

    def kill(self, process: Process) -> None:
        assert process.process is not None
        self._world.kill(process.process)
        process.process = process.armed = None

    def end(self, process: Process) -> None:
        assert process.process is not None
        self._world.send(process.process, signal.SIGTERM)
        self._expected[process.process] = ORDERLY
        process.ending = True  # and still armed: it may get to its point on its way out
        process.asked = next(self._requests)
        self._timetable.later(ENDS_WITHIN_S, partial(self._must_have_ended, process, process.asked))

    def _must_have_ended(self, process: Process, asked: int) -> None:
        if process.ending and process.asked == asked:
            self.problems.append(f"{process.process} did not end within {ENDS_WITHIN_S:.0f} s of SIGTERM")
            self.kill(process)
            self.start(process)

    def pause(self, process: Process, for_s: float) -> None:
        assert process.process is not None
        self._world.send(process.process, signal.SIGSTOP)
        process.paused = True
        self._timetable.later(for_s, partial(self._wake, process))

    def replace(self, process: Process) -> None:
        """Start another of its name beside it."""
        assert process.process is not None
        self._expected[process.process] = frozenset({REPLACED, *ORDERLY})
        self.start(process)

    def _wake(self, process: Process) -> None:
        if process.process is not None and process.paused:
            self._world.send(process.process, signal.SIGCONT)
            process.paused = False

    def look(self) -> None:
        """Do what is due, and see who has ended or got to its point."""
        self._timetable.run_due()
        for process in self._processes.values():
            at = process.armed
            if at is not None and process.process is not None and at.what == "pause" and self._world.broken(process.process):
                self._timetable.say(f"{process.process} is at its point, paused")
                self._disturbances.note(process.name, process.back_after_s)
                process.armed, process.paused = None, True
                self._timetable.later(process.back_after_s, partial(self._wake, process))
        for name, status in self._world.ended_processes():
            self._ended(name, status)

    def _ended(self, name: str, status: int) -> None:
        process = next((one for one in self._processes.values() if one.process == name), None)
        if process is None:  # replaced by another of its name
            if status not in self._expected.pop(name, frozenset()):
                self.problems.append(f"{name}, whose name was taken, ended with status {status}")
            return
        if process.armed is not None and status == KILLED and self._world.broken(name):
            self._timetable.say(f"{name} is at its point, killed")
            self._disturbances.note(process.name, process.back_after_s)
        elif status not in self._expected.pop(name, frozenset()):
            self.problems.append(f"{name} ended by itself with status {status} at {self._timetable.now:.1f} s")
            self._timetable.say(self.problems[-1])
        process.process, process.paused, process.ending, process.armed = None, False, False, None
        self._timetable.later(process.back_after_s, partial(self.start_if_away, process))
