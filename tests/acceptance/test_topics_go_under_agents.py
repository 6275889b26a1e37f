"""C21 from the agent's side: topics deleted and made again while an agent is paused, and while one dies with a report that nobody has read."""

import signal
import time
from pathlib import Path

import pytest
from faults.aim import Aims, Fate
from faults.at_point import AtPoint
from promises.guarantees import FAILED, Evidence, Expected, InterruptedOnlyOf, LostOnlyOf
from worlds.world import MakeWorld

from jobyard.process.points import Point

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

LOST_AFTER_S = 10.0
LONG_S = 3600.0
FETCH_S = 1.0
"""A broker holds a fetch for 0.2 s (fetch.wait.max.ms) before it answers that there is nothing."""


def test_C21_topics_made_again_while_an_agent_is_paused_and_reports_while_one_dies(make_world: MakeWorld, tmp_path: Path) -> None:
    """The one exception of promise 4: a report that was destroyed unread, of an agent that has ended, is done again. Not what may start once only."""
    world = make_world(lost_after_s=LOST_AFTER_S)
    world.coordinator("coordinator")
    aims = Aims(world, ("paused", "dying", "living"))
    go = tmp_path / "go"
    for i in (1, 2, 3):
        aims.job("paused", f"careful {i}", attempts=1)
        aims.job("paused", f"plain {i}")
    aims["paused"].at = AtPoint(Point.TURN_HEARD, "pause", "read", jobs=aims["paused"].ids())
    aims["paused"].slots = 50
    aims.job("paused", "running", waits=str(go))
    for name in ("dying", "living"):
        aims.job(name, "once", Expected(FAILED) if name == "dying" else None, attempts=1, waits=str(go))
        aims.job(name, "plain", waits=str(go))
    aims["dying"].at = AtPoint(Point.TURN_HEARD, "kill", "reported", jobs=aims["dying"].ids())
    for name in aims.all:
        aims.start(name)
    world.agent("bert")
    world.until_active("bert", *aims.all)
    running = [aims["paused"].jobs["running"], *(job for name in ("dying", "living") for job in aims[name].jobs.values())]
    aims.submit(running)
    ids = {str(job.id) for job in running}
    world.until("they run", lambda: ids <= {one.job for one in world.executions()})
    world.until("the leader knows it", lambda: all(world.state(job) == "running" for job in ids))
    world.submit_mixed(100, by_cli=0)
    world.until_busy("bert")

    # the paused one has bundles that it did not read, and some that it did
    aims.submit([job for part, job in aims["paused"].jobs.items() if part != "running"])
    aims.until_broken("paused")
    world.destroy_topic(world.topics.buckets.name)
    world.destroy_topic(world.topics.control.name)
    world.send("paused", signal.SIGCONT)
    waiting = aims["paused"].ids("careful") + aims["paused"].ids("plain")
    world.until("what was sent to it has ended", lambda: all(world.is_final(job) for job in waiting))

    # reports that the broker has and no leader has read
    world.send("coordinator", signal.SIGSTOP)
    time.sleep(FETCH_S)  # the broker still answers what it was asked before, into the socket of the stopped process
    go.touch()
    aims.until_broken("dying")
    told = {aims["living"].id(part) for part in ("once", "plain")}
    world.until("the living one has ended its jobs, too", lambda: told <= {one.job for one in world.executions() if one.ended is not None})
    world.destroy_topic(world.topics.reports.name)
    world.agent("cleo", aims=["dying"])
    world.send("coordinator", signal.SIGCONT)
    world.submit_mixed(50, by_cli=0)
    evidence = world.check(LostOnlyOf(("paused", "dying")), InterruptedOnlyOf())

    for part in ("once", "plain"):
        assert _went(evidence, aims["living"].id(part)) == (["succeeded"], [1])
    assert _went(evidence, aims["paused"].id("running")) == (["succeeded"], [1])
    assert _went(evidence, aims["dying"].id("once")) == (["lost"], [1])
    assert _went(evidence, aims["dying"].id("plain")) == (["lost", "succeeded"], [1, 2])
    for job in waiting:
        outcomes, ran = _went(evidence, job)
        assert len(ran) == 1
        assert outcomes[-1] == "succeeded"  # at once, or, on a slow machine, after the pause was too long
        assert set(outcomes[:-1]) <= {"released", "lost"}
    aims.close()


def _went(evidence: Evidence, job: str) -> tuple[list[str], list[int]]:
    fate = Fate.of(evidence, job)
    return fate.outcomes, fate.ran
