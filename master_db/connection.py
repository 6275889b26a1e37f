"""Sessions of the Master DB: how they are opened, what ends them when they hang, and what their errors mean.

Every session has time-outs and keep-alives, so that the locks of a dead process end (L1). UUIDs are read as text, as the rest of the program holds them.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg.types.string import TextLoader

from jobyard.client.address import parameters
from jobyard.client.refusals import meaning
from jobyard.contracts.errors import ConfigurationError
from jobyard.master_db.id_arrays import IdArray, IdArrayDumper

OLDEST_SERVER, NEWEST_SERVER = 15, 18
CLIENT, AUDITOR, OPERATOR, COORDINATOR = "jobyard_client", "jobyard_auditor", "jobyard_operator", "jobyard_coordinator"
"""The roles that rights are granted to."""

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
    given = parameters(url)
    conninfo = make_conninfo("", **given | _parameters(given, application_name, timeouts, plans))
    with errors():
        connection: Connection = psycopg.connect(conninfo, autocommit=autocommit)
    try:
        _accept(connection)
    except BaseException:
        connection.close()
        raise
    connection.adapters.register_loader("uuid", TextLoader)
    connection.adapters.register_dumper(IdArray, IdArrayDumper)
    return connection


def _parameters(given: dict[str, str | int], application_name: str, timeouts: Timeouts, plans: str) -> dict[str, str | int]:
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
    ours: dict[str, str | int] = {
        "application_name": application_name,
        "connect_timeout": timeouts.connect_s,
        "keepalives": 1,
        "keepalives_idle": probe_s,
        "keepalives_interval": probe_s,
        "keepalives_count": 3,
        "tcp_user_timeout": round(timeouts.unanswered_s * 1000),
    }
    ours = {name: value for name, value in ours.items() if name not in given}
    # What the URL says itself comes last, and so wins.
    ours["options"] = " ".join([*(f"-c {name}={value}" for name, value in settings.items()), str(given.get("options") or "")]).strip()
    return ours


def _accept(connection: Connection) -> None:
    version = connection.info.server_version // 10_000
    if not OLDEST_SERVER <= version <= NEWEST_SERVER:
        raise ConfigurationError(f"the server is PostgreSQL {version}; Jobyard supports {OLDEST_SERVER} to {NEWEST_SERVER}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigurationError(f"the database's encoding is {encoding}; make one with ENCODING 'UTF8' TEMPLATE template0")


@contextmanager
def errors(needs: str | None = None) -> Generator[None]:
    """Turn the database's errors into Jobyard's; those that only a bug explains pass as they are. `needs`: the role that gives the right for it."""
    try:
        yield
    except psycopg.Error as error:
        sorted_ = meaning(error, needs)
        if sorted_ is None:
            raise
        raise sorted_ from error
