"""Fixtures for everybody. Unit tests open no sockets; for the others: one Postgres and one Kafka a session, a database and a namespace a test."""

import itertools
import logging
import os
import secrets
import shutil
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import pytest_socket
from hypothesis import HealthCheck, settings
from inputs.place import module_place, place
from worlds.fixtures import breakable, breakable_database, breakable_world, make_world, module_world

from jobyard import migrations
from jobyard.embedded.services import Addresses, Services

__all__ = ["breakable", "breakable_database", "breakable_world", "make_world", "module_place", "module_world", "place"]

HERE = Path(__file__).parent.parent / ".jobyard" / "tests"  # a folder a test session, named by its process
UNIT = Path(__file__).parent / "unit"
NUMBERS = itertools.count(1)
# The same examples on every machine: what passes here passes in CI.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")
# For who looks for more than CI does: pytest --hypothesis-profile=long --hypothesis-seed=… FILES of tests that are named …_fuzzed.py.
settings.register_profile("long", max_examples=5_000, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the tests' services run."""
    parser.addoption(
        "--services",
        choices=["embedded", "containers"],
        default="embedded",
        help="what tests of one part use: embedded Postgres and Kafka, or containers (tests/containers/engine.sh makes them ready)",
    )


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Generator[None]:
    """A command that a test runs in this process sets logging up, on streams that end with the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def no_sockets_in_unit_tests(request: pytest.FixtureRequest) -> Generator[None]:
    """A unit test that opens a socket fails. Pairs of Unix sockets stay allowed: an event loop wakes itself up by one."""
    if not request.path.is_relative_to(UNIT):
        yield
        return
    pytest_socket.disable_socket(allow_unix_socket=True)
    yield
    pytest_socket.enable_socket()


@pytest.fixture(scope="session")
def services_folder() -> Generator[Path]:
    """A folder for this session's own services; what sessions that were killed have left is removed."""
    HERE.mkdir(parents=True, exist_ok=True)
    for left in HERE.iterdir():
        if left.name.isdecimal() and not _lives(int(left.name)):
            shutil.rmtree(left, ignore_errors=True)
    folder = HERE / str(os.getpid())
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def services(services_folder: Path, pytestconfig: pytest.Config) -> Generator[Addresses]:
    """Postgres and Kafka for all tests: those that JOBYARD_DATABASE_URL and JOBYARD_KAFKA_BOOTSTRAP_SERVERS name, if both are set, else containers
    with --services=containers, else embedded ones.

    That none can be had is an error of each test that asks for them, never a reason to skip it.
    """
    database_url, servers = os.environ.get("JOBYARD_DATABASE_URL"), os.environ.get("JOBYARD_KAFKA_BOOTSTRAP_SERVERS")
    if database_url and servers:
        yield Addresses(database_url, servers)
        return
    if pytestconfig.getoption("services") == "containers":
        from servers.contained import ContainedServices

        with ContainedServices() as contained:
            yield contained.addresses
        return
    with Services(services_folder / "shared", fast=True) as started:
        yield started.addresses


@pytest.fixture
def breakable_services(services_folder: Path) -> Generator[Services]:
    """Embedded services for one test alone, which may kill and restart them. Their database is migrated."""
    folder = services_folder / f"breakable-{next(NUMBERS)}"
    with Services(folder, fast=True) as started:
        migrations.upgrade(started.database_url)
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def template_database(services: Addresses) -> Generator[str]:
    """Name of a migrated database that nobody is connected to, to copy others from."""
    name = f"jobyard_template_{secrets.token_hex(4)}"
    _run_sql(services, f"create database {name} encoding 'UTF8' template template0")
    migrations.upgrade(url_of(services, name))
    yield name
    _run_sql(services, f"drop database {name} with (force)")


@pytest.fixture
def database_url(services: Addresses, template_database: str) -> Generator[str]:
    """A fresh, migrated database for one test, as its superuser."""
    name = f"jobyard_test_{secrets.token_hex(4)}"
    _run_sql(services, f"create database {name} template {template_database}")
    yield url_of(services, name)
    _run_sql(services, f"drop database {name} with (force)")


@pytest.fixture
def empty_database_url(services: Addresses) -> Generator[str]:
    """A fresh database without any schema of ours."""
    name = f"jobyard_empty_{secrets.token_hex(4)}"
    _run_sql(services, f"create database {name} encoding 'UTF8' template template0")
    yield url_of(services, name)
    _run_sql(services, f"drop database {name} with (force)")


@pytest.fixture
def namespace() -> str:
    """A namespace for Kafka topics that no other test uses."""
    return f"test-{os.getpid()}-{secrets.token_hex(4)}"


def url_of(services: Addresses, database: str) -> str:
    """The same server, another database."""
    return urlunsplit(urlsplit(services.database_url)._replace(path=f"/{database}"))


def _run_sql(services: Addresses, statement: str) -> None:
    with psycopg.connect(services.database_url, autocommit=True) as connection:
        connection.execute(statement.encode())


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
