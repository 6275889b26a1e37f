"""Whether a database is as this version of Jobyard needs it: "jobyard db check"."""

from typing import NamedTuple

from jobyard.contracts.errors import ConfigurationError
from jobyard.master_db.connection import AUDITOR, NEWEST_SERVER, OLDEST_SERVER, Connection, errors
from jobyard.master_db.queries import Query


class Revision(NamedTuple):
    """The revision of the schema."""

    revision: str


class Reach(NamedTuple):
    """Whether the partitions reach far enough ahead."""

    enough: bool


class ServerSettings(NamedTuple):
    """What matters of the server's settings."""

    version: int
    encoding: str
    naptime_s: float
    autovacuum: bool


class Finding(NamedTuple):
    """Something that is not as it should be, and its mend. `fatal`: Jobyard does not work with it."""

    what: str
    mend: str
    fatal: bool


_REVISION = Query("revision_now", Revision)
_REACH = Query("partitions_reach", Reach)
_SERVER = Query("server_settings", ServerSettings)


def check(connection: Connection, expected: str) -> list[Finding]:
    """All that is wrong. `expected`: the revision that the code was written for (`migrations.head()`)."""
    with errors(AUDITOR):
        server = _SERVER.one(connection)
    found = _of_server(server)
    revision = current(connection)
    if revision != expected:
        found.append(_of_revision(revision, expected))
        return found
    with errors(AUDITOR):
        if not _REACH.one(connection).enough:
            found.append(
                Finding(
                    "the history has no partition for tomorrow: new jobs will be refused",
                    'start a coordinator, or run "jobyard db prune"',
                    True,
                )
            )
    return found


def current(connection: Connection) -> str | None:
    """The revision of the schema; None if there is none that we may read."""
    try:
        with errors(AUDITOR), connection.transaction():
            found = _REVISION.first(connection)
    except ConfigurationError:
        return None
    return None if found is None else found.revision


def _of_server(server: ServerSettings) -> list[Finding]:
    found: list[Finding] = []
    version = server.version // 10_000
    if not OLDEST_SERVER <= version <= NEWEST_SERVER:
        found.append(Finding(f"the server is PostgreSQL {version}", f"use {OLDEST_SERVER} to {NEWEST_SERVER}", True))
    if server.encoding != "UTF8":
        found.append(Finding(f"the database's encoding is {server.encoding}", "make one with ENCODING 'UTF8' TEMPLATE template0", True))
    if not server.autovacuum:
        found.append(Finding("autovacuum is off: the hot tables will grow without bound", "set autovacuum = on", False))
    elif server.naptime_s > 10:
        found.append(
            Finding(f"autovacuum_naptime is {server.naptime_s:g} s: dead rows pile up under load", "set autovacuum_naptime = '10s'", False)
        )
    return found


def _of_revision(revision: str | None, expected: str) -> Finding:
    if revision is None:
        return Finding("Jobyard is not installed in this database (or the role may not look)", 'run "jobyard db upgrade"', True)
    if revision < expected:
        return Finding(f"the schema is at revision {revision}, the code needs {expected}", 'run "jobyard db upgrade"', True)
    return Finding(f"the schema is at revision {revision}, newer than the code's {expected}", "upgrade Jobyard here", False)
