"""Postgres with its connections cut, and with a full disk, under load. (Restarted and crashed: test_services_die.)"""

import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from faults.machine import did_not_run
from faults.small_disk import NoSmallDisk, SmallDisk, small_disk
from promises import mixed_jobs
from promises.guarantees import InterruptedOnlyOf, LostOnlyOf
from worlds.patience import LOOK_S, PATIENCE_S
from worlds.world import MakeWorld, World

from jobyard import JobRequest, migrations
from jobyard.contracts.errors import ServiceUnavailable
from jobyard.embedded.account import unprivileged
from jobyard.embedded.services import Addresses, Part, Services

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

_CUT: Final = (
    "select count(pg_terminate_backend(pid)) from pg_stat_activity "
    "where pid <> pg_backend_pid() and datname = current_database() and application_name like 'jobyard%%'"
)
FULL: Final = "its disk is full"


def _begin(world: World) -> None:
    world.coordinator("coordinator")
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")
    world.submit_mixed(100, by_cli=0)
    world.until_busy("anna", "bert")


def _submit_until_accepted(requests: list[JobRequest[Any]]) -> int:
    """How often it failed."""
    failed = 0
    for request in requests:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                request.submit()
                break
            except ServiceUnavailable:
                failed += 1
                assert time.monotonic() < deadline
                time.sleep(LOOK_S)
    return failed


def test_connections_that_are_cut_again_and_again_cost_nothing(make_world: MakeWorld) -> None:
    """All at once, wherever the processes are: in the midst of a tick, of a COPY, before a COMMIT or behind it."""
    world = make_world()
    _begin(world)
    cut = 0
    for _ in range(8):
        world.submit_mixed(20, by_cli=0)
        cut += world.number(_CUT)
        _submit_until_accepted(world.mixed(3))
        world.until(
            "it is led again", lambda: world.rows("select 1 from pg_stat_activity where application_name like 'jobyard-coordinator%%'")
        )
    assert cut >= 8 * 2  # at least the leader's and what wakes it
    world.check(LostOnlyOf(), InterruptedOnlyOf())


@contextmanager
def _disk(folder: Path, megabytes: int, ran: str) -> Generator[SmallDisk | None]:
    """None: this machine lets us make none, and it is said that `ran` was not tried."""
    try:
        with small_disk(folder, megabytes) as disk:
            if (account := unprivileged()) is not None:
                account.give(disk.path)
                account.let_in(disk.path)
            yield disk
    except NoSmallDisk as error:
        did_not_run(ran, error)
        yield None


@pytest.fixture(scope="module")
def postgres(services_folder: Path) -> Generator[Services]:
    """A Postgres of its own, whose disk may be full. Its write-ahead log is small, and lies where the test puts it."""
    folder = services_folder / "full"
    parts: list[Part] = ["postgres"]
    with Services(folder, fast=True, parts=parts) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _world(postgres: Services, options: str, kafka: Addresses, namespace: str, tmp_path: Path) -> Generator[World]:
    """On a new database, made with these options."""
    name = namespace.replace("-", "_")
    with psycopg.connect(postgres.database_url, autocommit=True) as connection:
        connection.execute(f"create database {name} encoding 'UTF8' template template0 {options}".encode())
    url = urlunsplit(urlsplit(postgres.database_url)._replace(path=f"/{name}"))
    migrations.upgrade(url)
    try:
        with World(tmp_path, Addresses(url, kafka.kafka_bootstrap_servers), namespace, lost_after_s=5.0) as world:
            yield world
    finally:
        with psycopg.connect(postgres.database_url, autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)".encode())


