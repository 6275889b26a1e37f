"""Bad and forged reports against a real coordinator: it goes on under its epoch, good jobs end, and a take-over finds what it must."""

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from inputs import hostile
from inputs.hostile import Json
from promises import guarantees, mixed_jobs
from promises.guarantees import LostOnlyOf
from worlds.world import MakeWorld, World

from jobyard.contracts.ids import derived_job_id, new_job_id
from jobyard.contracts.moments import LATEST

pytestmark = pytest.mark.timeout(300)

GOOD_JOBS = 20


class Enemy:
    """Somebody with the right to write to the reports topic."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topic = world.topics.reports.name
        self.incarnation = str(uuid4())
        self.seq = 0
        self.offsets: list[int] = []
        self._producer = Producer(
            {"bootstrap.servers": world.addresses.kafka_bootstrap_servers, "message.max.bytes": 10_000_000, "linger.ms": 5}
        )

    def send(self, values: Iterable[bytes | None]) -> list[int]:
        """Their offsets, in order, once the broker has them."""
        self.offsets = []
        for value in values:
            self._producer.produce(self.topic, value, partition=0, on_delivery=self._delivered)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0
        return sorted(self.offsets)

    def _delivered(self, error: object, message: Any) -> None:
        assert error is None
        self.offsets.append(message.offset())

    def batch(self, *reports: Json, incarnation: str | None = None, agent: str = "eve") -> bytes:
        self.seq += 1
        return hostile.text(
            {"v": 1, "agent": agent, "incarnation": incarnation or self.incarnation, "seq": self.seq, "reports": list(reports)}
        )

    def say(self, *reports: Json, incarnation: str | None = None) -> int:
        (offset,) = self.send([self.batch(*reports, incarnation=incarnation)])
        return offset


class Scene:
    """A coordinator, an agent at work, and an enemy. `epoch`: under which the lane must still be led."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.coordinator("first")
        world.agent("anna", slots=50)
        world.until_active("anna")
        self.enemy = Enemy(world)
        self.epoch = self.led()
        self.leader = "first"
        self.count = 0

    def led(self) -> int:
        return self.world.number("select max(epoch) from jobyard.leases")

    def good_jobs_end(self, within_s: float = 60.0) -> float:
        """Jobs submitted now end normally; how long that took."""
        begun = time.monotonic()
        self.world.submit_mixed(GOOD_JOBS, by_cli=0)
        self.world.until_all_ended(within_s)
        return time.monotonic() - begun

    def read_to(self, offset: int) -> None:
        """The coordinator has committed what lies up to this offset."""
        self.world.until(
            f"reports are read to {offset}",
            lambda: (
                self.world.number("select coalesce(max((offsets -> %s ->> 'next')::bigint), 0) from jobyard.leases", self.enemy.topic)
                > offset
            ),
        )

    def quarantined(self, since: int) -> dict[int, str]:
        """Reason by offset, from this one on."""
        rows = self.world.rows(
            'select "offset", reason from jobyard.quarantine where topic = %s and "offset" >= %s order by id', self.enemy.topic, since
        )
        return {row["offset"]: row["reason"] for row in rows}

    def unshaken(self) -> None:
        """Nobody has taken over, no tick has failed, no message was suspected."""
        assert self.led() == self.epoch
        log = self.world.log_of(self.leader)
        for word in ("leadership", "takes lane", "stumbled", "failed for its data", "Traceback"):
            assert word not in log, word

    def check(self) -> None:
        """Every guarantee, and nothing was lost with an agent. What the enemy sent to quarantine is left out."""
        self.world.until_all_ended()
        evidence = self.world.evidence()
        guarantees.check(
            replace(evidence, quarantine=[row for row in evidence.quarantine if row["topic"] != self.enemy.topic]), guarantees.LostOnlyOf()
        )

    def takes_over(self) -> None:
        """Another coordinator takes over from the tables alone, and goes on with what there is."""
        name = f"successor-{self.count}"
        self.count += 1
        self.world.kill(self.leader)
        self.world.coordinator(name)
        self.world.until("another leads", lambda: self.led() > self.epoch)
        self.epoch, self.leader = self.led(), name
        self.good_jobs_end()
        self.unshaken()


