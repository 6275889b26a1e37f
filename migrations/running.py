"""Upgrade and downgrade of a database named by a libpq URL."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, exc, text
from sqlalchemy.pool import NullPool

from jobyard.client.address import parameters
from jobyard.client.refusals import meaning
from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable

OLDEST_SERVER, NEWEST_SERVER = 15, 18
_OWNER = "a superuser, or a member of jobyard_owner"


def upgrade(url: str, revision: str = "head") -> str | None:
    """Bring the schema to a revision, and return the one before; None: there was none. Several callers at once wait for each other.

    Raises ServiceUnavailable if the database can't be reached, ConfigurationError if it is not UTF-8, its server's version is
    not supported, or the role may not.
    """
    with _configured(url, accept=True) as config:
        before = _revision(config.attributes["connection"])
        command.upgrade(config, revision)
        return before


def downgrade(url: str, revision: str) -> None:
    """Go back to a revision; "base" removes everything but the schema and the roles, with all data."""
    with _configured(url) as config:
        command.downgrade(config, revision)


def current(url: str) -> str | None:
    """The revision of the schema; None if Jobyard was never installed there. ConfigurationError: the role may not look."""
    with _connected(url, "jobyard_auditor") as connection:
        return _revision(connection)


def head() -> str:
    """The revision that this version of Jobyard was written for."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None, "the package holds no migration"  # noqa: S101 - only a broken package can lack them
    return revision


def _revision(connection: Connection) -> str | None:
    if connection.execute(text("select to_regclass('jobyard.alembic_version')")).scalar_one() is None:
        return None
    return MigrationContext.configure(connection, opts={"version_table_schema": "jobyard"}).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


@contextmanager
def _connected(url: str, needs: str) -> Generator[Connection]:
    # libpq's own parameters, so that all that libpq knows works: several hosts, sockets, service files.
    given = {"application_name": "jobyard-migrations", **parameters(url)}
    engine = create_engine("postgresql+psycopg://", connect_args=given, poolclass=NullPool)
    try:
        connection = engine.connect()
    except exc.OperationalError as error:
        raise meaning(error.orig) or ServiceUnavailable(f"the Master DB cannot be reached: {error.orig}") from error
    try:
        with connection:
            yield connection
    except exc.DBAPIError as error:
        known = meaning(error.orig, needs)
        if known is not None:
            raise known from error
        if isinstance(error, exc.OperationalError):
            raise ServiceUnavailable(f"the Master DB did not answer: {error.orig}") from error
        raise
    finally:
        engine.dispose()


@contextmanager
def _configured(url: str, accept: bool = False) -> Generator[Config]:
    with _connected(url, _OWNER) as connection:
        if accept:
            version, encoding = connection.execute(
                text("select current_setting('server_version_num')::int / 10000, getdatabaseencoding()")
            ).one()
            if not OLDEST_SERVER <= version <= NEWEST_SERVER:
                raise ConfigurationError(f"the server is PostgreSQL {version}; Jobyard supports {OLDEST_SERVER} to {NEWEST_SERVER}")
            if encoding != "UTF8":
                raise ConfigurationError(f"the database's encoding is {encoding}; make one with ENCODING 'UTF8' TEMPLATE template0")
        config = _config()
        config.attributes["connection"] = connection
        yield config
        connection.commit()