def test_a_full_disk_is_told_and_stops_nothing_for_longer_than_it_lasts(
    postgres: Services, services: Addresses, namespace: str, tmp_path: Path, services_folder: Path
) -> None:
    """The tables' disk: statements fail, the server lives."""
    with _disk(services_folder / "small-tables", 64, "a full disk of tables") as disk:
        if disk is None:
            return
        with psycopg.connect(postgres.database_url, autocommit=True) as connection:
            connection.execute(f"create tablespace small location '{disk.path}'".encode())
        with _world(postgres, "tablespace small", services, namespace, tmp_path) as world:
            _begin(world)
            with disk.full():
                refused = _fill_up(world)
                # what Kafka has taken waits there, and what runs goes on; its reports are kept
                mixed_jobs.app.submit_many(world.mixed(150, via="kafka"))
                world.until("the leader says what is wrong", lambda: FULL in world.log_of("coordinator"))
                began, told = time.monotonic(), world.log_of("coordinator").count(FULL)
                time.sleep(5.0)
                again = world.log_of("coordinator").count(FULL) - told
                assert 1 <= again <= 2 + (time.monotonic() - began) * 1.0, "it tries again and again, but not without a pause"
            _submit_until_accepted(refused)
            world.check(LostOnlyOf(), InterruptedOnlyOf())
        with psycopg.connect(postgres.database_url, autocommit=True) as connection:
            connection.execute(b"drop tablespace small")


def _fill_up(world: World) -> list[JobRequest[Any]]:
    """Submit until the database refuses; what was not accepted."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        requests = world.mixed(200)
        while requests:
            refusal = _refusal(requests[0])
            if refusal is not None:
                assert FULL in str(refusal)
                assert "make room" in str(refusal)
                return requests
            del requests[0]
        assert time.monotonic() < deadline, "the disk takes everything"


def _refusal(request: JobRequest[Any]) -> ServiceUnavailable | None:
    """Why it was not accepted; None: it was."""
    try:
        request.submit()
    except ServiceUnavailable as error:
        return error
    return None


def test_a_full_disk_of_the_write_ahead_log_is_a_crash(
    postgres: Services, services: Addresses, namespace: str, tmp_path: Path, services_folder: Path
) -> None:
    """The server ends itself with PANIC, and cannot come up before there is room. What was committed is there then."""
    with _disk(services_folder / "small-log", 128, "a full disk of the write-ahead log") as disk:
        if disk is None:
            return
        with _world(postgres, "", services, namespace, tmp_path) as world:
            postgres.stop_postgres()
            log = postgres.status().folder / "postgres" / "pg_wal"
            aside = log.with_name("pg_wal.aside")
            log.rename(aside)
            shutil.copytree(aside, disk.path / "pg_wal")
            if (account := unprivileged()) is not None:
                for path in (disk.path / "pg_wal", *(disk.path / "pg_wal").rglob("*")):
                    account.give(path)
            log.symlink_to(disk.path / "pg_wal")
            postgres.start_postgres()
            _begin(world)
            requests = world.mixed(10)
            with disk.full():
                _exhaust_log(world)
                assert _refusal(requests[0]) is not None
                mixed_jobs.app.submit_many(world.mixed(50, via="kafka"))
                world.until("the leader says that the database is away", lambda: "Postgres:" in world.log_of("coordinator"))
            world.until("the server is there", lambda: _answers(postgres))
            _submit_until_accepted(requests)
            world.check(LostOnlyOf(), InterruptedOnlyOf())
            postgres.stop_postgres()
            log.unlink()
            shutil.rmtree(aside)
            shutil.copytree(disk.path / "pg_wal", log)
            if account is not None:
                for path in (log, *log.rglob("*")):
                    account.give(path)
            postgres.start_postgres()


def _answers(postgres: Services) -> bool:
    """Whether it does. One that ended, since it could not even recover, is started again, as a service manager does."""
    if postgres.status().postgres_pid is None:
        postgres.start_postgres()
    try:
        psycopg.connect(postgres.database_url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _exhaust_log(world: World) -> None:
    """Write until the log takes no more: the server crashes."""
    with psycopg.connect(world.addresses.database_url, autocommit=True) as connection:
        connection.execute(b"create table ballast (text text)")
        with suppress(psycopg.OperationalError):
            while True:
                connection.execute(b"insert into ballast select repeat(md5(g::text), 50) from generate_series(1, 5000) g")
