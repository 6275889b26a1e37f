"""A real database whose clock stands still until a test moves it, and which is as good as new again within milliseconds."""

import secrets
import time
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.rows import TupleRow

from jobyard.coordinator.core.snapshot import Snapshot
from jobyard.master_db.connection import connect
from jobyard.master_db.kind_numbers import KindNumbers
from jobyard.master_db.snapshot import load

LANE: Final = "default"
DAY_S: Final = 86_400.0
T0: Final = 2_000_073_600.0
"""Where the clock begins: long after today, one day behind the bound of two partitions (2033-05-19)."""

# Every statement names its functions without a schema, and sessions look into this one first.
_CLOCK: Final = b"""
create table jobyard.frozen_clock (at timestamptz not null);
insert into jobyard.frozen_clock values (to_timestamp(0));
create function jobyard.now() returns timestamptz language sql stable security definer as 'select at from jobyard.frozen_clock';
create function jobyard.clock_timestamp() returns timestamptz language sql volatile security definer as 'select at from jobyard.frozen_clock';
alter table jobyard.commands alter at set default jobyard.now();
"""
_PARTITIONS: Final = b"select inhrelid::regclass::text from pg_inherits where inhparent in (%s)" % b", ".join(
    b"'jobyard.%s'::regclass" % table for table in (b"jobs", b"attempts", b"job_events")
)
_LEADERS: Final = """
select json_agg(a) from (select application_name, state, query from pg_stat_activity where usename = %s and application_name <> 'observer') a"""
_EMPTY: Final = (
    b"set session_replication_role = replica",  # history is never changed: but by who owns the database
    b"delete from jobyard.jobs",
    b"delete from jobyard.attempts",
    b"delete from jobyard.job_events",
    b"truncate jobyard.agents, jobyard.buckets, jobyard.bundles, jobyard.commands, jobyard.drains, jobyard.durations, jobyard.held_intake, jobyard.kinds,"
    b" jobyard.late_reports, jobyard.pending, jobyard.quarantine, jobyard.reopened, jobyard.running restart identity",
    b"update jobyard.leases set epoch = 0, fence = 0, lease_until = '-infinity', leader = null, offsets = '{}'",
    b"update jobyard.lanes set fair_share = false, paused = false",
    b"reset session_replication_role",
)


class FrozenDatabase:
    """A database with one lane. `admin`: its owner's session, for looking and for playing clients. `url`: of a role that is a coordinator and nothing else."""

    def __init__(self, admin_url: str) -> None:
        self.admin_url = admin_url
        self.admin: psycopg.Connection[TupleRow] = psycopg.connect(admin_url, autocommit=True)
        self._role = f"test_coordinator_{secrets.token_hex(4)}"
        password = secrets.token_hex(8)
        self.admin.execute(f"create role {self._role} login password '{password}' in role jobyard_coordinator".encode())
        parts = urlsplit(admin_url)
        self.url = urlunsplit(parts._replace(netloc=f"{self._role}:{password}@{parts.netloc.rpartition('@')[2]}"))
        self.admin.execute(f"alter database {parts.path.lstrip('/')} set search_path to jobyard, pg_catalog".encode())
        self.admin.execute(_CLOCK)
        self.admin.close()
        self.admin = psycopg.connect(admin_url, autocommit=True)
        for (partition,) in self.admin.execute(_PARTITIONS).fetchall():
            self.admin.execute(f"drop table {partition}".encode())
        for since, until in ((-9, -1), (-1, 400)):  # ids of before and after, in two partitions
            self.admin.execute("select jobyard.add_partition(to_timestamp(%s), to_timestamp(%s))", [T0 + since * DAY_S, T0 + until * DAY_S])
        self._observer = connect(self.url, application_name="observer", autocommit=True, plans="force_custom_plan")
        self.actor = str(self.value("select session_user::text"))
        self.open: psycopg.Connection[TupleRow] | None = None
        """The session of a client that is inside a transaction."""

    def close(self) -> None:
        self.roll_back()
        self._observer.close()
        self.admin.execute(f"drop owned by {self._role}".encode())
        self.admin.execute(f"drop role {self._role}".encode())
        self.admin.close()

    def empty(self) -> None:
        """As after the migration."""
        self.roll_back()
        for statement in _EMPTY:
            self.admin.execute(statement)
        self.set_clock(T0)

    def set_clock(self, now: float) -> None:
        self.admin.execute("update jobyard.frozen_clock set at = to_timestamp(%s)", [now])

    def value(self, query: str, *values: object) -> object:
        """What a statement of a client returns: one value of one row."""
        row = self.admin.execute(query.encode(), values).fetchone()
        assert row is not None
        return row[0]

    def tried(self, query: str, *values: object) -> tuple[object, str | None]:
        """The same of one that the database may refuse; or by which code it does."""
        try:
            return self.value(query, *values), None
        except psycopg.Error as error:
            return None, error.sqlstate

    def begin(self, query: str, *values: object) -> None:
        """A client opens a transaction with this statement, and leaves it open."""
        assert self.open is None
        self.open = psycopg.connect(self.admin_url)
        self.open.execute(query.encode(), values)

    def commit(self) -> None:
        """It commits."""
        assert self.open is not None
        self.open.commit()
        self.roll_back()

    def roll_back(self) -> None:
        """It goes away."""
        if self.open is not None:
            self.open.close()
            self.open = None

    def wait_for_leaders(self) -> None:
        """Until the sessions of all leaders have ended: what they sent last is committed by then, or never will be."""
        until = time.monotonic() + 5.0
        while there := self.value(_LEADERS, self._role):
            assert time.monotonic() < until, f"sessions of leaders do not end: {there}"
            time.sleep(0.001)

    def snapshot(self, epoch: int) -> Snapshot:
        """What a take-over would load now; the leader's own session notices nothing."""
        loaded = load(self._observer, 1, epoch, KindNumbers())
        assert loaded is not None
        return loaded.snapshot
