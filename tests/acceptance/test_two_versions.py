"""A deploy under load: coordinators and agents of two versions of the code side by side, replaced one by one, back and forth."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from promises import guarantees
from promises.guarantees import Expected, InterruptedOnlyOf, LostOnlyOf
from worlds.next_version import TESTS, make
from worlds.patience import PATIENCE_S
from worlds.world import MakeWorld, World

from jobyard.contracts.ids import new_job_id

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

JOBS = 40


def _led_by(world: World, name: str) -> None:
    """Wait until it is this one that leads."""
    world.until(
        f"{name} leads",
        lambda: any(f"under epoch {row['epoch']}:" in world.log_of(name) for row in world.rows("select epoch from jobyard.leases")),
    )


def _upgrade(world: World, following: Path) -> None:
    """Bring the schema to the next version, by the next version's code, while the old one works."""
    code = "import jobyard, os, sys; from jobyard import migrations; jobyard.NEXT; migrations.upgrade(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, world.addresses.database_url],
        env={**os.environ, "PYTHONPATH": str(following)},
        cwd=following,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _of_version_2(world: World, count: int) -> set[str]:
    """Submit tiny jobs that only handlers of the next version may run."""
    jobs = {new_job_id(): n for n in range(count)}
    with psycopg.connect(world.addresses.database_url) as connection:
        for job, n in jobs.items():
            world.expected[job] = Expected(result=n)
            connection.execute(b"select jobyard.submit('tiny', %s::jsonb, id => %s::uuid, version => 2)", [json.dumps({"n": n}), job])
    return set(jobs)


def test_two_versions_work_side_by_side_in_every_order(make_world: MakeWorld, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Coordinators first, agents first (after a roll-back of the coordinator), with old and new agents under both."""
    following = make(tmp_path_factory.mktemp("next"))
    world = make_world()
    path = os.pathsep.join([str(following), str(TESTS)])
    for name in ("new-one", "new-two", "cleo", "dora"):
        world.around[name] = {"PYTHONPATH": path}
    told_to_end = ["anna", "bert", "cleo", "dora"]

    world.coordinator("old-one")
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")
    world.submit_mixed(JOBS, by_cli=0)
    _upgrade(world, following)
    world.submit_mixed(JOBS, by_cli=0)

    # the coordinator first: a new one leads old agents
    world.coordinator("new-one")
    assert world.terminate("old-one") == 0
    _led_by(world, "new-one")
    later = _of_version_2(world, 10)
    world.submit_mixed(JOBS, by_cli=0)

    # the agents one by one: old and new ones under a new coordinator; what needs the new handlers waits for a new agent
    world.until(
        "it alone waits",
        lambda: (
            {row["id"] for row in world.rows("select job_id::text as id from jobyard.job_status where state in ('pending', 'placed')")}
            == later
        ),
    )
    assert not later & {one.job for one in world.executions()}
    world.agent("cleo")
    world.until_active("cleo")
    assert world.terminate("anna") == 0
    world.submit_mixed(JOBS, by_cli=0)
    later |= _of_version_2(world, 10)

    # the coordinator is rolled back: an old one, on the newer schema, leads old and new agents
    world.coordinator("old-two")
    assert world.terminate("new-one") == 0
    _led_by(world, "old-two")
    world.submit_mixed(JOBS, by_cli=0)
    later |= _of_version_2(world, 10)
    world.agent("dora")
    world.until_active("dora")
    assert world.terminate("bert") == 0
    world.submit_mixed(JOBS, by_cli=0)
    new_ones = {world.pid(name) for name in ("cleo", "dora")}

    # only new agents under the old one, which goes at last
    world.coordinator("new-two")
    world.kill("old-two")
    _led_by(world, "new-two")
    world.submit_mixed(JOBS, by_cli=0)
    # really two: bundles and control messages of both lie there
    for topic in (world.topics.buckets.name, world.topics.control.name):
        assert {"sent_by" in message.body for message in world.lying_in(topic)} == {True, False}
    world.until_all_ended()
    world.until("what was late is told", lambda: not guarantees.untold(world.evidence()))
    evidence = world.evidence()
    unread = [row for row in evidence.quarantine if row["topic"] == world.topics.reports.name]
    left = [row for row in evidence.quarantine if row not in unread]
    guarantees.check(replace(evidence, quarantine=left), LostOnlyOf(), InterruptedOnlyOf(told_to_end))

    assert {one.pid for job in later for one in evidence.executions[job]} <= new_ones
    assert {row["build"] for row in world.rows("select build from jobyard.agents where name in ('anna', 'cleo')")} == {"old", "next"}
    # by old leaders, and nothing else of the batches
    assert {row["body"] for row in unread} == {'{"type":"mood","how":"good"}'}
    for name in told_to_end:
        assert "was dropped" not in world.log_of(name)