@pytest.fixture
def scene(make_world: MakeWorld) -> Scene:
    return Scene(make_world(lost_after_s=30.0))


def a_good_batch() -> Json:
    job = new_job_id()
    now = time.time()
    return {
        "v": 1,
        "agent": "eve",
        "incarnation": str(uuid4()),
        "seq": 1,
        "reports": [
            {"type": "heartbeat", "stamp": 1.0, "epoch": 0, "capacity": 1.0, "slots": 1, "others": [0, 0.0], "held": [[1, job]]},
            {"type": "started", "fence": 1, "job": job, "attempt": 1, "at": now},
            {"type": "progress", "fence": 1, "job": job, "attempt": 1, "done": 1.0, "total": 2.0},
            {"type": "finished", "fence": 1, "ends": [[job, 1, "failed", now, now, None, ["E", "m", "t"], True, 1.0]], "busy_s": 1.0},
            {"type": "released", "fence": 1, "jobs": [[job, 1]], "reason": "no"},
        ],
    }


def spoilt(good: Json, path: tuple[str | int, ...], raw: str) -> bytes:
    """With this at a place in it; if that is in a report, without the others, which would count."""
    if path[0] != "reports":
        return hostile.with_raw(good, path, raw)
    alone = good | {"reports": [good["reports"][path[1]]]}
    return hostile.with_raw(alone, ("reports", 0, *path[2:]), raw)


def undecodable() -> list[bytes | None]:
    good = a_good_batch()
    bad: list[bytes | None] = [None]  # a tombstone
    bad += list(hostile.no_message({name: value for name, value in good.items() if name != "reports"} | {"reports": []}))
    harmless = [(str(2**70), name) for name in ("done", "total", "busy_s")]  # any finite number is one
    for path in hostile.numbers_of(good):
        wild = ("NaN", "Infinity", "1e400", str(2**70), '"1"')
        bad += [spoilt(good, path, raw) for raw in wild if (raw, path[-1]) not in harmless]
    for name in ("started", "finished", "released"):
        place = [report["type"] for report in good["reports"]].index(name)
        bad += [spoilt(good, ("reports", place, "fence"), raw) for raw in ("-1", str(2**62), str(2**63 - 1), "1.5")]
    for at in ("-1.0", "1e300", str(LATEST), '"1970-01-01"'):
        bad += [spoilt(good, ("reports", 1, "at"), at), spoilt(good, ("reports", 3, "ends", 0, 4), at)]
    for delay in ("-1.0", "NaN"):
        bad.append(spoilt(good, ("reports", 3, "ends", 0, 8), delay))
    bad.append(spoilt(good, ("reports", 3, "ends", 0, 2), '"no outcome"'))
    bad.append(spoilt(good, ("reports", 0, "type"), '"no such type"'))
    for name in ("", "x" * 10_000, "a\x00b", "a\nb"):
        bad.append(hostile.text(good | {"agent": name}))
    bad.append(hostile.text(good | {"agent": "AGENT"}).replace(b"AGENT", b"\\ud800"))
    bad += [hostile.text(good | {"incarnation": wrong}) for wrong in ("", "no-uuid", str(uuid4()).upper(), "0" * 32)]
    hello: Json = {"type": "hello", "stamp": 1.0, "kinds": {"nobody": 1}, "capacity": 1.0, "slots": 1, "host": "h"}
    wrongs: list[Json] = [{"capacity": 0}, {"capacity": 1e300}, {"slots": 0}, {"slots": 10**9}, {"kinds": {"a b": 1}}, {"kinds": {"k": 0}}]
    wrongs += [{"kinds": {f"k{n}": 1 for n in range(100_000)}}, {"host": "h" * 2_000}]
    bad += [hostile.text(good | {"reports": [hello | wrong]}) for wrong in wrongs]
    bad.append(hostile.text(good | {"reports": [{"type": "goodbye"}] * 2}))
    held = json.dumps([[1, "a"]] * 400_000)
    bad.append(spoilt(good, ("reports", 0, "held"), held))
    bad.append(hostile.text(good | {"reports": [{"type": "released", "fence": 1, "jobs": []}] * 60_000}))
    return bad


