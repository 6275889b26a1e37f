"""How many agents a lane takes in, whoever says hello."""

from dataclasses import replace

import pytest
from lane_world import World

from jobyard.contracts.control import Fenced, Welcome
from jobyard.contracts.reports import Goodbye, Hello, Report
from jobyard.contracts.rules import RULES, Rules
from jobyard.coordinator.core import events as happened


def world(agents_max: int) -> World:
    made = World(rules=replace(RULES, agents_max=agents_max, agents_s=2.0))
    made.batch.partitions = 1_000
    return made


def joined(made: World) -> int:
    return len(made.tables.agents)


def flood(made: World, count: int, *more: Report) -> None:
    """So many new incarnations of one name, each in a message of its own."""
    for _ in range(count):
        told = made.new_incarnation("a")
        told.seq = made.tables.fence + len(made.batch.reports) + 1_000 * int(made.now)  # its offset
        made.say(told, Hello(stamp=1.0, kinds=told.kinds, capacity=told.capacity, slots=told.slots), *more)


def kept(events: list[happened.Event]) -> list[str]:
    return [event.message.reason for event in events if isinstance(event, happened.Quarantined)]


def test_a_lane_takes_in_so_many_agents_and_the_next_when_one_has_left() -> None:
    made = world(2)
    first = made.join("a")
    made.join("b")
    third = made.new_incarnation("c")
    made.hello(third)
    (why,) = kept(made.tick(1))
    assert "agent 'c'" in why
    assert "takes 2 at most (JOBYARD_MAX_AGENTS)" in why
    assert joined(made) == 2
    assert not made.said(Fenced)  # it would begin anew, where it is to wait
    made.say(first, Goodbye())
    made.tick(2)
    made.hello(third)
    made.tick(3)
    assert joined(made) == 3
    assert not made.said(Fenced)


def test_at_the_most_an_agent_may_still_start_again_under_its_name() -> None:
    made = world(2)
    made.join("a")
    made.join("b")
    made.join("a")
    assert [row.ended for row in made.tables.agents.values()] == [True, False, False]


def test_of_a_flood_of_hellos_under_one_name_few_leave_a_row() -> None:
    made = world(10)
    reasons: list[str] = []
    for second in range(1, 6):
        flood(made, 50)
        reasons += kept(made.tick(second))
    assert joined(made) <= 2 * 10 + 5 * 2
    assert len(reasons) == 250 - joined(made)
    assert all("2 a second are taken in" in why for why in reasons)


def test_of_a_flood_of_those_that_come_and_go_little_is_remembered() -> None:
    made = world(10)
    flood(made, 200, Goodbye())
    made.tick(1)
    assert joined(made) == 0
    made.hello(made.new_incarnation("b"))
    assert kept(made.tick(1.1))  # what is remembered for an hour counts, too


def test_all_agents_of_a_full_lane_may_start_again_at_once() -> None:
    made = world(40)
    names = [f"agent-{n}" for n in range(40)]
    for at in (1, 2):
        for name in names:
            made.hello(made.new_incarnation(name))
        events = made.tick(at)
        assert not kept(events)
    assert joined(made) == 80
    made.batch.buckets_ready = [(part, 0) for part in range(200)]
    made.tick(3)
    assert len(made.said(Welcome)) == 40


def test_a_most_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="agents_max=0 must be at least 1"):
        Rules(agents_max=0)
