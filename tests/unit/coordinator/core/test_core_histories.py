"""Random histories over a lane and a Master DB in memory: the invariants hold after every tick, and a take-over knows what the leader knew."""

import dataclasses
import re
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lane_world import T0, Told, World, of

from jobyard.contracts.reports import End, Finished
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as happened
from jobyard.coordinator.core.closing import MOST_PLACEMENTS

Step = tuple[int, int, int]
_OUTCOMES = (
    Outcome.SUCCEEDED,
    Outcome.SUCCEEDED,
    Outcome.FAILED,
    Outcome.TIMED_OUT,
    Outcome.CRASHED,
    Outcome.CANCELLED,
    Outcome.INTERRUPTED,
    Outcome.SNOOZED,
)
_SIZES = (1.0, 1.0, 2.0, 3.0, 7.0, 30.0)
_BOUNDS = (1, 1, 2, 5)


class History:
    """Plays steps on a world. `took`: how long jobs take, in seconds: long ones get no window."""

    def __init__(self, took: float, read_ahead: int) -> None:
        # the bytes are the narrower bound now and then: arguments have two
        self.world = World(Rules(read_ahead=read_ahead, read_ahead_bytes=24 if read_ahead == 5 else 1_000))
        self.took = took
        self.count = 0
        self.said: list[tuple[Told, int, End]] = []
        self.log: list[str] = []
        self.fence = 0
        self.acts: tuple[Callable[[int, int], None], ...] = (
            self.intake,
            self.intake,
            self.submit,
            self.join,
            self.finish,
            self.finish,
            self.finish,
            self.release,
            self.repeat,
            self.beat,
            self.beat,
            self.silence,
            self.silence,
            self.goodbye,
            self.started,
            self.command,
            self.command,
            self.take_over,
            self.lock,
            self.inventory,
            self.share,
        )

    def play(self, step: Step) -> None:
        act, a, b = step
        self.acts[act % len(self.acts)](a, b)

    def tick(self) -> None:
        world = self.world
        world.now += 0.25
        events = world.tick()
        self.log.append(shown(events))
        self.check(events)

    # -- what may happen

    def intake(self, a: int, b: int) -> None:
        for _ in range(1 + a % 3):
            self.count += 1
            kind = ("k", "k", "l", "nobody")[b % 4]
            self.world.job(
                f"j{self.count}", _SIZES[a % 6], b % 5, kind=kind, max_attempts=_BOUNDS[b % 4], submitter=(None, "x", "y")[a % 3]
            )
        if b % 7 == 0:
            self.world.job(f"j{1 + a % self.count}", 1.0)  # known already

    def submit(self, a: int, b: int) -> None:
        self.count += 1
        due = self.world.now + (a % 9 - 4) * 0.5
        self.world.submit(f"j{self.count}", due=due, priority=b % 5, max_attempts=_BOUNDS[a % 4], submitter=(None, "x", "y")[b % 3])

    def share(self, a: int, b: int) -> None:
        tables = self.world.tables
        tables.modes = dataclasses.replace(tables.modes, fair_share=not tables.modes.fair_share)
        tables.command("fair_share")
        for _ in range(2):  # the leader reads the command, then the setting
            self.log.append(shown(self.world.tick()))

    def join(self, a: int, b: int) -> None:
        self.world.join("abc"[a % 3], (8.0, 20.0)[b % 2], 1 + b % 4, {"k": 1} if b % 3 else {"k": 2, "l": 1})

    def _placed(self) -> list[str]:
        bundles = [row.bundle for _, row in sorted(self.world.tables.bundles.items())]
        tables = self.world.tables
        return [self.world.names[job.id] for bundle in bundles for job in bundle.jobs if (job.id, bundle.fence) not in tables.attempts]

    def _agent_of(self, name: str) -> Told | None:
        incarnation = self.world.bundle(name).incarnation
        return next((agent for agent in self.world.agents.values() if agent.incarnation == incarnation), None)

    def finish(self, a: int, b: int) -> None:
        placed = self._placed()
        for name in placed[a % 5 :: 1 + a % 3][:4]:
            agent = self._agent_of(name)
            if agent is None:
                continue
            fence, end = self.world.an_end(name, _OUTCOMES[(a + b) % 8], took=self.took, delay_s=(b % 4) * 0.3, retryable=a % 11 != 0)
            self.said.append((agent, fence, end))
            if b % 5:
                self.world.say(agent, Finished(fence=fence, ends=[end]))

    def release(self, a: int, b: int) -> None:
        placed = self._placed()
        if placed:
            name = placed[a % len(placed)]
            if self._agent_of(name) is not None:
                self.world.release(name)

    def repeat(self, a: int, b: int) -> None:
        """Some earlier report arrives again, or for the first time: late."""
        if self.said:
            agent, fence, end = self.said[a % len(self.said)]
            if b % 3 == 0:
                end = End(end.job, end.attempt, Outcome.SUCCEEDED, end.started_at, end.ended_at)
            self.world.say(agent, Finished(fence=fence, ends=[end]))

    def beat(self, a: int, b: int) -> None:
        for name in sorted(self.world.agents):
            self.world.beat(name, suspended=a % 7 == 0, draining=b % 13 == 0)

    def silence(self, a: int, b: int) -> None:
        self.world.now += (1.0, 4.0, 6.0, 16.0)[a % 4]
        if a % 4 < 3 and self.world.agents:
            self.world.beat(sorted(self.world.agents)[b % len(self.world.agents)])
        self.world.batch.reports_read_at = T0 + self.world.now

    def goodbye(self, a: int, b: int) -> None:
        if self.world.agents:
            self.world.goodbye(sorted(self.world.agents)[a % len(self.world.agents)])

    def started(self, a: int, b: int) -> None:
        placed = self._placed()
        if placed:
            name = placed[a % len(placed)]
            agent = self._agent_of(name)
            if agent is not None:
                self.world.started(name, agent.name)

    def command(self, a: int, b: int) -> None:
        if self.count:
            verb = ("cancel", "retry", "reschedule")[b % 3]
            args: dict[str, object] = {"priority": "high", "run_at": T0 + self.world.now + b % 3} if verb == "reschedule" else {}
            self.world.tables.command(verb, self.world.id(f"j{1 + a % self.count}"), args)
            self.world.batch.intake_read_at = T0 + self.world.now

    def take_over(self, a: int, b: int) -> None:
        self.log.append(shown(self.world.lead(reports_lost=a % 5 == 0)))

    def lock(self, a: int, b: int) -> None:
        self.world.tables.locked = {self.world.id(f"j{self.count + 1}")} if b % 2 else set()

    def inventory(self, a: int, b: int) -> None:
        for name in sorted(self.world.agents):
            held = [(self.world.bundle(job).fence, self.world.ids[job]) for job in self.world.held(name)]
            self.world.beat(name, held=held[a % 2 :])

    # -- what must hold

    def check(self, events: list[happened.Event]) -> None:
        tables = self.world.tables
        places: dict[str, int] = dict.fromkeys(tables.pending, 1)
        numbers: dict[str, list[int]] = {job_id: [row.attempt for row in rows] for job_id, rows in tables.attempts_of.items()}
        for fence, row in tables.bundles.items():
            open_jobs = 0
            for job, attempt in zip(row.bundle.jobs, row.bundle.attempts, strict=True):
                if (job.id, fence) not in tables.attempts:
                    places[job.id] = places.get(job.id, 0) + 1
                    numbers.setdefault(job.id, []).append(attempt)
                    open_jobs += 1
            assert open_jobs, f"bundle {fence} is open without a job"
        for job_id in tables.jobs:
            assert places.get(job_id, 0) == (0 if tables.final(job_id) else 1), f"I1: {self.world.names[job_id]}"
        for job_id, found in numbers.items():
            assert sorted(found) == list(range(1, len(found) + 1)), f"I3: {self.world.names[job_id]} {found}"
            assert len(found) < MOST_PLACEMENTS
        assert tables.fence >= self.fence, "I7"
        self.fence = tables.fence
        for job_id, rows in tables.attempts_of.items():
            used = [row.used for row in rows if row.final is None]
            assert all(one < tables.bound(job_id) for one in used), f"used up, and not final: {self.world.names[job_id]}"
        held, args = self.world.lane.in_memory
        assert held <= self.world.rules.read_ahead * 15  # five priorities, three kinds
        assert args <= self.world.rules.read_ahead_bytes + 15 * len(b"{}")
        self.check_capacity(events)
        self.check_take_over()

    def check_take_over(self) -> None:
        """Equal; but that the leader may believe that a row is due which was cancelled meanwhile: it asks, and learns."""
        loaded, known = self.world.loaded().picture(), self.world.lane.picture()
        waiting, believed = by_kind(loaded.pop("waiting")), by_kind(known.pop("waiting"))
        assert loaded == known
        assert all(believed[key] <= at for key, at in waiting.items())

    def check_capacity(self, events: list[happened.Event]) -> None:
        if self.took < 1.0:
            return
        incarnations = {event.bundle.incarnation for event in of(events, happened.Placed) if isinstance(event, happened.Placed)}
        for agent in self.world.agents.values():
            if agent.incarnation not in incarnations:
                continue
            held = self.world.held(agent.name)
            sizes = [self.world.tables.jobs[self.world.ids[name]].size for name in held]
            assert len(held) <= agent.slots
            assert sum(sizes) <= agent.capacity or len(held) == 1

    def end(self) -> None:
        """No more faults: every job ends (I10)."""
        world = self.world
        world.tables.locked = set()
        world.join("z", 64.0, 64, {"k": 9, "l": 9, "nobody": 9})
        for _ in range(400):
            world.now += 1.0
            for name in sorted(world.agents):
                if name == "z":
                    world.beat(name)
            for name in world.held("z"):
                world.finish(name, took=self.took)
            world.batch.reports_read_at = T0 + world.now
            self.log.append(shown(world.tick()))
            if not world.tables.pending and not world.tables.bundles and not world.tables.held:
                return
        waiting = {world.names[job_id]: row for job_id, row in world.tables.pending.items()}
        raise AssertionError(f"never ended: {waiting} {world.tables.bundles}")


