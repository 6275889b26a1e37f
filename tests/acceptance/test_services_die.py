"""Kafka and Postgres restarted and killed under load, topics destroyed. No agent is silent for too long, so nothing is lost, and nothing runs twice."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from guarantees import InterruptedOnlyOf, LostOnlyOf
from world import World

from jobyard.embedded.services import Addresses, Services

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included


def _crash_postgres(services: Services) -> None:
    services.restart_postgres("immediate")


def _kill_kafka(services: Services) -> None:
    services.kill_kafka()
    services.start_kafka()


BREAKS: dict[str, Callable[[Services], None]] = {
    "Kafka restarted": Services.restart_kafka,
    "Kafka killed": _kill_kafka,
    "Postgres crashed": _crash_postgres,
}


def _begin(world: World) -> None:
    world.coordinator("coordinator")
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")


@pytest.mark.parametrize("what", BREAKS)
def test_services_that_come_back_cost_nothing(what: str, breakable: Services, breakable_world: World) -> None:
    world = breakable_world
    _begin(world)
    world.submit_mixed(200, by_cli=0)
    world.until_busy("anna", "bert")
    BREAKS[what](breakable)
    world.submit_mixed(60)
    world.check(LostOnlyOf(), InterruptedOnlyOf())


def test_Kafka_away_for_longer_than_lost_after_ends_in_order(
    breakable: Services, breakable_database: str, namespace: str, tmp_path: Path
) -> None:
    """L24, A6: the leader gives the lane up, agents start nothing and may be given up; when Kafka is back everything goes on."""
    addresses = Addresses(breakable_database, breakable.kafka_bootstrap_servers)
    with World(tmp_path, addresses, namespace, lost_after_s=5.0) as world:
        _begin(world)
        world.submit_mixed(150, by_cli=0)
        world.until_busy("anna", "bert")
        breakable.kill_kafka()
        time.sleep(8.0)
        breakable.start_kafka()
        world.submit_mixed(30, by_cli=0)
        world.check(InterruptedOnlyOf())


def test_everything_killed_at_once_goes_on_where_it_was(
    breakable: Services, breakable_database: str, namespace: str, tmp_path: Path
) -> None:
    """As by a power cut. The agents come back under their names; only what had started there may run twice."""
    addresses = Addresses(breakable_database, breakable.kafka_bootstrap_servers)
    with World(tmp_path, addresses, namespace, lost_after_s=5.0) as world:
        _begin(world)
        world.submit_mixed(150, by_cli=0)
        world.until_busy("anna", "bert")
        for name in ("coordinator", "anna", "bert"):
            world.kill(name)
        breakable.kill_kafka()
        breakable.restart_postgres("immediate")
        breakable.start_kafka()
        world.coordinator("coordinator")
        world.agent("anna")
        world.agent("bert")
        world.submit_mixed(30, by_cli=0)
        world.check(LostOnlyOf(("anna", "bert")), InterruptedOnlyOf())


@pytest.mark.parametrize("which", ["buckets", "control", "reports", "intake"])
def test_C21_a_topic_made_again_leaves_nothing_placed(which: str, breakable_world: World) -> None:
    world = breakable_world
    _begin(world)
    world.submit_mixed(200, by_cli=0)
    world.until_busy("anna", "bert")
    if which == "intake":
        # what lies in it is gone with it: all of it is to be known first
        world.until("intake is read", lambda: world.number("select count(*) from jobyard.jobs") == len(world.expected))
    world.destroy_topic(getattr(world.topics, which).name)
    world.submit_mixed(60, by_cli=0)
    world.check(LostOnlyOf(), InterruptedOnlyOf())
