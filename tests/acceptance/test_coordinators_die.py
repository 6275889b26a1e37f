"""Three coordinators, one of which leads: paused, woken, ended and killed under load. Nothing is lost with an agent: none was touched."""

import signal
import sys
import time

import pytest
from faults.at_point import AtPoint
from faults.leaderships import check_epochs, epoch, leader_of
from promises.guarantees import InterruptedOnlyOf, LostOnlyOf
from worlds.world import MakeWorld, World

from jobyard.process.points import Point

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

TAKE_OVER_S = 5.0
MARGIN_S = 10.0
"""For a machine under load."""
NAMES = ("one", "two", "three")


def test_the_lead_moves_among_coordinators_and_no_two_lead_at_once(make_world: MakeWorld) -> None:
    world = make_world(lost_after_s=30.0)
    for name in NAMES:
        world.coordinator(name)
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")
    world.submit_mixed(100)

    a = _leads(world)
    _pass_on(world, a, signal.SIGSTOP)
    b = _leads(world)
    _pass_on(world, b, signal.SIGSTOP)
    c = _leads(world)
    assert len({a, b, c}) == 3
    _wake(world, a)  # while c leads
    _pass_on(world, c, signal.SIGSTOP)
    assert _leads(world) == a
    _wake(world, b)
    _wake(world, c)
    _pass_on(world, a, signal.SIGTERM, within_s=TAKE_OVER_S)
    assert world.status_of(a) == 0
    world.coordinator(a)
    _pass_on(world, _leads(world), signal.SIGKILL)
    world.submit_mixed(30, by_cli=0)
    world.check(LostOnlyOf(), InterruptedOnlyOf())
    check_epochs(world)


def test_one_that_cannot_end_in_order_ends_at_the_second_signal_and_says_so(make_world: MakeWorld) -> None:
    world = make_world()
    world.coordinator("one", at=AtPoint(Point.MESSAGES_TAKEN, stands=True))  # its tick never ends
    world.until_standing("one")
    world.send("one", signal.SIGTERM)
    since = time.monotonic()
    world.until("it has tried to end in order", lambda: time.monotonic() > since + 1.0)
    world.send("one", signal.SIGTERM)
    assert world.status_of("one") == 1
    assert "led again when its leases are over" in world.log_of("one")


def _leads(world: World) -> str:
    world.until("one of them leads", lambda: leader_of(world, NAMES))
    leader = leader_of(world, NAMES)
    assert leader is not None
    return leader


def _pass_on(world: World, leader: str, what: signal.Signals, within_s: float = TAKE_OVER_S + MARGIN_S) -> None:
    """This happens to the leader, under load; another one leads and goes on."""
    for request in world.mixed(20):
        request.submit()
    world.until_busy("anna", "bert")
    before = epoch(world)
    if what is signal.SIGKILL:
        at = world.kill(leader)
    else:
        world.send(leader, what)
        at = world.until("it is told", lambda: True)
    may_end = (leader,) if what is signal.SIGTERM else ()
    took = world.until("another one leads", lambda: epoch(world) > before, within_s, may_end) - at
    sys.stdout.write(f"led again {took:.2f} s after {what.name}\n")
    ended = world.ended()
    world.until("it goes on", lambda: world.ended() > ended, may_end=may_end)


def _wake(world: World, name: str) -> None:
    """It notices, by its tick, which can't commit, or by its connection, which the database has closed meanwhile."""
    said, before = len(world.log_of(name)), epoch(world)
    world.send(name, signal.SIGCONT)
    world.until("it has noticed", lambda: len(world.log_of(name)) > said)
    assert epoch(world) == before