def shown(events: list[happened.Event]) -> str:
    """The events as text, without the addresses of unopened JSON."""
    return re.sub(r" object at 0x[0-9a-f]+", "", repr(events))


def by_kind(picture: object) -> dict[tuple[int, str, int], float]:
    rows = cast("list[tuple[int, str, int, float]]", picture)
    return {(priority, kind, flow): at for priority, kind, flow, at in rows}


_STEPS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 60), st.integers(0, 60)), min_size=5, max_size=40)
_SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def play(steps: list[Step], took: float, read_ahead: int) -> History:
    history = History(took, read_ahead)
    for number, step in enumerate(steps):
        history.play(step)
        if (number + step[1]) % 3 or history.world.batch.empty:
            history.tick()
    history.tick()
    return history


@pytest.mark.parametrize("took", [2.0, 0.001])
@given(steps=_STEPS, read_ahead=st.sampled_from([2, 5, 10_000]))
@_SETTINGS
def test_I1_I2_I3_I7_hold_and_a_take_over_knows_all(took: float, steps: list[Step], read_ahead: int) -> None:
    history = play(steps, took, read_ahead)
    history.end()
    tables = history.world.tables
    assert all(tables.final(job_id) for job_id in tables.jobs)


@given(steps=_STEPS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_history_gives_the_same_events(steps: list[Step]) -> None:
    assert play(steps, 2.0, 5).log == play(steps, 2.0, 5).log


def test_states_are_final_or_not() -> None:
    history = play([(0, 0, 0), (3, 0, 1), (4, 0, 0)], 2.0, 5)
    assert set(State) >= {history.world.tables.state(job_id) for job_id in history.world.tables.jobs}
