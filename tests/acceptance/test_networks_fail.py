"""The network between each pair cut, half open for a short and for a long time, and slow, under load. One world for all: each fault is followed by progress."""

import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from faults.network import Network
from faults.proxy import Proxy
from promises import mixed_jobs
from promises.guarantees import InterruptedOnlyOf, LostOnlyOf
from worlds.patience import PATIENCE_S
from worlds.world import CLIENT, World

from jobyard import migrations
from jobyard.api.options import Via
from jobyard.contracts.errors import ServiceUnavailable
from jobyard.contracts.rules import RULES
from jobyard.embedded.services import Services

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

LOST_AFTER_S: Final = 6.0
LEASE_S: Final = 5.0
"""How long an agent may start jobs without having been heard: its margin is 1 s."""
SHORT_S: Final = 1.5
LEADERS: Final = ("one", "two")
AGENTS: Final = ("anna", "bert", "cleo")
JOBS: Final = 40


@dataclass
class Broken:
    """A world whose networks can be broken. `touched`: agents that were cut off for so long that they may have been given up."""

    world: World
    network: Network
    touched: set[str]

    def leader(self) -> str | None:
        """Which coordinator leads; None: none does at the moment."""
        found = self.world.rows("select epoch from jobyard.leases where lease_until > clock_timestamp()")
        words = [f"under epoch {row['epoch']}:" for row in found]
        return next((name for name in LEADERS if any(word in self.world.log_of(name) for word in words)), None)

    def until_led(self, by: str | None = None) -> str:
        """Wait until a coordinator (this one) leads; which."""
        self.world.until(f"{by or 'a coordinator'} leads", lambda: self.leader() in (LEADERS if by is None else (by,)))
        leader = self.leader()
        assert leader is not None
        return leader

    def lost(self) -> int:
        return self.world.number("select count(*) from jobyard.attempts where outcome = 'lost'")

    def heals(self) -> None:
        """After a fault: new jobs end, and every guarantee holds of all that was ever submitted."""
        self.network.mend()
        self.world.submit_mixed(JOBS // 2, by_cli=0)
        self.world.check(LostOnlyOf(self.touched), InterruptedOnlyOf())


@pytest.fixture(scope="module")
def all_broken(services_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Broken]:
    folder = services_folder / "networks"
    with Network((*LEADERS, CLIENT), AGENTS) as network:
        with Services(folder, fast=True, listeners=network.listeners) as services:
            network.reach_postgres(services.database_url)
            migrations.upgrade(services.database_url)
            around = network.around(services.database_url)
            at = tmp_path_factory.mktemp("networks")
            with World(at, services.addresses, "networks", lost_after_s=LOST_AFTER_S, around=around) as world:
                broken = Broken(world, network, set())
                for leader in LEADERS:
                    world.coordinator(leader)
                broken.until_led()
                for agent in AGENTS:
                    world.agent(agent)
                world.until_active(*AGENTS)
                yield broken
                network.mend()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def broken(all_broken: Broken) -> Broken:
    """With the workload under way."""
    all_broken.network.mend()
    all_broken.world.until_active(*AGENTS)
    all_broken.until_led()
    all_broken.world.submit_mixed(JOBS, by_cli=0)
    return all_broken


BREAKS: Final[dict[str, Callable[[Proxy], AbstractContextManager[None]]]] = {
    "dropped": Proxy.dropped,
    "stalled": Proxy.stalled,
    "deaf": lambda proxy: proxy.stalled("down"),
    "mute": lambda proxy: proxy.stalled("up"),
}


@pytest.mark.parametrize("how", ["dropped", "stalled"])
def test_an_agent_cut_off_for_a_short_time_costs_nothing(how: str, broken: Broken) -> None:
    before = broken.lost()
    with BREAKS[how](broken.network.kafka["anna"]):
        broken.world.submit_mixed(JOBS, by_cli=0)
        time.sleep(SHORT_S)
    broken.heals()
    assert broken.lost() == before


@pytest.mark.parametrize("how", ["dropped", "stalled", "deaf", "mute"])
def test_A6_an_agent_cut_off_for_long_starts_nothing_and_its_late_success_counts(how: str, broken: Broken) -> None:
    """It is suspended when its lease is over, given up, fenced when it is heard again, and then works as a new incarnation."""
    world, network = broken.world, broken.network
    patient = [world.expect(mixed_jobs.patient.request(n, LOST_AFTER_S + 4.0, 3600.0)) for n in range(2 * len(AGENTS))]
    mixed_jobs.app.submit_many(patient)
    jobs = {str(request.id) for request in patient}
    world.until("all have started", lambda: sum(len(_running_on(world, name, jobs)) for name in AGENTS) == len(jobs))
    agent = max(AGENTS, key=lambda name: len(_running_on(world, name, jobs)))
    closing = _running_on(world, agent, jobs)
    broken.touched.add(agent)
    lives = world.number("select count(*) from jobyard.agents where name = %s", agent)
    cut = time.monotonic()
    with BREAKS[how](network.kafka[agent]):
        world.submit_mixed(JOBS, by_cli=0)
        world.until(f"{agent} is given up", lambda: _state_of(world, agent) == "lost")
        world.until(
            "what ran there runs elsewhere, too",
            lambda: closing <= {one.job for other in AGENTS if other != agent for one in world.running_on(other)},
        )
    mended = time.monotonic()
    world.until("the late successes close the jobs", lambda: all(world.state(job) == "succeeded" for job in closing))
    world.until_active(agent)
    assert world.number("select count(*) from jobyard.agents where name = %s", agent) == lives + 1
    broken.heals()
    evidence = world.evidence()
    for job in closing:
        assert [row["outcome"] for row in evidence.attempts[job]] == ["lost", "superseded"]
        assert [row["closed_job"] for row in evidence.late[job]] == [True]
    # A heartbeat that was acknowledged just before the cut makes the lease; one that was sent just before may still be acknowledged.
    started = [one for one in world.executions() if one.pid == world.pid(agent) and cut + LEASE_S + 0.5 < one.started < mended]
    assert started == []


def test_a_leader_without_Kafka_for_a_short_time_costs_nothing(broken: Broken) -> None:
    before = broken.lost()
    leader = broken.until_led()
    for how in ("dropped", "stalled"):
        with BREAKS[how](broken.network.kafka[leader]):
            time.sleep(SHORT_S)
    broken.heals()
    assert broken.lost() == before
    assert broken.until_led() == leader


@pytest.mark.parametrize("how", ["dropped", "stalled"])
def test_L24_a_leader_that_Kafka_does_not_answer_gives_the_lane_to_the_other(how: str, broken: Broken) -> None:
    before = broken.lost()
    leader = broken.until_led()
    other = next(name for name in LEADERS if name != leader)
    with BREAKS[how](broken.network.kafka[leader]):
        broken.until_led(other)
        broken.world.submit_mixed(JOBS // 2, by_cli=0)
        broken.world.check(LostOnlyOf(broken.touched), InterruptedOnlyOf())
    broken.heals()
    assert broken.lost() == before
    assert broken.until_led() == other


def test_a_leader_cut_off_from_the_database_takes_over_or_another_does(broken: Broken) -> None:
    """Its connections end again and again, in the midst of a tick, too: what it was about to commit is committed, or not."""
    before = broken.lost()
    for count in (0, 900, 5_000, 20_000):
        leader = broken.until_led()
        proxy = broken.network.postgres[leader]
        if count:
            proxy.cut_after(count, "up" if count < 10_000 else "down")
            broken.world.submit_mixed(JOBS // 4, by_cli=0)
            broken.world.until("it was cut", partial(_was_cut, proxy))
        else:
            with proxy.dropped():
                time.sleep(SHORT_S)
    broken.heals()
    assert broken.lost() == before


def test_T1_a_leader_whose_database_is_silent_loses_the_lane_and_commits_nothing_more(broken: Broken) -> None:
    """Its connection is there, and nothing comes through: the other one leads when the lease is over, and the silent connection is given up (L1)."""
    before = broken.lost()
    leader = broken.until_led()
    gave_up = _given_up(broken.world, leader)
    other = next(name for name in LEADERS if name != leader)
    with broken.network.postgres[leader].stalled():
        stalled = time.monotonic()
        broken.until_led(other)
        assert time.monotonic() - stalled < 4.0 + 5.0 + 5.0  # the lease, an election, a take-over, and a slow machine
        epoch = broken.world.number("select epoch from jobyard.leases")
        broken.world.submit_mixed(JOBS // 2, by_cli=0)
        broken.world.check(LostOnlyOf(broken.touched), InterruptedOnlyOf())
        broken.world.until("the silent connection is given up", lambda: _given_up(broken.world, leader) > gave_up)
        assert (
            time.monotonic() - stalled < RULES.takeover_s + 5.0 + 10.0
        )  # a statement's time-out, as long without a packet, and a slow machine
    broken.heals()
    assert broken.world.number("select epoch from jobyard.leases") == epoch
    assert broken.until_led() == other
    assert broken.lost() == before


@pytest.mark.parametrize("via", ["sql", "kafka"])
def test_a_submitter_cut_off_is_told_and_may_submit_again(via: Via, broken: Broken) -> None:
    ways = broken.network.postgres if via == "sql" else broken.network.kafka
    proxy = ways[CLIENT]
    requests = broken.world.mixed(6, via=via)
    requests[0].submit()
    with proxy.dropped():
        with pytest.raises(ServiceUnavailable) as caught:
            requests[1].submit()
        assert ("Postgres" if via == "sql" else "Kafka") in str(caught.value)
    # in the midst of the request, and in the midst of the answer: it may have got there, so the same request is submitted again
    for request, way in ((requests[2], "up"), (requests[3], "down")):
        proxy.cut_after(40, "up" if way == "up" else "down")
        try:
            request.submit()
        except ServiceUnavailable as error:
            # without a connection nothing was sent, and so no id is named
            assert str(request.id) in str(error) or "connection failed" in str(error)  # noqa: PT017  either may happen
        broken.world.until("it was cut", partial(_was_cut, proxy))
    stalled = threading.Thread(target=requests[4].submit)
    with proxy.stalled():
        stalled.start()
        time.sleep(SHORT_S)
        assert stalled.is_alive()
    stalled.join(PATIENCE_S)
    assert not stalled.is_alive()
    for request in requests:
        request.submit()
    broken.heals()


def test_a_slow_network_everywhere_costs_time_only(broken: Broken) -> None:
    before = broken.lost()
    for proxy in broken.network.proxies:
        proxy.delay(0.2, 0.1)
    time.sleep(1.0)
    broken.world.submit_mixed(JOBS // 2, by_cli=0)
    broken.world.until_all_ended()
    broken.heals()
    assert broken.lost() == before


def _running_on(world: World, agent: str, jobs: set[str]) -> set[str]:
    """Those of these jobs that run there, as the leader knows."""
    return {one.job for one in world.running_on(agent) if one.job in jobs and world.state(one.job) == "running"}


def _state_of(world: World, agent: str) -> str:
    """Of its newest life."""
    return str(world.rows("select state from jobyard.agents where name = %s order by agent_id desc limit 1", agent)[0]["state"])


def _given_up(world: World, leader: str) -> int:
    return world.log_of(leader).count("leadership of lane default failed, takes over again: Postgres: the server has been silent")


def _was_cut(proxy: Proxy) -> bool:
    return not proxy.is_counting
