"""Sessions of the Master DB: how they are opened, what ends them when they hang, and what their errors mean.

Every session has time-outs and keep-alives, so that the locks of a dead process end (L1). UUIDs are read as text, as the rest of the program holds them.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg.types.string import TextLoader

from jobyard.client.refusals import translated
from jobyard.contracts.errors import ConfigurationError, JobyardError, Refused, ServiceUnavailable

OLDEST_SERVER, NEWEST_SERVER = 15, 18
Connection = psycopg.Connection[TupleRow]


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """In seconds. 0: none, but for `connect_s`."""

    connect_s: int = 5
    statement_s: float = 30.0
    lock_s: float = 5.0
    idle_in_transaction_s: float = 10.0
    """A process that stops inside a transaction loses its session, and so its locks, after this long."""
    unanswered_s: float = 10.0
    """A peer that answers nothing at all, not even the kernel's probes, is given up after about this long."""


TIMEOUTS = Timeouts()


def connect(
    url: str,
    *,
    application_name: str,
    timeouts: Timeouts = TIMEOUTS,
    autocommit: bool = False,
    plans: Literal["auto", "force_custom_plan", "force_generic_plan"] = "auto",
) -> Connection:
    """Open a session. `plans`: force_custom_plan for whoever asks partitioned tables by array or range.

    Raises ServiceUnavailable; ConfigurationError for a URL, a server or a database that can't be used.
    """
    try:
        given = conninfo_to_dict(url)
        conninfo = make_conninfo(url, **_parameters(given, application_name, timeouts, plans))
    except psycopg.ProgrammingError as error:
        raise ConfigurationError(f"the Master DB's URL cannot be read: {str(error).strip()}") from error
    with errors():
        connection: Connection = psycopg.connect(conninfo, autocommit=autocommit)
    try:
        _accept(connection)
    except BaseException:
        connection.close()
        raise
    connection.adapters.register_loader("uuid", TextLoader)
    return connection


def _parameters(given: dict[str, str | int | None], application_name: str, timeouts: Timeouts, plans: str) -> dict[str, str | int]:
    settings: dict[str, str | int] = {
        "jit": "off",  # its estimates over partitions start the compiler for statements of a millisecond (D11)
        "plan_cache_mode": plans,
        "statement_timeout": round(timeouts.statement_s * 1000),
        "lock_timeout": round(timeouts.lock_s * 1000),
        "idle_in_transaction_session_timeout": round(timeouts.idle_in_transaction_s * 1000),
        "client_encoding": "UTF8",
        "TimeZone": "UTC",
    }
    probe_s = max(1, round(timeouts.unanswered_s / 4))
    parameters: dict[str, str | int] = {
        "application_name": application_name,
        "connect_timeout": timeouts.connect_s,
        "keepalives": 1,
        "keepalives_idle": probe_s,
        "keepalives_interval": probe_s,
        "keepalives_count": 3,
        "tcp_user_timeout": round(timeouts.unanswered_s * 1000),
    }
    parameters = {name: value for name, value in parameters.items() if name not in given}
    # What the URL says itself comes last, and so wins.
    parameters["options"] = " ".join([*(f"-c {name}={value}" for name, value in settings.items()), str(given.get("options") or "")]).strip()
    return parameters


def _accept(connection: Connection) -> None:
    version = connection.info.server_version // 10_000
    if not OLDEST_SERVER <= version <= NEWEST_SERVER:
        raise ConfigurationError(f"the server is PostgreSQL {version}; Jobyard supports {OLDEST_SERVER} to {NEWEST_SERVER}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigurationError(f"the database's encoding is {encoding}; make one with ENCODING 'UTF8' TEMPLATE template0")


@contextmanager
def errors() -> Generator[None]:
    """Turn the database's errors into Jobyard's; those that only a bug explains pass as they are."""
    try:
        yield
    except psycopg.Error as error:
        sorted_ = meaning(error)
        if sorted_ is None:
            raise
        raise sorted_ from error


# Classes and codes that say "not now": the connection, the server's state, its resources, a time-out, a conflict of transactions.
_PASSING = ("08", "53", "57", "58", "40", "55P03", "25P03", "25P04", "25006", "XX000")


def meaning(error: psycopg.Error) -> JobyardError | None:
    """What an error of the database means for who asked; None: a bug."""
    code = error.sqlstate or ""
    text = (error.diag.message_primary or str(error)).strip()
    if code.startswith(_PASSING):
        return ServiceUnavailable(f"Postgres: {text}")
    if code.startswith(("28", "3D")):
        return ConfigurationError(f"the Master DB refuses the connection: {text}")
    if code == "JY090":
        return Refused(text, code=code)
    return translated(error)
