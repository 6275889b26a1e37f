"""Which lanes there are, who leads them and who is there to lead, as the election sees it. One session, opened when first used and again after a failure."""

import socket
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import psycopg

from jobyard.contracts.rules import RULES
from jobyard.coordinator.seams import Peer, Seen
from jobyard.master_db.connection import COORDINATOR, Connection, Timeouts, connect, errors
from jobyard.master_db.queries import Query, Statement


class LaneName(NamedTuple):
    """A lane's name."""

    lane: str


class LaneLed(NamedTuple):
    """A lane and the coordinator whose lease holds; None: nobody's does."""

    lane: str
    leader: str | None


class PeerRow(NamedTuple):
    """A coordinator that is alive. `settled`: for long enough to be given lanes that others lead."""

    coordinator: str
    wanted: list[str]
    unable: list[str]
    settled: bool


ALL_LANES = Query("all_lanes", LaneName)
LEADERS = Query("leaders", LaneLed)
PEERS = Query("peers", PeerRow)
BE_ALIVE = Statement("be_alive")
BE_GONE = Statement("be_gone")

_T = TypeVar("_T")

_TIMEOUTS = Timeouts(statement_s=5.0, unanswered_s=5.0)
"""A look takes milliseconds. While it is not answered, this coordinator takes no lane, and is not alive for the others."""


class PostgresLanes:
    """The Lanes of one coordinator; `me`: its random UUID. ServiceUnavailable when the Master DB doesn't answer; the next call tries anew."""

    def __init__(self, url: str, me: str = "") -> None:
        self._url = url
        self._me = me
        self._connection: Connection | None = None

    def all(self) -> list[str]:
        """Names of all lanes."""
        return [row.lane for row in self._asked(ALL_LANES.all)]

    def look(self, wanted: Collection[str], unable: Collection[str]) -> Seen:
        """Say that we are alive, and see who else is, and who leads what."""

        def asked(connection: Connection) -> Seen:
            with connection.pipeline():
                BE_ALIVE.run(
                    connection,
                    coordinator=self._me,
                    host=socket.gethostname(),
                    wanted=sorted(wanted),
                    unable=sorted(unable),
                    alive_s=RULES.alive_s,
                )
                peers = PEERS.cursor(connection, settled_s=RULES.settled_s)
                lanes = LEADERS.cursor(connection, longest_s=2 * RULES.takeover_s, tick_s=RULES.lease_s)
            return Seen(
                {row.lane: row.leader for row in lanes.fetchall()},
                [Peer(row.coordinator, frozenset(row.wanted), frozenset(row.unable), row.settled) for row in peers.fetchall()],
            )

        return self._asked(asked)

    def leave(self) -> None:
        """The others see at once that we are gone. Never raises."""
        connection = self._connection
        if connection is not None:
            try:
                BE_GONE.run(connection, coordinator=self._me)
            except psycopg.Error:
                self.close()  # our word runs out by itself

    def close(self) -> None:
        """Drop the session. Never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _asked(self, ask: Callable[[Connection], _T]) -> _T:
        fresh = self._connection is None
        if self._connection is None:
            self._connection = connect(self._url, application_name="jobyard-coordinator election", autocommit=True, timeouts=_TIMEOUTS)
        try:
            with errors(COORDINATOR):
                if fresh and self._me:
                    # That somebody is alive may be forgotten in a crash of the database: no commit waits for the disk.
                    self._connection.execute(b"set synchronous_commit = off")
                return ask(self._connection)
        except BaseException as error:
            if isinstance(error.__cause__, psycopg.Error) or not isinstance(error, Exception):
                self.close()
            raise


if TYPE_CHECKING:
    from jobyard.coordinator.seams import Lanes

    _proof: type[Lanes] = PostgresLanes
