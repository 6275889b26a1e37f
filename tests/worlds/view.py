"""What the Master DB and the handlers' journal tell of a world."""

import time
from pathlib import Path
from typing import Any

import psycopg
from promises.evidence import Execution, Lease, read_journal
from psycopg.rows import dict_row

from worlds.patience import LOOK_S, PATIENCE_S


class View:
    """The test's own, by one connection that is opened anew when it was cut. `leases`: a leader's row as it was seen from time to time."""

    def __init__(self, database_url: str, journal: Path) -> None:
        self._database_url = database_url
        self.journal = journal
        self.leases: list[Lease] = []
        self._opened: psycopg.Connection[dict[str, Any]] | None = None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def connected(self) -> psycopg.Connection[dict[str, Any]]:
        """The connection, which may have been cut meanwhile."""
        self.rows("select 1")
        assert self._opened is not None
        return self._opened

    def see_lease(self) -> None:
        """Another look at the leader's row, if the database is there: what is seen must only grow."""
        if self._opened is None or self._opened.closed:
            return
        try:
            rows = self._opened.execute("select epoch, fence, offsets from jobyard.leases").fetchall()
        except psycopg.Error:
            return
        self.leases += [lease for row in rows if (lease := Lease.of(row)) not in self.leases[-1:]]

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Ask the Master DB; a database that is away is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self._opened is None or self._opened.closed:
                    self._opened = psycopg.Connection[dict[str, Any]].connect(self._database_url, autocommit=True, row_factory=dict_row)
                return self._opened.execute(sql.encode(), values).fetchall()
            except psycopg.OperationalError:
                if self._opened is not None:
                    self._opened.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_S)

    def number(self, sql: str, *values: object) -> int:
        """The one number that it asks for."""
        (row,) = self.rows(sql, *values)
        (value,) = row.values()
        return int(value)

    def counts(self) -> dict[str, int]:
        """Jobs by state."""
        return {row["state"]: row["jobs"] for row in self.rows("select state::text, count(*) as jobs from jobyard.job_status group by 1")}

    def state(self, job: str) -> str | None:
        """A job's state; None: there is no such job (yet)."""
        found = self.rows("select state::text from jobyard.job_status where job_id = %s", job)
        return found[0]["state"] if found else None

    def is_final(self, job: str) -> bool:
        return self.state(job) in ("succeeded", "failed", "cancelled", "expired", "refused")

    def ended(self) -> int:
        """How many jobs are final."""
        return self.number(
            "select count(*) from jobyard.job_status where state in ('succeeded', 'failed', 'cancelled', 'expired', 'refused')"
        )

    def executions(self) -> list[Execution]:
        return read_journal(self.journal)

    def kind_of(self, job: str) -> str:
        return str(self.rows("select kind from jobyard.job_status where job_id = %s", job)[0]["kind"])

    def end_lease(self) -> None:
        """As though the time of a leader's lease had gone by: for one that is killed or paused."""
        self.rows("update jobyard.leases set lease_until = now() returning 1")
