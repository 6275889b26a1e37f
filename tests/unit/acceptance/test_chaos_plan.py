"""The plan of a run of chaos: the seed repeats it, and everything that can break does in time."""

from collections import Counter
from typing import get_args

from chaos.plan import CLIENT, LINKS, TOPICS, Fault, Step, plan

from jobyard.process.points import Point

COORDINATORS = ("first", "second")
AGENTS = ("anna", "bert", "cleo")


def test_the_seed_repeats_it() -> None:
    assert plan(7, 600, COORDINATORS, AGENTS) == plan(7, 600, COORDINATORS, AGENTS)
    assert plan(7, 600, COORDINATORS, AGENTS) != plan(8, 600, COORDINATORS, AGENTS)


def test_a_longer_run_begins_as_a_shorter_one() -> None:
    short = plan(7, 300, COORDINATORS, AGENTS)
    assert plan(7, 600, COORDINATORS, AGENTS)[: len(short)] == short


def test_it_keeps_to_its_time_and_its_targets() -> None:
    steps = plan(1, 1800, COORDINATORS, AGENTS)
    assert [step.at_s for step in steps] == sorted(step.at_s for step in steps)
    assert all(0 < step.at_s < 1800 for step in steps)
    assert {step.target for step in steps} <= {*COORDINATORS, *AGENTS, *TOPICS, CLIENT, ""}
    assert all(step.detail in LINKS for step in steps if step.fault in ("drop", "stall", "delay", "reset"))
    assert not [step for step in steps if step.target in AGENTS and step.detail == "postgres"]


def test_in_time_everything_breaks() -> None:
    steps: list[Step] = []
    for seed in range(20):
        steps += plan(seed, 1800, COORDINATORS, AGENTS)
    assert set(Counter(step.fault for step in steps)) == set(get_args(Fault))
    assert {step.detail for step in steps if step.fault == "break at"} == {point.value for point in Point}
    assert {step.target for step in steps if step.fault == "make topic again"} == set(TOPICS)


def test_a_step_says_what_it_does() -> None:
    assert (
        str(Step(1.0, "break at", "anna", 2.0, "reports sent", 3, pauses=True)) == "break at anna (reports sent) paused at no. 3 for 2.0 s"
    )
    assert str(Step(1.0, "make topic again", "reports", 0.0)) == "make topic again reports"
