"""Which lanes there are, and who leads them, as the election sees it. One session, opened when first used and again after a failure."""

from typing import TYPE_CHECKING, NamedTuple

import psycopg

from jobyard.contracts.rules import RULES
from jobyard.master_db.connection import COORDINATOR, Connection, connect, errors
from jobyard.master_db.queries import Query


class LaneName(NamedTuple):
    """A lane's name."""

    lane: str


ALL_LANES = Query("all_lanes", LaneName)
FREE_LANES = Query("free_lanes", LaneName)


class PostgresLanes:
    """The Lanes of the coordinator. ServiceUnavailable when the Master DB doesn't answer; the next call tries anew."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None

    def all(self) -> list[str]:
        """Names of all lanes."""
        return self._names(ALL_LANES)

    def free(self) -> list[str]:
        """Names of the lanes whose lease is over, by the database's clock."""
        return self._names(FREE_LANES, longest_s=2 * RULES.takeover_s)

    def close(self) -> None:
        """Drop the session. Never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _names(self, query: Query[LaneName], **values: float) -> list[str]:
        if self._connection is None:
            self._connection = connect(self._url, application_name="jobyard-coordinator election", autocommit=True)
        try:
            with errors(COORDINATOR):
                return [row.lane for row in query.all(self._connection, **values)]
        except BaseException as error:
            if isinstance(error.__cause__, psycopg.Error) or not isinstance(error, Exception):
                self.close()
            raise


if TYPE_CHECKING:
    from jobyard.coordinator.seams import Lanes

    _proof: type[Lanes] = PostgresLanes
