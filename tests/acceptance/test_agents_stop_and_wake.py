"""Agents that are stopped, woken, replaced and told to end at bad moments: C14, C18, C19, C22."""

import signal
import time
from pathlib import Path

import pytest
from faults.aim import Aims, Fate
from faults.at_point import AtPoint
from promises.guarantees import EITHER, FAILED, Expected, InterruptedOnlyOf, LostOnlyOf
from worlds.world import MakeWorld, World

from jobyard.contracts import codec
from jobyard.kafka.admin import Admin
from jobyard.kafka.consumer import Message, open_consumer
from jobyard.kafka.producer import open_producer
from jobyard.process.points import Point

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

LOST_AFTER_S = 5.0
LONG_S = 3600.0


def test_C14_a_report_that_was_acknowledged_counts_though_its_agent_is_gone_before_a_leader_reads_it(
    make_world: MakeWorld, tmp_path: Path
) -> None:
    """No leader lives meanwhile. Another agent is told to end while it is suspended: what it says before it goes counts, too."""
    world = make_world(lost_after_s=LOST_AFTER_S)
    world.coordinator("first")
    reporting = ("c14_killed", "c14_paused")
    aims = Aims(world, (*reporting, "suspended"))
    go = tmp_path / "go"
    for name in reporting:
        aims.job(name, "once", attempts=1, waits=str(go))
        aims.job(name, "plain", waits=str(go))
        aims.job(name, "fails", Expected(FAILED), attempts=1, waits=str(go), fails=True)
        aims[name].at = AtPoint(Point.TURN_HEARD, "pause" if name == "c14_paused" else "kill", "reported", jobs=aims[name].ids())
    aims.job("suspended", "long", first_s=LONG_S)
    aims.job("suspended", "once", Expected(FAILED), attempts=1, first_s=LONG_S)
    for name in aims.all:
        aims.start(name)
    world.agent("bert")
    world.until_active(*aims.all, "bert")
    world.submit_mixed(100, by_cli=0)
    aims.submit([job for aim in aims.all.values() for job in aim.jobs.values()])
    aims.until_running(*aims.all)

    world.kill("first")
    go.touch()
    world.send("suspended", signal.SIGSTOP)
    paused = time.monotonic()
    aims.until_broken(*reporting)
    world.until("its lease is over", lambda: time.monotonic() > paused + LOST_AFTER_S)
    world.send("suspended", signal.SIGTERM)
    world.send("suspended", signal.SIGCONT)
    assert world.status_of("suspended") == 0
    world.agent("cleo", aims=list(aims.all))
    world.coordinator("second")
    lost = "select count(distinct name) from jobyard.agents where name = any(%s) and state = 'lost'"
    world.until("both are lost", lambda: world.number(lost, list(reporting)) == 2)
    world.until("twice lost_after is over", lambda: time.monotonic() > aims["c14_paused"].broken + 2 * LOST_AFTER_S)
    world.send("c14_paused", signal.SIGCONT)
    world.until_active("c14_paused")
    evidence = world.check(LostOnlyOf(reporting), InterruptedOnlyOf(("suspended",)))
    for name in reporting:
        for part in ("once", "plain"):
            fate = Fate.of(evidence, aims[name].id(part))
            assert (fate.outcomes, fate.ran, fate.late) == (["succeeded"], [1], [])
        fate = Fate.of(evidence, aims[name].id("fails"))
        assert (fate.outcomes, fate.ran, fate.error) == (["failed"], [1], "ConnectionResetError")
    assert Fate.of(evidence, aims["suspended"].id("long")).outcomes == ["interrupted", "succeeded"]
    assert Fate.of(evidence, aims["suspended"].id("once")).outcomes == ["interrupted"]
    assert world.rows("select state from jobyard.agents where name = 'suspended'") == [{"state": "gone"}]
    aims.close()


