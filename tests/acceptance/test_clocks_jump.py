"""Wall clocks that are set: an agent's, a coordinator's, the database's, a submitter's. One world for all, each with a clock of its own.

Agents' leases end by a jump (A6), the lane's lease goes by the database's clock alone, and nobody else is to notice.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pytest
from faults.machine import did_not_run
from faults.wall_clock import SEEN_S, NoWallClock, WallClock, demand_wall_clock
from promises import mixed_jobs
from promises.guarantees import Expected, InterruptedOnlyOf, LostOnlyOf
from worlds.patience import PATIENCE_S
from worlds.world import World

from jobyard import migrations
from jobyard.contracts.codec import encode_intake
from jobyard.contracts.ids import derived_job_id
from jobyard.contracts.job import NewJob
from jobyard.embedded.account import unprivileged
from jobyard.embedded.services import Addresses, Part, Services
from jobyard.kafka.producer import open_producer

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

HOUR_S: Final = 3600.0
JOBS: Final = 30


@dataclass
class Clocked:
    """A world in which everybody has a clock: coordinator `one`, agent `anna`, and the database. `far`: whoever submits by the command line."""

    world: World
    one: WallClock
    anna: WallClock
    database: WallClock
    far: WallClock

    def epoch(self) -> int:
        return self.world.number("select epoch from jobyard.leases")

    def lives(self) -> int:
        """Of all agents so far."""
        return self.world.number("select count(*) from jobyard.agents")

    def works(self) -> None:
        """New jobs end, nothing was ever lost."""
        self.world.submit_mixed(JOBS, by_cli=0)
        self.world.check(LostOnlyOf(), InterruptedOnlyOf())


@pytest.fixture(scope="module")
def clocked(services: Addresses, services_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Clocked | None]:
    """None: this machine lets us give nobody another clock."""
    try:
        demand_wall_clock()
    except NoWallClock as error:
        did_not_run("clocks that jump", error)
        yield None
        return
    folder = services_folder / "clocks"
    folder.mkdir()
    one, anna, database, far = (WallClock(folder / f"{name}.clock") for name in ("one", "anna", "database", "far"))
    if (account := unprivileged()) is not None:
        account.let_in(folder / "database.clock")
    parts: list[Part] = ["postgres"]
    before = dict(os.environ)
    os.environ.update(database.environment)
    try:
        postgres = Services(folder, fast=True, parts=parts).start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    try:
        migrations.upgrade(postgres.database_url)
        addresses = Addresses(postgres.database_url, services.kafka_bootstrap_servers)
        around = {"one": one.environment, "anna": anna.environment}
        namespace = f"clocks-{os.getpid()}"
        with World(tmp_path_factory.mktemp("clocks"), addresses, namespace, lost_after_s=4.0, around=around) as world:
            world.coordinator("one")
            world.agent("anna")
            world.agent("bert")
            world.until_active("anna", "bert")
            yield Clocked(world, one, anna, database, far)
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _said(world: World, name: str, what: str) -> int:
    return world.log_of(name).count(what)


def test_A6_a_jump_ends_an_agents_lease_and_costs_no_job(clocked: Clocked | None) -> None:
    """It starts nothing until it is confirmed; what runs goes on, its time-out too. A clock that is set back, or by little, is nothing."""
    if clocked is None:
        return
    world = clocked.world
    lives = clocked.lives()
    world.submit_mixed(JOBS, by_cli=0)
    requests = [world.expect(mixed_jobs.patient.options(timeout=60.0, max_attempts=1).request(n, 6.0, 0.0)) for n in range(6)]
    mixed_jobs.app.submit_many(requests)
    jobs = {str(request.id) for request in requests}
    world.until("some run on anna", lambda: jobs & {one.job for one in world.running_on("anna")})
    suspended = _said(world, "anna", " suspended")
    clocked.anna.shift(HOUR_S)
    world.until("its lease is over", lambda: _said(world, "anna", " suspended") > suspended)
    world.until("it is confirmed", lambda: _said(world, "anna", "unsuspended") > suspended)
    world.check(LostOnlyOf(), InterruptedOnlyOf())
    suspended = _said(world, "anna", " suspended")
    for seconds in (HOUR_S - 0.3, HOUR_S - 0.6, HOUR_S - 0.9, 0.0, -HOUR_S):
        clocked.anna.shift(seconds)
        time.sleep(SEEN_S / 2)
    clocked.works()
    assert _said(world, "anna", " suspended") == suspended
    clocked.anna.shift(0.0)  # forward again
    world.until("its lease is over again", lambda: _said(world, "anna", " suspended") > suspended)
    clocked.works()
    assert clocked.lives() == lives
    assert world.number("select count(*) from jobyard.attempts where started_at > finished_at") == 0


def test_a_coordinators_wall_clock_is_nobodys_business(clocked: Clocked | None) -> None:
    if clocked is None:
        return
    epoch = clocked.epoch()
    for seconds in (HOUR_S, -HOUR_S, 0.0):
        clocked.one.shift(seconds)
        time.sleep(SEEN_S)
        clocked.world.submit_mixed(JOBS // 3, by_cli=0)
    clocked.works()
    assert clocked.epoch() == epoch


def test_T4_the_databases_clock_set_forward_and_back_costs_a_take_over(clocked: Clocked | None) -> None:
    """Else new jobs would wait for an hour, or all agents would have been silent for one."""
    if clocked is None:
        return
    world = clocked.world
    lives = clocked.lives()
    for seconds in (HOUR_S / 2, 0.0):
        epoch = clocked.epoch()
        world.submit_mixed(JOBS, by_cli=0)
        if seconds == 0.0:
            world.until_all_ended()  # what waits for a moment of the wrong hour waits for that moment
        clocked.database.shift(seconds)
        world.until("the leader takes over again", lambda epoch=epoch: clocked.epoch() > epoch)  # type: ignore[misc]  # a default is what binds it
        clocked.works()
    assert "the database's clock was set forward" in world.log_of("one")
    assert "the database's clock was set back" in world.log_of("one")
    assert clocked.lives() == lives


def test_T1_a_database_clock_set_back_does_not_keep_a_dead_leaders_lease(clocked: Clocked | None) -> None:
    if clocked is None:
        return
    world = clocked.world
    world.submit_mixed(JOBS, by_cli=0)
    world.until_all_ended()
    world.kill("one")
    clocked.database.shift(-HOUR_S / 2)
    epoch = clocked.epoch()
    time.sleep(SEEN_S)
    world.coordinator("one")
    world.until("it leads, though the lease ends in half an hour", lambda: clocked.epoch() > epoch, within_s=30.0)
    clocked.works()
    clocked.database.shift(0.0)
    world.until("it takes over again", lambda: clocked.epoch() > epoch + 1)
    clocked.works()


WRONG_S: Final = (2 * HOUR_S, -8 * 24 * HOUR_S)
BEARABLE_S: Final = (HOUR_S / 2, -HOUR_S, -6 * 24 * HOUR_S)


def test_L19_a_submitter_with_a_wrong_clock_submits_or_is_refused(clocked: Clocked | None) -> None:
    """A job is due when it was received, by the receiver's clock; its id may lie an hour ahead and seven days back."""
    if clocked is None:
        return
    world = clocked.world
    for n, seconds in enumerate(BEARABLE_S):
        clocked.far.shift(seconds)
        done = _submit(clocked, n)
        assert done.returncode == 0, done.stderr
        (line,) = done.stdout.splitlines()
        world.expected[json.loads(line)["job_id"]] = Expected(result=n)
    world.check(LostOnlyOf(), InterruptedOnlyOf())
    for seconds in WRONG_S:
        clocked.far.shift(seconds)
        done = _submit(clocked, 0)
        assert done.returncode != 0
        assert "1 hour ahead" in done.stdout + done.stderr
        assert "Is a clock wrong?" in done.stdout + done.stderr


