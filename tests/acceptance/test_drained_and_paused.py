"""Drains and pauses by the command line, with real processes; and coordinator and agent in one process."""

import signal
import subprocess
import sys

import pytest
from worlds.world import MakeWorld, World

pytestmark = pytest.mark.timeout(300)


def _jobyard(world: World, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "jobyard.cli.app", *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def _ended(process: "subprocess.Popen[str]") -> str:
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


def _submit(world: World, kind: str, args: str, count: int = 1) -> None:
    world.rows("select jobyard.submit(%s, %s::jsonb) from generate_series(1, %s)", kind, args, count)


def _on(world: World, agent: str) -> int:
    return int(world.number("select coalesce(sum(running + placed), 0) from jobyard.agent_load where agent = %s", agent))


def test_drained_agents_finish_what_runs_and_give_the_rest_back(make_world: MakeWorld) -> None:
    world = make_world(lost_after_s=5.0)
    world.coordinator("one")
    world.agent("anna", slots=2)
    world.until_active("anna")
    _submit(world, "patient", '{"n": 1, "first_s": 4, "again_s": 0.1}', 6)
    world.until("anna is full", lambda: world.number("select count(*) from jobyard.running") == 2)
    assert "is drained" in _ended(_jobyard(world, "agent", "drain", "anna"))
    world.agent("bert", slots=8)
    ended_on_bert = "select count(*) from jobyard.attempt_history where agent = 'bert' and outcome = 'succeeded'"
    world.until("all others are on bert", lambda: _on(world, "bert") + world.number(ended_on_bert) == 4)
    world.kill("one")  # the next leader knows of it
    world.end_lease()
    world.coordinator("two")
    world.until("all have ended", lambda: world.ended() == 6)
    on_anna = "select count(*) from jobyard.attempt_history where agent = 'anna' and outcome = 'succeeded'"
    assert world.number(on_anna) == 2  # what ran went on
    assert world.number("select count(*) from jobyard.attempts where outcome not in ('succeeded', 'released')") == 0
    _submit(world, "tiny", '{"n": 1}', 5)
    world.until("the new ones have ended", lambda: world.ended() == 11)
    assert world.number("select count(*) from jobyard.attempt_history where kind = 'tiny' and agent = 'anna'") == 0

    _ended(_jobyard(world, "agent", "resume", "anna"))
    world.until_active("anna")
    _ended(_jobyard(world, "agent", "drain", "bert", "--wait"))
    _submit(world, "patient", '{"n": 1, "first_s": 2, "again_s": 0.1}')
    world.until("anna works again", lambda: _on(world, "anna") == 1)
    waiting = _jobyard(world, "agent", "drain", "anna", "--stop", "--wait", "--reason", "a new disk")
    assert world.status_of("anna") == 0
    _ended(waiting)
    assert world.ended() == 12  # only then
    assert world.rows("select name from jobyard.drains") == [{"name": "bert"}]
    world.agent("anna", slots=2)  # a process that is started again works
    world.until_active("anna")
    host = world.rows("select host from jobyard.agent_load limit 1")[0]["host"]
    said = _ended(_jobyard(world, "agent", "drain", "--host", host, "--stop", "--wait"))
    assert "agent anna" in said
    assert "agent bert" in said
    assert (world.status_of("anna"), world.status_of("bert")) == (0, 0)


def test_pauses_act_within_a_moment_outlive_the_leader_and_one_process_does_it_all(make_world: MakeWorld) -> None:
    world = make_world(lost_after_s=5.0)
    world.together("both")
    world.until_active("both")
    assert "coordinator and agent in one process" in world.log_of("both")
    _submit(world, "tiny", '{"n": 1}')
    world.until("it has ended", lambda: world.ended() == 1)
    _ended(_jobyard(world, "kind", "pause", "tiny", "--reason", "a bug"))
    _submit(world, "tiny", '{"n": 1}', 3)
    _submit(world, "thread", '{"n": 1}')
    world.until("another kind goes on", lambda: world.ended() == 2)
    assert world.counts() == {"succeeded": 2, "pending": 3}
    assert '"paused":true' in _ended(_jobyard(world, "kind", "show", "tiny", "--json"))
    _ended(_jobyard(world, "lane", "pause", "default"))
    _ended(_jobyard(world, "kind", "resume", "tiny"))
    assert world.terminate("both") == 0  # in order: the lane is free at once
    assert not world.rows("select 1 from jobyard.leases where lease_until > now()")
    world.together("again")
    world.until_active("again")
    shown = _ended(_jobyard(world, "lane", "show", "default", "--json"))
    assert '"paused":true' in shown
    assert world.counts() == {"succeeded": 2, "pending": 3}
    _ended(_jobyard(world, "lane", "resume", "default"))
    world.until("all have ended", lambda: world.ended() == 5)
    _submit(world, "patient", '{"n": 1, "first_s": 30, "again_s": 0.1}')
    world.until("it runs", lambda: world.number("select count(*) from jobyard.running") == 1)
    world.send("again", signal.SIGTERM)
    assert world.status_of("again") == 0
    outcomes = world.rows(
        "select outcome::text from jobyard.attempts where kind_id = (select kind_id from jobyard.kinds where kind = 'patient')"
    )
    assert outcomes == [{"outcome": "interrupted"}]  # recorded by the leader that was still there
