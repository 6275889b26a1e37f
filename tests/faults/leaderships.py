"""One leader after the other, each of which breaks at a point of its own; what must hold when it has broken, and at the end."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from promises.guarantees import Evidence, InterruptedOnlyOf, LostOnlyOf
from worlds.world import World

from faults.at_point import AtPoint
from faults.leader_points import Told


def nothing(*_: Any) -> None:
    """Where there is nothing to do, or to look at."""


@dataclass(frozen=True)
class Fault:
    """One crash point. `name`: in the protocol, and what is special.

    `stir`: what makes a leader get there. `seen`: looks when it has broken and nobody leads; `led`: when the next one leads; `resumed`: when one that was
    paused goes on; `after`: at the end of all. `stands_for`: what it waits for at the point. `beginning`: it breaks in its take-over.
    """

    name: str
    at: AtPoint
    stir: Callable[[World], None] = nothing
    seen: Callable[[World, Told], None] = nothing
    led: Callable[[World, Told], None] = nothing
    resumed: Callable[[World, Told], None] = nothing
    after: Callable[[World, Told, Evidence], None] = nothing
    stands_for: Callable[[World, Told], object] = nothing
    beginning: bool = False


@dataclass
class _Broken:
    fault: Fault
    name: str
    told: Told
    at: float
    epoch: int


class Leaderships:
    """Leaders of one world whose agents are active. `pause_s`: for how long one that is paused stays so."""

    def __init__(self, world: World, what: Literal["kill", "pause"], pause_s: float) -> None:
        self._world = world
        self._what: Literal["kill", "pause"] = what
        self._pause_s = pause_s
        self._broken: list[_Broken] = []
        self._paused: list[_Broken] = []

    def run(self, first: str, faults: Sequence[Fault]) -> None:
        """`first` leads by now, and breaks at the first fault; a last one leads at the end. Then nothing is paused any more."""
        name = first
        for number, fault in enumerate(faults, 1):
            at = replace(fault.at, what=self._what)
            following = faults[number] if number < len(faults) else None
            try:
                if not fault.beginning:
                    self._start(number, following)
                    fault.stir(self._world)
                moment = self._until_broken(name, at, fault)
                broken = _Broken(fault, name, self._world.told(name), moment, epoch(self._world))
                self._broken.append(broken)
                fault.seen(self._world, broken.told)
                if fault.beginning:
                    self._start(number, following)
                if self._what == "pause":
                    self._paused.append(broken)
                self._world.end_lease()
                if following is None or not following.beginning:
                    self._until_above(broken.epoch)
                    fault.led(self._world, broken.told)
                    self._resume(late=False)
            except BaseException as error:
                error.add_note(f"{self._what} at {fault.name}")
                raise
            name = f"leader-{number}"
        self._resume(late=True)

    def check(self, lost: Sequence[str] = ()) -> Evidence:
        """Every guarantee, and what must hold afterwards for each fault. `lost`: agents that were touched."""
        evidence = self._world.check(LostOnlyOf(lost), InterruptedOnlyOf())
        check_epochs(self._world)
        for broken in self._broken:
            try:
                broken.fault.after(self._world, broken.told, evidence)
            except BaseException as error:
                error.add_note(f"after {self._what} at {broken.fault.name}; told {broken.told}")
                raise
        return evidence

    def _start(self, number: int, fault: Fault | None) -> None:
        self._world.coordinator(f"leader-{number}", at=None if fault is None else replace(fault.at, what=self._what))

    def _resume(self, *, late: bool) -> None:
        """Wake those whose time has come (`late`: or comes), while another leads; each notices, and ends in order when it is told to."""
        for broken in list(self._paused):
            left_s = broken.at + self._pause_s - time.monotonic()
            if left_s > 0 and not late:
                continue
            time.sleep(max(0.0, left_s))
            self._paused.remove(broken)
            said = len(self._world.log_of(broken.name))
            self._world.send(broken.name, signal.SIGCONT)
            try:
                broken.fault.resumed(self._world, broken.told | {"epoch": broken.epoch, "name": broken.name})
                self._until_noticed(broken.name, said)
                assert epoch(self._world) > broken.epoch
                assert self._world.terminate(broken.name) == 0
            except BaseException as error:
                error.add_note(f"when it goes on after {broken.fault.name}")
                raise

    def _until_broken(self, name: str, at: AtPoint, fault: Fault) -> float:
        return self._world.until_broken(name, at, lambda: fault.stands_for(self._world, self._world.told(name)))

    def _until_above(self, passed: int) -> None:
        self._world.until("the next one leads", lambda: epoch(self._world) > passed)

    def _until_noticed(self, name: str, said: int) -> None:
        self._world.until("it has noticed", lambda: len(self._world.log_of(name)) > said)


def epoch(world: World) -> int:
    return world.number("select epoch from jobyard.leases")


def leader_of(world: World, names: Sequence[str]) -> str | None:
    """Which of these coordinators leads; None: none does at the moment."""
    found = world.rows("select epoch from jobyard.leases where lease_until > clock_timestamp()")
    words = [f"leads lane default under epoch {row['epoch']}:" for row in found]
    return next((name for name in names if any(word in world.log_of(name) for word in words)), None)


def check_epochs(world: World) -> None:
    """Of what lies in the buckets: a fence is one bundle, whoever sent it, and no leader gave one after another had taken the lane: he counts on from there."""
    bundles: dict[int, dict[str, Any]] = {}
    highest: dict[int, int] = {}
    for lying in world.lying_in(world.topics.buckets.name):
        body = lying.body
        fence = body["fence"]
        highest[body["epoch"]] = max(fence, highest.get(body["epoch"], 0))
        first = bundles.setdefault(fence, body)
        assert (first["incarnation"], first["bucket"]) == (body["incarnation"], body["bucket"]), (first, body)
        jobs, others = ({job["id"] for job in one["jobs"]} for one in (first, body))
        assert jobs <= others or others <= jobs, (first, body)
    assert highest
    for under, fence in highest.items():
        counted = [lease.fence for lease in world.leases if lease.epoch > under]
        assert fence <= min(counted, default=fence), f"epoch {under} gave fence {fence}, its successor counted on from {min(counted)}"
