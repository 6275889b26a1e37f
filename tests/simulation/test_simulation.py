"""The simulator: the same seed gives the same history, a few worlds hold, and what is wrong on purpose is found."""

from collections.abc import Callable

import pytest

from jobyard.agent.core.fences import Fences
from jobyard.coordinator.core.books.fleet import Fleet
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.simulation import __main__ as simulation
from jobyard.coordinator.simulation.checks import Broken
from jobyard.coordinator.simulation.leader import Leader
from jobyard.coordinator.simulation.plan import large, small
from jobyard.coordinator.simulation.world import World

FIXED = (1, 2, 3, 4, 15)
"""Seeds of every day, and those that have found something."""


@pytest.mark.parametrize("seed", FIXED)
def test_worlds_full_of_faults_hold(seed: int) -> None:
    world = World(small(seed))
    world.run()
    assert world.faults == 12
    assert world.checks.count["starts"] >= 120
    assert world.checks.count["take-over law"] > 3


def test_the_same_seed_gives_the_same_history() -> None:
    first, second, other = World(small(7, jobs=60)), World(small(7, jobs=60)), World(small(8, jobs=60))
    for world in (first, second, other):
        world.run()
    assert (first.trace, first.steps) == (second.trace, second.steps)
    assert first.trace != other.trace


def test_a_larger_world_holds_and_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulation.main(["--large", "--seed", "1", "--agents", "20", "--jobs", "3000"]) == 0
    said = capsys.readouterr().out
    assert "placements a second" in said
    assert "utilisation" in said
    assert len(large(1, 10, 2).jobs) == 10


def found(seeds: range) -> tuple[int, str]:
    """The first seed that breaks, and how."""
    for seed in seeds:
        try:
            World(small(seed)).run()
        except Broken as error:
            return seed, str(error)
    raise AssertionError("no seed has found it")


def test_an_agent_that_forgets_its_fences_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: Fences, fence: int) -> None:
        """Each bundle looks new."""

    monkeypatch.setattr(Fences, "get", forgets)
    _, how = found(range(1, 30))
    assert "a fence is started once" in how or "second time" in how or "which was not lost" in how, how


def test_a_leader_that_sends_before_it_has_committed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "SENDS_FIRST", True)
    _, how = found(range(1, 60))
    assert how


def test_a_take_over_that_forgets_what_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load: Callable[..., None] = Lane._load_bundles  # pyright: ignore[reportPrivateUsage]

    def forgetting(self: Lane, *arguments: object) -> None:
        gave = Fleet.gave
        Fleet.gave = lambda *_: None  # type: ignore[method-assign]
        try:
            load(self, *arguments)
        finally:
            Fleet.gave = gave  # type: ignore[method-assign]

    monkeypatch.setattr(Lane, "_load_bundles", forgetting)
    _, how = found(range(1, 30))
    assert "held" in how or "know other agents" in how, how