def test_L19_what_a_submitter_with_a_wrong_clock_sends_by_Kafka_is_taken_or_quarantined(clocked: Clocked | None) -> None:
    """By the broker's clock. The ids are those that its client would make."""
    if clocked is None:
        return
    world = clocked.world
    jobs: list[NewJob] = []
    for n, seconds in enumerate((*BEARABLE_S, *WRONG_S)):
        job = NewJob(kind="tiny", args=msgspec.Raw(b'{"n": %d}' % n), id=derived_job_id(time.time() + seconds, f"{n}"))
        jobs.append(job)
        if seconds in BEARABLE_S:
            world.expected[str(job.id)] = Expected(result=n)
        else:
            world.expect_bad(str(job.id))
    producer = open_producer(world.addresses.kafka_bootstrap_servers, {}, timeout_s=PATIENCE_S)
    producer.produce(world.topics.intake.name, encode_intake(jobs))
    assert producer.flush(PATIENCE_S) == 0
    producer.close()
    world.check(LostOnlyOf(), InterruptedOnlyOf())


def _submit(clocked: Clocked, n: int) -> "subprocess.CompletedProcess[str]":
    """By SQL, by a process whose clock is wrong from its start on."""
    return subprocess.run(
        [sys.executable, "-m", "jobyard.cli.app", "job", "submit", "tiny", json.dumps({"n": n}), "--via", "sql", "--json"],
        env={**os.environ, **clocked.far.environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
