"""Points: armed by tests only, told their facts, and each of them in the code."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from jobyard.process import points
from jobyard.process.points import Point

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def none_armed() -> Generator[None]:
    yield
    points.disarm()


def test_an_armed_point_is_told_its_facts_and_no_other_is() -> None:
    told: list[tuple[object, ...]] = []
    points.reached(Point.TICK_COMMITTED, "before")
    points.arm(Point.TICK_COMMITTED, lambda *facts: told.append(facts))
    points.reached(Point.TICK_COMMITTED, 1, 2)
    points.reached(Point.EPOCH_TAKEN)
    assert told == [(1, 2)]


def test_what_an_action_raises_is_raised_there() -> None:
    def fail() -> None:
        raise OSError("broken")

    points.arm(Point.EPOCH_TAKEN, fail)
    with pytest.raises(OSError, match="broken"):
        points.reached(Point.EPOCH_TAKEN)


def test_each_point_is_reached_at_one_place_and_armed_by_no_product_code() -> None:
    code = {path: path.read_text() for part in ("agent", "coordinator", "master_db", "jobyard") for path in (ROOT / part).rglob("*.py")}
    code = {path: text for path, text in code.items() if not any(parent.is_symlink() for parent in path.parents)}
    simulation = ROOT / "coordinator" / "simulation"  # no product code: it plays processes, and breaks them at points
    code = {path: text for path, text in code.items() if simulation not in path.parents}
    places = re.findall(r"reached\(Point\.(\w+)", "\n".join(code.values()))
    assert sorted(places) == sorted(point.name for point in Point)
    assert [path.name for path, text in code.items() if "points" in text and "arm(" in text] == ["points.py"]