def test_L18_what_cannot_be_decoded_is_quarantined_by_its_offset_and_stops_nothing(scene: Scene) -> None:
    bad = undecodable()
    assert len(bad) < 450  # each gets a row of its own
    offsets = scene.enemy.send(bad)
    took = scene.good_jobs_end()
    scene.read_to(offsets[-1])
    kept = scene.quarantined(offsets[0])
    missing = [bytes(bad[place] or b"")[:200] for place, offset in enumerate(offsets) if offset not in kept]
    assert not missing
    assert all(reason.isprintable() and 1 <= len(reason) <= 1_200 for reason in kept.values())
    assert took < 60
    scene.unshaken()
    scene.takes_over()
    # one cut behind each of its bytes, each with a row again
    cut = list(
        hostile.truncated(hostile.text({"v": 1, "agent": "eve", "incarnation": str(uuid4()), "seq": 1, "reports": [{"type": "goodbye"}]}))
    )
    offsets = scene.enemy.send(cut)
    scene.read_to(offsets[-1])
    assert set(scene.quarantined(offsets[0])) >= set(offsets)
    scene.unshaken()
    scene.check()


def test_a_flood_fills_no_disk_and_slows_no_tick(scene: Scene) -> None:
    alone = scene.good_jobs_end()
    before = scene.world.number("select count(*) from jobyard.quarantine")
    big = b'{"v": 1, "x": "' + b"x" * 4_000_000 + b'"'
    offsets = scene.enemy.send([big] * 20 + [b"garbage \x00\n" + str(n).encode() for n in range(50_000)])
    took = scene.good_jobs_end()
    scene.read_to(offsets[-1])
    scene.world.until(
        "one row tells of the rest", lambda: scene.world.rows("select 1 from jobyard.quarantine where reason like '%% more of offsets %%'")
    )
    rows = scene.world.number("select count(*) from jobyard.quarantine") - before
    size = scene.world.number("select sum(octet_length(body)) from jobyard.quarantine")
    assert rows <= 510
    assert size <= 34_000_000
    assert scene.world.log_of(scene.leader).count("quarantined") <= 510
    assert took < alone + 30  # of a machine under load; each tick takes thousands of such messages
    scene.unshaken()
    scene.takes_over()
    scene.check()


