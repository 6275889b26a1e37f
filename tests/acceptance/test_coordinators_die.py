"""Coordinators killed and paused under load. Nothing is lost with an agent: none was touched."""

import signal
import sys
import time

import pytest
from guarantees import InterruptedOnlyOf, LostOnlyOf
from world import MakeWorld, World

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

TAKE_OVER_S = 5.0
MARGIN_S = 10.0
"""For a machine under load."""


def test_another_coordinator_leads_when_the_first_is_killed_or_paused(make_world: MakeWorld) -> None:
    world = make_world(lost_after_s=30.0)
    world.coordinator("first")
    world.until_led()
    world.coordinator("second")
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")

    world.submit_mixed(200)
    world.until_busy("anna", "bert")
    epoch = _epoch(world)
    killed = world.kill("first")
    took = world.until("the second leads", lambda: _epoch(world) > epoch, TAKE_OVER_S + MARGIN_S) - killed
    sys.stdout.write(f"led again {took:.2f} s after kill -9\n")
    world.until_all_ended()
    world.check(LostOnlyOf(), InterruptedOnlyOf())

    world.coordinator("third")
    world.submit_mixed(200, by_cli=0)
    world.until_busy("anna", "bert")
    epoch = _epoch(world)
    world.send("second", signal.SIGSTOP)
    paused = time.monotonic()
    took = world.until("the third leads", lambda: _epoch(world) > epoch, TAKE_OVER_S + MARGIN_S) - paused
    sys.stdout.write(f"led again {took:.2f} s after SIGSTOP\n")
    ended = world.ended()
    world.until("it goes on", lambda: world.ended() > ended)
    said = len(world.log_of("second"))
    world.send("second", signal.SIGCONT)
    world.submit_mixed(50, by_cli=0)
    # by its tick, which can't commit, or by its connection, which the database has closed meanwhile
    world.until("the paused one has noticed", lambda: len(world.log_of("second")) > said)
    world.check(LostOnlyOf(), InterruptedOnlyOf())

    # and the one that was paused can lead again
    epoch = _epoch(world)
    world.kill("third")
    world.submit_mixed(50, by_cli=0)
    world.until("the one that was paused leads", lambda: _epoch(world) > epoch, TAKE_OVER_S + MARGIN_S)
    world.check(LostOnlyOf(), InterruptedOnlyOf())


def _epoch(world: World) -> int:
    return world.number("select epoch from jobyard.leases")
