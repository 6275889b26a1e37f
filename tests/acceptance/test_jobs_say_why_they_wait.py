"""`jobyard job explain` with real processes: a job for each reason; what the tables tell when nobody leads; and what is learned outlives a leader."""

import json
import signal
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from worlds.world import MakeWorld, World

from jobyard.cli import app as cli

Explain: TypeAlias = Callable[[str], dict[str, Any]]
pytestmark = pytest.mark.timeout(300)
_LONG = '{"n": 1, "first_s": 120, "again_s": 0.1}'


@pytest.fixture
def explain(capsys: pytest.CaptureFixture[str]) -> Explain:
    """The facts, as the command prints them; and that it has words for them, too."""

    def explain(job: str) -> dict[str, Any]:
        capsys.readouterr()
        assert cli.run(["job", "explain", job, "--json"]) == 0, capsys.readouterr().err
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert found["job_id"] == job
        return found

    return explain


def _submit(world: World, kind: str, args: str = '{"n": 1}', more: str = "") -> str:
    return str(world.rows(f"select jobyard.submit(%s, %s::jsonb{more})::text as id", kind, args)[0]["id"])


def _until_why(world: World, explain: Explain, job: str, why: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def so() -> bool:
        found.clear()
        found.update(explain(job))
        return bool(found["why"] == why)

    world.until(f"{job} answers {why}", so)
    return found


def test_S17_a_job_for_each_reason(make_world: MakeWorld, explain: Explain, capsys: pytest.CaptureFixture[str]) -> None:
    world = make_world(lost_after_s=20.0)
    first = _submit(world, "tiny")
    found = explain(first)
    assert (found["why"], found["state"], found["knowing"], found["lane_paused"]) == ("no_leader", "pending", 0, False)

    world.around["one"] = {"JOBYARD_RESERVE_AFTER_S": "0"}
    world.coordinator("one")
    world.until_led()
    found = _until_why(world, explain, first, "no_agent")
    assert "highest" not in found
    later = _submit(world, "tiny", more=", run_at => now() + interval '1 hour'")
    assert _until_why(world, explain, later, "future")["run_at"] > found["since"]

    world.agent("anna", slots=2, capacity=4)
    world.until_active("anna")
    world.until("the first has ended", lambda: world.ended() == 1)
    found = explain(first)
    assert (found["why"], found["state"], found["agent"], found["rule"], found["load"]) == ("ended", "succeeded", "anna", "free", 0.0)
    newer = _submit(world, "tiny", more=", version => 7")
    assert _until_why(world, explain, newer, "no_agent")["highest"] == 1

    large = _submit(world, "patient", _LONG, ", size => 3")
    assert _until_why(world, explain, large, "running")["agent"] == "anna"
    big, second = (_submit(world, "patient", _LONG, ", size => 2") for _ in range(2))
    found = _until_why(world, explain, big, "no_room")
    assert (found["agents"][0]["agent"], found["agents"][0]["free_slots"], found["agents"][0]["missing"]) == ("anna", 1, 1.0)
    assert "earlier" not in found  # `newer` waits longer, but for an agent that is not there
    found = _until_why(world, explain, second, "behind")
    assert (found["first"], found["first_waits"], found["ahead"]) == (big, "no_room", 1)
    small = _submit(world, "patient", _LONG, ", size => 1")
    assert _until_why(world, explain, small, "kept_for_another")["agents"][0]["reserved"] is True
    assert _until_why(world, explain, big, "drains_for_it")["agents"][0]["agent"] == "anna"

    world.cli("agent", "drain", "anna")
    assert _until_why(world, explain, big, "none_eligible")["agents"][0]["state"] == "draining"
    world.cli("agent", "resume", "anna")
    world.until_active("anna")

    world.agent("bert", slots=1, aims=["bert"])
    world.until_active("bert")
    assert _until_why(world, explain, small, "running")["agent"] == "bert"
    aimed = _submit(world, "aimed.bert")
    assert _until_why(world, explain, aimed, "no_slot")["knowing"] == 1

    world.cli("kind", "pause", "task")
    task = _submit(world, "task")
    _until_why(world, explain, task, "kind_paused")
    world.cli("lane", "pause", "default")
    _until_why(world, explain, task, "lane_paused")
    world.cli("lane", "resume", "default")
    _until_why(world, explain, task, "kind_paused")

    world.agent("carl", slots=1, aims=["carl"])
    world.until_active("carl")
    world.send("carl", signal.SIGSTOP)
    stays = _submit(world, "aimed.carl")
    found = _until_why(world, explain, stays, "placed")
    assert (found["agent"], found["rule"], found["attempt"]) == ("carl", "packed", 1)  # larger ones wait, which it has no room for
    assert isinstance(found["bucket"], int)
    world.send("carl", signal.SIGCONT)
    _until_why(world, explain, stays, "ended")

    assert cli.run(["job", "explain", big]) == 0
    assert "Agent anna, where 1 of 4 are free by now, takes nothing new until it fits." in capsys.readouterr().out


def test_S16_S17_the_tables_tell_what_they_know_and_what_was_learned_outlives_the_leader(make_world: MakeWorld, explain: Explain) -> None:
    world = make_world(lost_after_s=20.0)
    world.coordinator("one")
    world.agent("anna", slots=1)
    world.until_active("anna")
    ended = [_submit(world, "tiny") for _ in range(3)]
    world.until("they have ended", lambda: world.ended() == len(ended))
    runs = _submit(world, "patient", _LONG)
    _until_why(world, explain, runs, "running")
    waits = _submit(world, "tiny")
    found = _until_why(world, explain, waits, "no_slot")
    assert (found["ends"], found["mean_s"] < 60) == (3, True)
    world.until("what was learned is written", lambda: world.number("select coalesce(sum(ends), 0) from jobyard.durations") == 3)

    world.kill("one")
    world.end_lease()
    found = explain(waits)
    assert (found["why"], found["state"], found["agents"]) == ("no_leader", "pending", [{"agent": "anna", "state": "active"}])
    found = explain(runs)
    assert (found["why"], found["state"], found["agent"], found["rule"], found["attempt"]) == ("no_leader", "running", "anna", "free", 1)
    assert explain(ended[0])["why"] == "ended"

    world.coordinator("two")
    world.until_led()
    found = _until_why(world, explain, waits, "no_slot")
    assert found["ends"] == 3
    (shown,) = world.cli("kind", "show", "tiny")
    assert [(one["lane"], one["size_up_to"], one["ends"]) for one in shown["durations"]] == [("default", 1.0, 3)]
    assert (shown["waiting"], shown["run_by"]) == (1, [{"agent": "anna", "lane": "default", "state": "active"}])
