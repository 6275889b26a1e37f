"""The pictures of docs/scheduling.md are drawn from runs, and show what the page says."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobyard.contracts.rules import RULES
from jobyard.coordinator.simulation import stories
from jobyard.coordinator.simulation.pictures import drawn
from jobyard.coordinator.simulation.series import Moment, Story

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


@pytest.fixture(scope="module")
def told() -> dict[str, Story]:
    return stories.all_of_them()


def at(story: Story, second: float) -> Moment:
    return next(moment for moment in story.moments if moment.at >= second)


def test_a_machine_that_joins_takes_what_waits_and_nothing_moves(told: dict[str, Story]) -> None:
    story = told["machine-joins"]
    before, after = at(story, 19.5), at(story, 24.0)
    assert set(before.running) == {"a1", "a2"}
    assert after.running["a3"] == after.running["a4"] == story.slots["a3"]
    assert after.waiting < before.waiting - 15
    assert story.moments[-1].ended == 160


def test_a_machine_that_dies_gives_its_jobs_back_when_it_is_lost(told: dict[str, Story]) -> None:
    story = told["machine-dies"]
    lost = 14.0 + RULES.lost_after_s
    believed, known = at(story, lost - 2.0), at(story, lost + 2.0)
    assert believed.held["a2"] > 0
    assert "a2" not in believed.busy
    assert "a2" not in known.held
    assert story.moments[-1].ended == 320


def test_a_huge_job_gets_a_machine_kept_free_for_it(told: dict[str, Story]) -> None:
    story = told["huge-job"]
    first = next(moment for moment in story.moments if moment.whole)
    assert 12.0 + RULES.reserve_after_s <= first.at < 12.0 + RULES.reserve_after_s + 6.5, "small jobs last at most 5.6 s"
    (kept,) = first.whole
    drains = [moment.held[kept] for moment in story.moments if 12.0 + RULES.reserve_after_s < moment.at < first.at]
    assert drains == sorted(drains, reverse=True), "it gets nothing but the large job"
    assert story.moments[-1].ended == 271
    assert [mark.what for mark in story.marks][1:] == [f"{kept} is kept for it", "it starts"]


def test_a_picture_tells_its_units_and_what_its_colours_mean(told: dict[str, Story]) -> None:
    for name, story in told.items():
        picture = drawn(story)
        for word in (
            "jobs that wait",
            "8 slots",
            "0 s",
            "waits",
            "runs",
            "placed, as the leader believes",
            "free",
            story.title.split("'")[0],
        ):
            assert word in picture, f"{name}: {word}"
        assert ("the large job" in picture) == (name == "huge-job")


def test_the_pictures_of_the_page_are_these(told: dict[str, Story]) -> None:
    for name, story in told.items():
        picture = drawn(story)
        ElementTree.fromstring(picture)
        assert (PICTURES / f"{name}.svg").read_text() == picture, "make pictures draws them anew"