def test_L14_what_is_forged_changes_nothing(scene: Scene) -> None:
    world, enemy = scene.world, scene.enemy
    held = [world.expect(mixed_jobs.patient.request(n, 8.0, 0.0)) for n in range(3)]
    for request in held:
        request.submit()
    jobs = [str(request.id) for request in held]
    world.until("they run", lambda: world.number("select count(*) from jobyard.running where job_id = any (%s::uuid[])", jobs) == 3)
    placed = {row["job_id"]: row for row in world.rows("select job_id::text, fence, attempt from jobyard.running")}
    fence = placed[jobs[0]]["fence"]
    other = next((row["fence"] for row in placed.values() if row["fence"] != fence), fence)
    (anna,) = world.rows("select incarnation::text from jobyard.agents where name = 'anna'")
    hello = {"type": "hello", "stamp": 1.0, "kinds": {"nobody": 1}, "capacity": 1.0, "slots": 1, "host": "h\x00st"}
    ended = time.time()

    def end(job: str, attempt: int = 1, outcome: str = "succeeded") -> list[object]:
        return [job, attempt, outcome, ended, ended, "forged"]

    first = enemy.say({"type": "heartbeat", "stamp": 1.0, "capacity": 1.0, "slots": 1})  # of an agent that nobody has welcomed
    enemy.say(hello)
    world.until_active("eve")
    forged: list[tuple[str, Json, str | None]] = [
        ("a job that it does not hold", {"type": "finished", "fence": fence, "ends": [end(jobs[0])]}, None),
        ("released, of another", {"type": "released", "fence": fence, "jobs": [[jobs[0], 1]]}, None),
        ("started, of another", {"type": "started", "fence": fence, "job": jobs[0], "attempt": 1, "at": ended}, None),
        ("an incarnation that never was", {"type": "finished", "fence": fence, "ends": [end(jobs[0])]}, str(uuid4())),
        ("a wrong attempt", {"type": "finished", "fence": fence, "ends": [end(jobs[0], 2)]}, anna["incarnation"]),
        (
            "an outcome that only a leader decides",
            {"type": "finished", "fence": fence, "ends": [end(jobs[0], 1, "lost")]},
            anna["incarnation"],
        ),
        ("a job that is not in the bundle", {"type": "finished", "fence": fence, "ends": [end(new_job_id())]}, anna["incarnation"]),
        ("fence 0", {"type": "finished", "fence": 0, "ends": [end(jobs[0])]}, None),
        ("a fence that never was", {"type": "finished", "fence": 2**62 - 1, "ends": [end(jobs[0])]}, None),
        ("released under a fence that never was", {"type": "released", "fence": other + 10**6, "jobs": [[jobs[0], 1]]}, None),
        ("no id of a job", {"type": "finished", "fence": 7, "ends": [end("no id")]}, None),
        ("a UUID of another version", {"type": "finished", "fence": 7, "ends": [end(str(uuid4()))]}, None),
    ]
    offsets = {enemy.say(report, incarnation=incarnation): what for what, report, incarnation in forged}
    harmless: list[Json] = [
        {"type": "progress", "fence": fence, "job": jobs[0], "attempt": 1, "done": 1e308},
        {"type": "progress", "fence": 5, "job": "no id", "attempt": 1, "done": -1},
        {"type": "started", "fence": 2**62 - 1, "job": jobs[0], "attempt": 1, "at": 0},
        {
            "type": "heartbeat",
            "stamp": 1e12,
            "epoch": 2**62 - 1,
            "capacity": 1e-300,
            "slots": 1,
            "suspended": True,
            "others": [10**7, 1e20],
        },
        {"type": "heartbeat", "stamp": 0, "capacity": 1, "slots": 1, "held": [[n, jobs[0]] for n in range(70_000)]},
        {"type": "heartbeat", "stamp": 0, "capacity": 1, "slots": 1, "from the future": {"a": [1]}},
        {"type": "goodbye", "unknown": None},
        {"type": "goodbye"},  # of one that is over
        hello,  # the same incarnation once more: over is over
    ]
    last = enemy.send([enemy.batch(report) for report in harmless])[-1]
    # ids over all of time, each of which the tables are asked for
    wild = [derived_job_id((n * 7_919_000_001) % int(LATEST), f"{n}") for n in range(9_000)]
    last = max(last, enemy.say({"type": "finished", "fence": 9, "ends": [end(job) for job in wild]}))
    scene.read_to(last)
    kept = scene.quarantined(first)
    assert {what for offset, what in offsets.items() if offset not in kept} == set()
    assert {placed[job]["fence"] for job in jobs} == {
        row["fence"] for row in world.rows("select fence from jobyard.running where job_id = any (%s::uuid[])", jobs)
    }
    scene.good_jobs_end()
    scene.unshaken()
    assert world.number("select count(*) from jobyard.attempts where job_id = any (%s::uuid[])", jobs) == 3
    scene.takes_over()
    scene.check()


def test_L11_a_hello_under_a_living_agents_name_takes_the_name(make_world: MakeWorld) -> None:
    """That is what the name is for: two processes of one name would fight for ever. The one that lived says so as it goes."""
    world = make_world(lost_after_s=3.0)
    world.coordinator("first")
    world.agent("anna")
    world.until_active("anna")
    enemy = Enemy(world)
    enemy.send([enemy.batch({"type": "hello", "stamp": 1.0, "kinds": {"nobody": 1}, "capacity": 1.0, "slots": 1}, agent="anna")])
    assert world.status_of("anna") == 1
    assert "another process has taken the name 'anna'" in world.log_of("anna")
    world.agent("bert")
    world.until_active("bert")
    world.submit_mixed(10, by_cli=0)
    world.check(LostOnlyOf(["anna"]))
