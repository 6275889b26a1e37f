"""Several coordinators share the lanes out: fairly, back again after one has died, in order when one comes; and no lane feels another's trouble."""

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from worlds.world import MakeWorld, World

from jobyard.kafka.admin import ensure_topics
from jobyard.master_db import operations
from jobyard.master_db.connection import connect

pytestmark = pytest.mark.timeout(300)

LANES = ("default", "lane-a", "lane-b", "lane-c", "lane-d", "lane-e")
MARGIN_S = 10.0
"""For a machine under load."""


def _add_lanes(world: World, *names: str) -> None:
    with connect(world.addresses.database_url, application_name="jobyard tests", autocommit=True) as connection:
        for name in names:
            ensure_topics(world.addresses.kafka_bootstrap_servers, {}, world.namespace, name)
            operations.add_lane(connection, name)


def _led(world: World) -> dict[str, str]:
    """Who leads each lane that is led, by its UUID."""
    rows = world.rows("select lane, leader from jobyard.lanes join jobyard.leases using (lane_id) where lease_until > now()")
    return {row["lane"]: row["leader"] for row in rows}


def _shares(world: World) -> list[int]:
    return sorted(Counter(_led(world).values()).values())


class Pauses:
    """Asks all the time who leads what, and keeps how long each lane was without a leader, or stood under one that has not ticked yet (the first lease)."""

    def __init__(self, world: World) -> None:
        self._url = world.addresses.database_url
        self._stop = threading.Event()
        self.longest: dict[str, float] = {}
        self.takes: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Pauses":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _watch(self) -> None:
        since: dict[str, float] = {}
        epochs: dict[str, int] = {}
        with connect(self._url, application_name="jobyard tests", autocommit=True) as connection:
            last = False
            while not last:
                last = self._stop.wait(0.01)  # once more when it is over: what the test has seen by then is counted
                now = time.monotonic()
                rows = connection.execute(
                    "select lane, epoch, lease_until > clock_timestamp() and lease_until < clock_timestamp() + interval '6 s'"
                    " from jobyard.lanes join jobyard.leases using (lane_id)"
                ).fetchall()
                for lane, epoch, leads in rows:
                    if epochs.setdefault(lane, epoch) != epoch:
                        epochs[lane] = epoch
                        self.takes[lane] += 1
                    if leads:
                        self.longest[lane] = max(self.longest.get(lane, 0.0), now - since.pop(lane, now))
                    else:
                        since.setdefault(lane, now)


def test_lanes_are_shared_led_again_and_handed_over(make_world: MakeWorld) -> None:
    world = make_world(lost_after_s=5.0)
    _add_lanes(world, *LANES[1:])
    world.coordinator("one")
    world.until("one leads all", lambda: _shares(world) == [len(LANES)])
    with Pauses(world) as pauses:
        world.coordinator("two")
        world.until("they share", lambda: _shares(world) == [3, 3])
        world.coordinator("three")
        world.until("all three share", lambda: _shares(world) == [2, 2, 2])
    assert sum(pauses.takes.values()) == 3 + 2  # three to the second, one of each to the third: nothing moved to and fro
    _say("handed over", pauses.longest.values())
    assert sorted(pauses.longest.values())[-1] < 1.0 + MARGIN_S / 5

    before = _led(world)
    killed = world.kill("three")
    world.until("its lanes are led again", lambda: len(_led(world)) == len(LANES) and _shares(world) == [3, 3], 5.0 + MARGIN_S)
    _say("led again after a kill", [time.monotonic() - killed])
    kept = [lane for lane, leader in _led(world).items() if leader == before[lane]]
    assert len(kept) == 4  # those of the others stayed

    with Pauses(world) as pauses:
        world.coordinator("three")
        world.until("it has its share again", lambda: _shares(world) == [2, 2, 2])
        at_rest = time.monotonic() + 3.0  # longer than a move takes to be decided: nothing moves any more
        world.until("nothing moves", lambda: time.monotonic() > at_rest)
    assert sum(pauses.takes.values()) == 2
    _say("handed over to one that came back", pauses.longest.values())
    assert max(pauses.longest.values()) < 1.0 + MARGIN_S / 5

    with Pauses(world) as pauses:
        assert world.terminate("one") == 0
        world.until("its lanes are led", lambda: len(_led(world)) == len(LANES) and _shares(world) == [3, 3])
    _say("led again after an orderly end", pauses.longest.values())
    world.send("two", signal.SIGSTOP)  # one that is not dead: by the time it wakes, its lanes are another's
    world.until("the last one leads all", lambda: _shares(world) == [len(LANES)], 6.0 + MARGIN_S)
    world.send("two", signal.SIGCONT)
    world.until("they share again", lambda: _shares(world) == [3, 3])


def test_a_lane_that_is_stuck_changes_nothing_for_another(make_world: MakeWorld) -> None:
    world = make_world(lost_after_s=5.0)
    _add_lanes(world, "paused", "poisoned", "alone")
    world.coordinator("one")
    world.agent("anna")
    world.until_active("anna")
    alone = _latencies(world, 60)
    with connect(world.addresses.database_url, application_name="jobyard tests", autocommit=True) as connection:
        operations.pause_lane(connection, "paused")
        for lane in ("paused", "alone"):  # paused, and one that nobody works for: each with a flood
            connection.execute(
                "select count(*) from jobyard.submit_many((select"
                " jsonb_agg(jsonb_build_object('kind', 'tiny', 'args', jsonb_build_object('n', 1), 'lane', %s::text))"
                " from generate_series(1, 5000)))",
                [lane],
            )
    producer = Producer({"bootstrap.servers": world.addresses.kafka_bootstrap_servers})
    for n in range(2000):
        producer.produce(f"{world.namespace}.poisoned.intake", b"\xff{" if n % 2 else b'{"v": 1, "jobs": [{"kind": 5}]}')
        producer.poll(0)
    assert producer.flush(30) == 0
    beside = _latencies(world, 60)
    _say("alone", alone)
    _say("beside stuck lanes", beside)
    assert _at(beside, 0.5) < _at(alone, 0.5) * 3 + 0.5
    world.until("the poisoned lane was read", lambda: world.number("select count(*) from jobyard.quarantine") > 0)
    states = {row["lane"]: row for row in world.rows("select lane, paused, led, pending, placed from jobyard.lane_summary")}
    assert all(row["led"] for row in states.values())
    assert (states["paused"]["pending"], states["paused"]["placed"]) == (5000, 0)
    assert (states["alone"]["pending"], states["alone"]["placed"]) == (5000, 0)


def _latencies(world: World, count: int) -> list[float]:
    """Seconds from a job's submission to its end, one job after another, a few at once."""

    def one(_: int) -> float:
        with connect(world.addresses.database_url, application_name="jobyard tests", autocommit=True) as connection:
            began = time.monotonic()
            row = connection.execute("select jobyard.submit('tiny', jsonb_build_object('n', 1))::text").fetchone()
            assert row is not None
            deadline = time.monotonic() + 60.0
            while connection.execute("select 1 from jobyard.attempts where job_id = %s and final is not null", [row[0]]).fetchone() is None:
                assert time.monotonic() < deadline, f"job {row[0]} has not ended"
                time.sleep(0.005)
            return time.monotonic() - began

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(one, range(count)))


def _at(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def _say(what: str, values: Iterable[float]) -> None:
    numbers = sorted(values)
    sys.stdout.write(f"{what}: median {numbers[len(numbers) // 2]:.3f} s, most {numbers[-1]:.3f} s\n")