def test_C19_C22_a_paused_agent_whose_name_or_buckets_another_has_taken(make_world: MakeWorld) -> None:
    """C19: the older is paused when the newer comes, and wakes soon, or when its lease is long over. C22: the paused one's bundles are not read."""
    world = make_world(lost_after_s=LOST_AFTER_S)
    world.coordinator("coordinator")
    replaced = ("c19_soon", "c19_late")
    aims = Aims(world, ("c22", *replaced))
    for name in aims.all:
        for i in (1, 2, 3):
            aims.job(name, f"careful {i}", Expected(EITHER) if name == "c19_soon" else None, attempts=1)
            aims.job(name, f"plain {i}")
        aims[name].at = AtPoint(Point.TURN_HEARD, "pause", "read", jobs=aims[name].ids())
        aims[name].slots = 50
    for name in replaced:
        aims.job(name, "running once", Expected(FAILED), attempts=1, first_s=LONG_S)
        aims.job(name, "running plain", first_s=LONG_S)
    aims.start("c22")
    world.until_active("c22")  # the first: so its buckets are the first to be given again
    for name in replaced:
        aims.start(name)
    hello = AtPoint(Point.REPORTS_DECIDED, "pause")  # so that the newer, when it is let go, comes at once
    for name in replaced:
        world.agent(name, process=f"{name} anew", aims=[name], at=hello)
        world.until_broken(f"{name} anew", hello)
    world.agent("bert")
    world.until_active("bert", *aims.all)
    parts = _buckets_of(world, "c22")
    aims.submit([job for name in replaced for part, job in aims[name].jobs.items() if part.startswith("running")])
    once = [aims[name].id("running once") for name in replaced]
    world.until("the leader knows that they run", lambda: all(world.state(job) == "running" for job in once))
    world.submit_mixed(100, by_cli=0)
    aims.submit([job for aim in aims.all.values() for part, job in aim.jobs.items() if not part.startswith("running")])
    aims.until_broken(*aims.all)
    paused = max(aim.broken for aim in aims.all.values())
    for name in replaced:
        world.send(f"{name} anew", signal.SIGCONT)
    world.until(
        "the older are replaced",
        lambda: world.number("select count(*) from jobyard.agents where name = any(%s) and state = 'replaced'", list(replaced)) == 2,
        may_end=replaced,
    )
    world.send("c19_soon", signal.SIGCONT)
    assert world.status_of("c19_soon") == 1
    world.until("c22 is lost", lambda: world.rows("select 1 from jobyard.agents where name = 'c22' and state = 'lost'"))
    unread = "select fence from jobyard.attempt_history where agent = 'c22' and kind = 'aimed.c22' and outcome in ('lost', 'released')"
    old = {row["fence"] for row in world.rows(unread)}
    assert old  # what it had not read, or not started

    world.agent("heir", aims=["c22"])
    world.until("it has buckets", lambda: _buckets_of(world, "heir"))
    assert _buckets_of(world, "heir") == parts
    assert _sent_again(world, parts, "c22")
    world.until("twice lost_after is over", lambda: time.monotonic() > paused + 2 * LOST_AFTER_S)
    for name in ("c22", "c19_late"):
        world.send(name, signal.SIGCONT)
    assert world.status_of("c19_late") == 1
    world.until("c22 has buckets again", lambda: _buckets_of(world, "c22"))
    assert not _buckets_of(world, "c22") & parts
    world.submit_mixed(50, by_cli=0)
    evidence = world.check(LostOnlyOf(aims.all), InterruptedOnlyOf())

    for name in ("c22", "c19_late"):
        for fate in [Fate.of(evidence, job) for job in aims[name].ids("careful")]:
            assert (fate.outcomes, fate.ran) == (["released", "succeeded"], [2])
        for fate in [Fate.of(evidence, job) for job in aims[name].ids("plain")]:
            assert (fate.outcomes, fate.ran) == (["lost", "succeeded"], [2])
    # this one woke within its lease: it may have reported a start, or have started, before it read that it is replaced
    for fate in [Fate.of(evidence, job) for job in aims["c19_soon"].ids("careful")]:
        assert len(fate.ran) <= 1
        assert fate.outcomes in (["released", "succeeded"], ["succeeded"], ["lost"])
    for fate in [Fate.of(evidence, job) for job in aims["c19_soon"].ids("plain")]:
        assert fate.outcomes[0] == "lost"
    for name in replaced:
        assert "name" in world.log_of(name).splitlines()[-1]
        lives = world.rows("select state from jobyard.agents where name = %s order by agent_id", name)
        assert [row["state"] for row in lives] == ["replaced", "active"]  # they do not fight
        fate = Fate.of(evidence, aims[name].id("running once"))
        assert (fate.outcomes, fate.ran) == (["lost"], [1])
        fate = Fate.of(evidence, aims[name].id("running plain"))
        assert (fate.outcomes, fate.ran) == (["lost", "succeeded"], [1, 2])
    started = {one.fence for executions in evidence.executions.values() for one in executions}
    assert not started & old
    aims.close()


def _buckets_of(world: World, name: str) -> set[int]:
    """The partitions of an agent's current life."""
    rows = world.rows(
        "select part from jobyard.buckets b join jobyard.agents g using (agent_id) where g.name = %s and g.ended_at is null", name
    )
    return {row["part"] for row in rows}


