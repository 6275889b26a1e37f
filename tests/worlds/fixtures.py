"""Worlds on the session's services, and on services of their own that may be broken."""

import secrets
import shutil
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from jobyard import migrations
from jobyard.embedded.services import Addresses, Services
from worlds.world import MakeWorld, World


@pytest.fixture
def make_world(services: Addresses, database_url: str, namespace: str, tmp_path: Path) -> Generator[MakeWorld]:
    """Makes the test's world, with the arguments of World but for the place; it ends with the test."""
    with ExitStack() as stack:

        def make(*, lost_after_s: float = 5.0) -> World:
            addresses = Addresses(database_url, services.kafka_bootstrap_servers)
            return stack.enter_context(World(tmp_path, addresses, namespace, lost_after_s=lost_after_s))

        yield make


@pytest.fixture(scope="module")
def module_world(services: Addresses, template_database: str, tmp_path_factory: pytest.TempPathFactory) -> MakeWorld:
    """Makes a world that several tests of one module look at, on a fresh database. Who makes it ends it."""

    def make(*, lost_after_s: float = 5.0) -> World:
        name = f"jobyard_{secrets.token_hex(4)}"
        with psycopg.connect(services.database_url, autocommit=True) as connection:
            connection.execute(f"create database {name} template {template_database}".encode())
        url = urlunsplit(urlsplit(services.database_url)._replace(path=f"/{name}"))
        folder = tmp_path_factory.mktemp("world")
        return World(folder, Addresses(url, services.kafka_bootstrap_servers), f"test-{name.replace('_', '-')}", lost_after_s=lost_after_s)

    return make


@pytest.fixture(scope="module")
def breakable(services_folder: Path) -> Generator[Services]:
    """Embedded services that the tests of one module may break, and mend."""
    folder = services_folder / "acceptance"
    with Services(folder, fast=True) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def breakable_database(breakable: Services) -> str:
    """A fresh, migrated database there."""
    name = f"jobyard_{secrets.token_hex(4)}"
    with psycopg.connect(breakable.database_url, autocommit=True) as connection:
        connection.execute(f"create database {name} encoding 'UTF8' template template0".encode())
    url = urlunsplit(urlsplit(breakable.database_url)._replace(path=f"/{name}"))
    migrations.upgrade(url)
    return url


@pytest.fixture
def breakable_world(breakable: Services, breakable_database: str, namespace: str, tmp_path: Path) -> Generator[World]:
    """A world on services that the test may break: agents may be silent for 60 s, so a restart is no reason to give one up."""
    with World(tmp_path, Addresses(breakable_database, breakable.kafka_bootstrap_servers), namespace, lost_after_s=60.0) as world:
        yield world
