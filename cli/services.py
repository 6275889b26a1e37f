"""Connections of the command line, closed at the end of a command."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobyard.settings import cli_settings

if TYPE_CHECKING:
    from jobyard.client.client import Client
    from jobyard.kafka.admin import Admin
    from jobyard.master_db.connection import Connection


@contextmanager
def master_db() -> Generator["Connection"]:
    """The Master DB, each statement its own transaction."""
    from jobyard.master_db.connection import connect

    with connect(cli_settings().database(), application_name="jobyard-cli", autocommit=True) as connection:
        yield connection


@contextmanager
def admin() -> Generator["Admin"]:
    """Kafka's admin client."""
    from jobyard.kafka.admin import Admin

    settings = cli_settings()
    opened = Admin(settings.kafka(), settings.kafka_options)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def client(*, lane: str | None = None, submitter: str | None = None, looks_up: bool = False) -> Generator["Client"]:
    """The client, as a program that submits has it. `looks_up`: WrongSettings if no database is set, without which nothing can be looked up."""
    from jobyard.client.client import Client, Overrides

    if looks_up:
        cli_settings().database()
    opened = Client(Overrides(lane=lane, submitter=submitter))
    try:
        yield opened
    finally:
        opened.close()