def _sent_again(world: World, parts: set[int], name: str) -> int:
    """Send everything for an agent that lies in these buckets once more, as a delayed producer would: whoever reads them now gets it. How many."""
    topic = world.topics.buckets.name
    admin = Admin(world.addresses.kafka_bootstrap_servers, {})
    ends = admin.end_offsets(topic, parts)
    admin.close()
    consumer = open_consumer(world.addresses.kafka_bootstrap_servers, {}, namespace="test")
    consumer.assign([(topic, part, 0) for part, end in ends.items() if end])
    producer = open_producer(world.addresses.kafka_bootstrap_servers, {})
    left = sum(ends.values())
    sent = 0
    while left:
        for message in consumer.consume(100, 1.0):
            assert isinstance(message, Message)
            if message.offset < ends[message.partition]:
                left -= 1
                if codec.decode_bundle(message.value).agent == name:
                    producer.produce(topic, message.value, partition=message.partition)
                    sent += 1
    assert producer.close(30.0) == 0
    consumer.close()
    return sent


def test_trains_of_stops_and_the_ways_to_end_lose_nothing(make_world: MakeWorld) -> None:
    """Stops shorter and longer than lost_after; SIGTERM before welcome, twice, and to handlers that do not heed it."""
    world = make_world(lost_after_s=LOST_AFTER_S)
    world.agent("early")  # nobody leads: no welcome
    world.until("it has said hello", lambda: _reports(world) > 0)
    assert world.terminate("early") == 0

    world.coordinator("coordinator")
    ending = ("twice", "stubborn")
    trains = ("short", "long")
    aims = Aims(world, ending)
    for name in ending:
        aims.job(name, "heeds", first_s=LONG_S)
        aims.job(name, "ignores", first_s=LONG_S, stubborn=True)
        aims.job(name, "ignores once", Expected(EITHER), attempts=1, first_s=LONG_S, stubborn=True)
        aims.start(name)
    for name in trains:
        world.agent(name)
    world.until_active(*ending, *trains)
    world.submit_mixed(150, by_cli=0)
    aims.submit([job for name in ending for job in aims[name].jobs.values()])
    aims.until_running(*ending)

    for name in ending:
        world.send(name, signal.SIGTERM)
    told = time.monotonic()
    world.until("it is leaving", lambda: "leaving" in world.log_of("twice"))
    world.send("twice", signal.SIGTERM)
    assert world.status_of("twice") == 5
    world.until("the other has ended", lambda: not Path(f"/proc/{aims['stubborn'].pid}").exists(), may_end=("stubborn",))
    assert time.monotonic() - told >= 2.0  # the grace that its handlers have
    assert world.status_of("stubborn") == 5
    world.agent("cleo", aims=ending)

    for _ in range(6):
        _stop(world, "short", 0.6)
        time.sleep(0.3)  # of running, between two stops
    world.submit_mixed(50, by_cli=0)
    for _ in range(2):
        _stop(world, "long", 1.2 * LOST_AFTER_S)
        world.until_active("long")
    world.submit_mixed(50, by_cli=0)
    evidence = world.check(LostOnlyOf((*ending, "long")), InterruptedOnlyOf(ending))
    lives = world.rows("select state from jobyard.agents where name = 'long' order by agent_id")
    assert [row["state"] for row in lives] == ["lost", "lost", "active"]
    assert len(world.rows("select 1 from jobyard.agents where name = 'short'")) == 1
    for name in ending:
        heeds, ignores, once = (Fate.of(evidence, aims[name].id(part)) for part in ("heeds", "ignores", "ignores once"))
        assert (heeds.outcomes, heeds.used) == (["interrupted", "succeeded"], 0)
        assert (ignores.outcomes, ignores.used) == (["lost", "succeeded"], 1)
        assert (once.state, once.outcomes, once.ran) == ("failed", ["lost"], [1])
    aims.close()


def _stop(world: World, name: str, seconds: float) -> None:
    world.send(name, signal.SIGSTOP)
    since = time.monotonic()
    world.until("the stop is over", lambda: time.monotonic() > since + seconds)
    world.send(name, signal.SIGCONT)


def _reports(world: World) -> int:
    """How many messages agents have sent."""
    admin = Admin(world.addresses.kafka_bootstrap_servers, {})
    end = admin.end_offsets(world.topics.reports.name, [0])[0]
    admin.close()
    return end
