"""Fair share with real processes: a tenant's flood, by SQL and by Kafka, doesn't keep another's few jobs waiting, before a take-over and after it."""

import json

import pytest
from confluent_kafka import Producer
from worlds.world import MakeWorld, World

from jobyard.contracts.ids import new_job_id

pytestmark = pytest.mark.timeout(300)

FLOOD, FEW = 4_000, 10


def _by_sql(world: World, submitter: str, count: int) -> None:
    jobs = json.dumps([{"kind": "blocking", "args": {"n": 1, "seconds": 0.02}, "submitter": submitter}] * count)
    world.rows("select count(*) as n from jobyard.submit_many(%s::jsonb)", jobs)


def _by_kafka(world: World, submitter: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": world.addresses.kafka_bootstrap_servers})
    for _ in range(count // 100 or 1):
        jobs = [
            {"id": new_job_id(), "kind": "blocking", "args": {"n": 1, "seconds": 0.02}, "submitter": submitter}
            for _ in range(min(count, 100))
        ]
        producer.produce(world.topics.intake.name, json.dumps({"v": 1, "jobs": jobs}))
    assert producer.flush(30) == 0


def _rank(world: World, submitter: str) -> int:
    """How many jobs had ended when the last of this submitter had."""
    return world.number(
        "select count(*) from jobyard.job_status where finished_at <= (select max(finished_at) from jobyard.job_status where submitter = %s)",
        submitter,
    )


def _done(world: World, submitter: str) -> bool:
    return world.number("select count(*) from jobyard.job_status where submitter = %s and state = 'succeeded'", submitter) == FEW


def test_a_flood_of_one_submitter_does_not_delay_the_few_of_another(make_world: MakeWorld) -> None:
    world = make_world()
    world.coordinator("one")
    world.until_led()
    world.cli("lane", "set", "default", "--fair-share")
    (lane,) = [one for one in world.cli("lane", "list") if one["lane"] == "default"]
    assert lane["fair_share"] is True
    world.agent("anna", slots=4)
    world.until_active("anna")

    _by_sql(world, "flood", FLOOD)
    _by_kafka(world, "flood", FLOOD)
    world.until("the flood runs", lambda: world.ended() > 50)
    before = world.ended()
    _by_sql(world, "few", FEW)
    world.until("the few have ended", lambda: _done(world, "few"))
    assert _rank(world, "few") - before < FLOOD / 2

    world.kill("one")
    world.end_lease()
    world.coordinator("two")
    world.until_led()
    before = world.ended()
    _by_kafka(world, "others", FEW)
    world.until("the others have ended", lambda: _done(world, "others"))
    assert _rank(world, "others") - before < FLOOD / 2
    assert world.number("select count(*) from jobyard.job_status where state in ('pending', 'placed', 'running')") > 0
