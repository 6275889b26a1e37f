"""C1 to C9, C20: the leader killed, and paused for 2 × lost_after, at each point on purpose. No agent is touched but one, so nothing else is ever lost."""

import signal
import time
from dataclasses import replace
from typing import Final, Literal
from urllib.parse import urlsplit

import pytest
from faults.at_point import AtPoint
from faults.leader_faults import (
    C1,
    C1_INSERTED,
    C1_WRITTEN,
    C2,
    C3,
    C4,
    C5,
    C7,
    C8,
    C9,
    LOST_AFTER_S,
    each_is_recorded_once,
    lying,
    nothing_is_recorded,
    recorded,
    unread,
)
from faults.leader_points import Told
from faults.leaderships import Fault, Leaderships, epoch
from faults.network import through
from faults.proxy import Proxies
from promises import mixed_jobs
from promises.guarantees import InterruptedOnlyOf, LostOnlyOf
from worlds.world import MakeWorld, World

from jobyard.process.points import Point

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

C20_LOST_AFTER_S: Final = 2.5
C20_S: Final = 10 * C20_LOST_AFTER_S


def begin(world: World, first: Fault, what: Literal["kill", "pause"]) -> None:
    world.coordinator("first", at=replace(first.at, what=what))
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")


def test_C1_to_C9_killed_at_each_point(make_world: MakeWorld) -> None:
    """C6 needs a broken Kafka: see test_services_die.py. After C4 and C7 come leaders that break at nothing else meanwhile."""
    world = make_world(lost_after_s=LOST_AFTER_S)
    faults = [C1, C1_INSERTED, C1_WRITTEN, C3, C4, C7, C8, C2, *C9]
    begin(world, faults[0], "kill")
    leaders = Leaderships(world, "kill", 0.0)
    world.submit_mixed(40, by_cli=0)
    leaders.run("first", faults)
    leaders.check(lost=["carl"])


def test_C1_to_C9_paused_at_each_point(make_world: MakeWorld) -> None:
    """Each goes on when 2 × lost_after are over and another one leads. C8 once more: after C5, too, comes a leader that breaks at nothing else meanwhile."""
    world = make_world(lost_after_s=LOST_AFTER_S)
    faults = [C1, C1_INSERTED, C1_WRITTEN, C3, C4, C7, C8, C5, C8, C2, *C9]
    begin(world, faults[0], "pause")
    leaders = Leaderships(world, "pause", 2 * LOST_AFTER_S)
    world.submit_mixed(40, by_cli=0)
    leaders.run("first", faults)
    leaders.check(lost=["carl"])


def test_C2_the_answer_to_a_commit_never_comes(make_world: MakeWorld) -> None:
    """The leader lives, and can't know whether it has committed: it did, and it did not. It takes over anew, under another epoch, and loads what is true."""
    world = make_world(lost_after_s=30.0)

    def is_committed(told: Told) -> None:
        world.until("it is committed", lambda: recorded(world, told["ends"]) == len(told["ends"]))

    def until_above(passed: int) -> None:
        world.until("it leads again", lambda: epoch(world) > passed)

    with Proxies() as proxies:
        whole = proxies.to(urlsplit(world.addresses.database_url).port or 5432, "answers are lost")
        half = proxies.to(urlsplit(world.addresses.database_url).port or 5432, "a COMMIT is lost")
        at = AtPoint(Point.QUESTIONS_ASKED, "pause", "reads ends")
        for name, proxy in (("committed", whole), ("not committed", half)):
            world.around[name] = {"JOBYARD_DATABASE_URL": through(world.addresses.database_url, proxy)}
            world.coordinator(name, at=at)
            if proxy is whole:
                world.agent("anna")
            world.until_led()
            world.until_active("anna")
            world.expect(mixed_jobs.tiny.request(2)).submit()
            world.until_broken(name, at)
            told = world.told(name)
            nothing_is_recorded(world, told)
            before = epoch(world)
            if proxy is whole:
                proxy.stall("down")
            else:
                proxy.cut_after(40)  # in the midst of what the tick writes
            world.send(name, signal.SIGCONT)
            if proxy is whole:
                is_committed(told)
                assert epoch(world) == before
                assert not any(unread(world, told))
            proxy.reset()
            proxy.mend()
            until_above(before)
            assert "failed, takes over again" in world.log_of(name)
            each_is_recorded_once(world, told, world.check(LostOnlyOf(), InterruptedOnlyOf()))
            assert world.terminate(name) == 0


def test_C20_no_leader_for_10_times_lost_after(make_world: MakeWorld) -> None:
    """Agents start what they hold, and their reports pile up; the next leader gives nobody up, though the first report that it reads is old."""
    world = make_world(lost_after_s=C20_LOST_AFTER_S)
    last = world.expect(mixed_jobs.thread.request(20))
    at = AtPoint(Point.MESSAGE_PRODUCED, "kill", "bundle of", jobs=(str(last.id),), stands=True)
    world.coordinator("first", at=at)
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")
    world.submit_mixed(40, by_cli=0)
    long = [world.expect(mixed_jobs.patient.request(n, C20_S / 2, 0.0)) for n in range(2)]
    for request in long:
        request.submit()
    jobs = [str(request.id) for request in (*long, last)]
    world.until("they run", lambda: set(jobs[:2]) <= {one.job for one in world.executions()})
    last.submit()
    killed = world.until_broken("first", at, lambda: lying(world, world.told("first")["bundle"]))
    started = {(one.job, one.fence) for one in world.executions()}
    for request in world.mixed(10):
        request.submit()
    world.until("nobody has led for long", lambda: time.monotonic() > killed + C20_S)
    held = {(str(row["job"]), row["fence"]) for row in world.rows("select unnest(job_ids) as job, fence from jobyard.bundles")}
    assert {(one.job, one.fence) for one in world.executions()} - started <= held
    assert {one.job for one in world.executions() if one.ended is not None} >= set(jobs)
    assert world.number("select count(*) from jobyard.attempts where job_id = any (%s::uuid[])", jobs) == 0
    assert len(world.lying_in(world.topics.reports.name)) > C20_S  # of two agents, a heartbeat a second each
    world.coordinator("second")
    evidence = world.check(LostOnlyOf(), InterruptedOnlyOf())
    for job in jobs:
        assert [row["outcome"] for row in evidence.attempts[job]] == ["succeeded"]
    assert world.number("select count(*) from jobyard.agents") == 2
