"""Kafka and Postgres restarted and killed under load, topics destroyed. No agent is silent for too long, so nothing is lost, and nothing runs twice."""

import os
import signal
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from faults.at_point import AtPoint
from faults.leaderships import check_epochs
from promises import mixed_jobs
from promises.guarantees import InterruptedOnlyOf, LostOnlyOf
from worlds.world import World

from jobyard.embedded.services import Addresses, Services
from jobyard.process.points import Point

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


def test_C6_what_was_not_delivered_is_sent_again_under_the_same_fence(breakable: Services, breakable_world: World) -> None:
    """Kafka stands still for so long that bundles are not delivered, or perhaps they are. Their leader lives, is killed right then, or paused and woken."""
    world = breakable_world
    not_delivered = AtPoint(Point.DELIVERY_FAILED, when="is a bundle")
    world.coordinator("lives")
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")
    world.submit_mixed(30, by_cli=0)
    world.check(LostOnlyOf(), InterruptedOnlyOf())
    with _kafka_still(breakable, world):
        lived = _place(world)
        world.until("it is told", lambda: "not delivered to" in world.log_of("lives"))
    _ended_in_their_places(world, lived)

    world.coordinator("killed", at=replace(not_delivered, what="kill"))
    assert world.terminate("lives") == 0
    with _kafka_still(breakable, world):
        killed = _place(world)
        world.until_broken("killed", replace(not_delivered, what="kill"))
    world.end_lease()
    world.coordinator("paused", at=replace(not_delivered, what="pause"))
    _ended_in_their_places(world, killed)

    with _kafka_still(breakable, world):
        paused = _place(world)
        world.until_broken("paused", replace(not_delivered, what="pause"))
    world.end_lease()
    world.coordinator("last")
    _ended_in_their_places(world, paused)
    said = len(world.log_of("paused"))
    world.send("paused", signal.SIGCONT)
    world.until("it has noticed", lambda: len(world.log_of("paused")) > said)

    evidence = world.check(LostOnlyOf(), InterruptedOnlyOf())
    check_epochs(world)
    for job, fence in (lived | killed | paused).items():
        assert [(row["attempt"], row["fence"]) for row in evidence.attempts[job]] == [(1, fence)]
        assert len(evidence.executions[job]) == 1


@contextmanager
def _kafka_still(services: Services, world: World) -> Generator[None]:
    """Once the leader of now places on both agents, which it has heard (L6)."""
    _ended_in_their_places(world, _submit(world, 20))
    pid = services.kafka.server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _submit(world: World, count: int) -> list[str]:
    requests = [world.expect(mixed_jobs.tiny.request(n)) for n in range(count)]
    mixed_jobs.app.submit_many(requests)
    return [str(request.id) for request in requests]


def _place(world: World) -> dict[str, int]:
    """Jobs that are placed while Kafka stands still, with their fences. The agents must have room: nobody hears of an end."""
    jobs = _submit(world, 5)
    sql = "select job::text, fence from jobyard.bundles, unnest(job_ids) job where job = any (%s::uuid[])"
    world.until("they are placed", lambda: len(world.rows(sql, jobs)) == len(jobs))
    return {row["job"]: row["fence"] for row in world.rows(sql, jobs)}


def _ended_in_their_places(world: World, placed: Collection[str]) -> None:
    sql = "select count(*) from jobyard.attempts where job_id = any (%s::uuid[]) and outcome = 'succeeded'"
    world.until("they have ended", lambda: world.number(sql, list(placed)) == len(placed))
