"""Wake-ups from the database: LISTEN on a session of its own (D8). The payload of a notice is the lane's number."""

import time
from typing import TYPE_CHECKING

from jobyard.contracts.errors import NotFound
from jobyard.master_db.connection import COORDINATOR, Connection, Timeouts, connect, errors
from jobyard.master_db.lane_store import FIND_LANE

CHANNEL = "jobyard"


class PostgresNotices:
    """The Notices of one lane. Used by one thread. ServiceUnavailable when the Master DB doesn't answer; the next call tries anew."""

    def __init__(self, url: str, lane: str) -> None:
        self._url = url
        self._lane = lane
        self._payload = ""
        self._connection: Connection | None = None

    def wait(self, timeout_s: float) -> bool:
        """Whether somebody has woken this lane within the time. True after a new session, too: a notice may have been missed."""
        if self._connection is None:
            self._open()
            return True
        try:
            with errors(COORDINATOR):
                return self._wait(self._connection, timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Drop the session. Never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _wait(self, connection: Connection, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        woken = False
        while not woken:
            left = until - time.monotonic()
            for notice in connection.notifies(timeout=max(0.0, left), stop_after=1):
                woken = woken or notice.payload == self._payload
            if left <= 0:
                break
        return woken

    def _open(self) -> None:
        # a listener has nothing to do for hours: no statement of its own is under way that could take too long
        connection = connect(self._url, application_name="jobyard-coordinator listener", autocommit=True, timeouts=Timeouts(statement_s=0))
        try:
            with errors(COORDINATOR):
                lane = FIND_LANE.first(connection, lane=self._lane)
                if lane is None:
                    raise NotFound(f"there is no lane {self._lane!r}")
                self._payload = str(lane.lane_id)
                connection.execute(f"listen {CHANNEL}".encode())
        except BaseException:
            connection.close()
            raise
        self._connection = connection


if TYPE_CHECKING:
    from jobyard.coordinator.seams import Notices

    _proof: type[Notices] = PostgresNotices
