"""The simulator itself, and a short fixed set of its worlds; `make simulate` runs many more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from planted import planted

from jobyard.contracts.rules import RULES
from jobyard.coordinator.simulation import kept, load, stress
from jobyard.coordinator.simulation.case import Case
from jobyard.coordinator.simulation.load import Load
from jobyard.coordinator.simulation.plan import FAULTS, LEADER_POINTS
from jobyard.coordinator.simulation.shrinking import shrunk
from jobyard.coordinator.simulation.world import Checking
from jobyard.process.points import Point

CASES = Path(__file__).parent / "cases.jsonl"


def small(seed: int, memory: int | None = None) -> Case:
    """A world that takes a fraction of a second."""
    return Case(seed, 30, 3, 2, 15.0, memory=memory)


def test_nothing_breaks_in_a_fixed_set_of_worlds() -> None:
    done: set[str] = set()
    for seed in range(24):
        outcome = stress.run(small(seed, 1 if seed % 3 == 0 else None))
        assert outcome.rule is None, f"{outcome.case.text}: {outcome.rule}: {outcome.what}"
        assert outcome.checks > 100
        done |= set(outcome.faults)
    assert len(done) >= len(FAULTS) - 3, f"never done: {set(FAULTS) - done}"


def test_every_point_of_a_leader_is_one_to_die_at() -> None:
    """C1 to C9: those of an agent and of the database's session are reached otherwise."""
    agent = {Point.TURN_HEARD, Point.REPORTS_DECIDED, Point.REPORTS_SENT}
    session = {Point.ROWS_SENT, Point.COMMIT_SENT}
    assert set(LEADER_POINTS) == set(Point) - agent - session


def test_what_broke_once_holds_now() -> None:
    cases = kept.read(CASES)
    assert cases
    for one in cases:
        outcome = stress.run(Case.parsed(one.case))
        assert outcome.rule is None, f"{one.found}: {outcome.rule}: {outcome.what}"


def test_a_seed_gives_the_same_history_in_every_process() -> None:
    case = small(7, 2)

    def trace(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "jobyard.coordinator.simulation", "--case", case.text],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout

    first = trace("1")
    assert "trace" in first
    assert first == trace("2")
    assert f"trace {stress.run(case).trace:08x}" in first
    assert f"trace {stress.run(small(8, 2)).trace:08x}" not in first


@pytest.mark.parametrize(
    ("name", "seed", "rule"),
    [
        ("skip the fence check", 0, "I4"),
        ("send before commit", 9, "L4"),
        ("forget running load after a take-over", 0, "T2"),
    ],
)
def test_a_planted_bug_is_found_by_this_seed(name: str, seed: int, rule: str) -> None:
    case = small(seed)
    assert stress.run(case).rule is None
    with planted(name):
        assert stress.run(case).rule == rule


def test_forgotten_load_is_found_by_what_is_placed_as_well() -> None:
    """Without a look at what the leader knows: an agent gets more than it has slots for."""
    with planted("forget running load after a take-over"):
        assert stress.run(small(7), checking=Checking(knowledge=10**9)).rule == "S8"


def test_a_failing_case_is_made_small() -> None:
    case = Case(0, 12, 3, 2, 8.0)
    with planted("skip the fence check"):
        whole = stress.run(case)
        less = shrunk(case, whole.planned, lambda other: stress.run(other).rule == "I4")
        found = stress.run(less)
    assert found.rule == "I4"
    assert less.faults is not None
    assert len(less.faults) <= 3
    assert less.jobs < case.jobs
    assert Case.parsed(less.text) == less
    assert Case.parsed(small(3, memory=2).text) == small(3, memory=2)
    assert stress.run(less).rule is None


def test_a_case_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no case: .*seed"):
        Case.parsed('{"jobs": 3}')


def test_a_case_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    assert kept.keep(path, Case.drawn(3), "I1", "a mistake")
    assert not kept.keep(path, Case.drawn(3), "I1", "a mistake")
    (one,) = kept.read(path)
    assert Case.parsed(one.case) == Case.drawn(3)


def test_a_lane_with_load_ends_all_of_it_and_tells_how_long_jobs_waited() -> None:
    figures = load.run(Load(agents=20, jobs=2_000, deaths=1, leaders=1, seed=3), RULES)
    assert figures.broken is None
    assert figures.placed >= 2_000
    assert figures.faults == {"agent dies": 1, "agent joins": 1, "leader dies": 1}
    half, most = figures.waits.of(0, 0.5), figures.waits.of(0, 0.99)
    assert half is not None
    assert most is not None
    assert 0 <= half < 1.0 <= most
    assert figures.utilisation > 0.2
    assert figures.per_second > 100
