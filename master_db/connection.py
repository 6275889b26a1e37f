"""Sessions of the Master DB: how they are opened, what ends them when they hang, and what their errors mean.

Every session has time-outs and keep-alives, so that the locks of a dead process end (L1), and so that nobody waits for ever for a server that is silent.
UUIDs are read as text, as the rest of the program holds them.
"""

import itertools
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

import psycopg
from psycopg.abc import PQGen
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

_T = TypeVar("_T")
_rollbacks = itertools.count()
_LOOK_EVERY_S = 0.1
"""How often one who waits for the server looks at the time."""


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

    @property
    def silent_s(self) -> float:
        """A server that has not sent a byte for this long, though it was asked, is given up, even if its kernel, or a proxy before it, still acknowledges
        packets: one that lives would have ended the statement by its own time-out, and said so."""
        return self.statement_s + self.unanswered_s if self.statement_s else 0.0


TIMEOUTS = Timeouts()


class _Session(psycopg.Connection[TupleRow]):
    """A connection that gives a silent server up. `silent_s`: see Timeouts; 0: it waits for ever."""

    silent_s = 0.0

    def wait(self, gen: PQGen[_T], interval: float = _LOOK_EVERY_S, timeout: float | None = None) -> _T:
        """As psycopg's, which all that waits for the server goes through. `timeout`: of one who waits for notices, where silence is no failure."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        return super().wait(self._heard(gen) if self.silent_s else gen, interval)

    def _heard(self, gen: PQGen[_T]) -> PQGen[_T]:
        try:
            state = next(gen)
            heard = time.monotonic()
            while True:
                ready = yield state
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.silent_s:
                    self.pgconn.finish()  # or the end of a pipeline, or of a COPY, would wait once more
                    raise psycopg.OperationalError(f"the server has been silent for {self.silent_s:g} s: the session is given up")
                state = gen.send(ready)
        except StopIteration as end:
            answer: _T = end.value
            return answer


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
        connection = _Session.connect(conninfo, autocommit=autocommit)
    connection.silent_s = timeouts.silent_s
    try:
        _accept(connection)
    except BaseException:
        connection.close()
        raise
    connection.adapters.register_loader("uuid", TextLoader)
    connection.adapters.register_dumper(IdArray, IdArrayDumper)
    return connection


def roll_back(connection: Connection, savepoint: str = "") -> None:
    """Roll back, to a savepoint or all; for whoever goes on in the session after a pipeline that was cut short.

    Of such a pipeline psycopg takes statements for prepared that the server has never seen. At a ROLLBACK it forgets all that was prepared, but
    looks only at a statement that it has not met before: hence the number.
    """
    to = f" to savepoint {savepoint}" if savepoint else ""
    connection.execute(f"rollback{to} /* {next(_rollbacks)} */".encode())


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
