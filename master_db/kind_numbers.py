"""Kinds and their numbers, as one lane's store has met them. A kind is looked up once; what an `app sync` changes is read again when asked."""

from collections.abc import Collection
from typing import NamedTuple

import msgspec
import psycopg

from jobyard.contracts.job import Kind, problem_of_kind
from jobyard.contracts.retry import Retrying
from jobyard.master_db.connection import Connection
from jobyard.master_db.queries import Query, Statement


class KindRow(NamedTuple):
    """A row of `kinds`."""

    kind_id: int
    kind: str
    version: int
    priority: int
    size_arg: str | None
    size: float
    timeout_s: float | None
    max_attempts: int
    retry: str | None
    tags: str | None


ALL_KINDS = Query("all_kinds", KindRow)
SOME_KINDS = Query("some_kinds", KindRow)
MEET_KINDS = Statement("meet_kinds")
_LOCKED = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)

_MEET_TIMEOUT = b"set lock_timeout = '100ms'"


class KindNumbers:
    """Names ⇄ numbers. `fresh`: kinds met since they were last told to the core."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.kinds: dict[str, Kind] = {}
        self.fresh: dict[str, Kind] = {}

    def load(self, connection: Connection) -> None:
        """Read all of them."""
        self.take(ALL_KINDS.all(connection))

    def take(self, rows: Collection[KindRow]) -> None:
        """Remember rows that were read."""
        for row in rows:
            kind = Kind(
                priority=row.priority,
                size=row.size,
                size_arg=row.size_arg,
                max_attempts=row.max_attempts,
                version=row.version,
                timeout_s=row.timeout_s,
                retry=None if row.retry is None else msgspec.json.decode(row.retry, type=Retrying),
                tags=None if row.tags is None else msgspec.json.decode(row.tags, type=dict[str, str]),
            )
            self.ids[row.kind] = row.kind_id
            self.names[row.kind_id] = row.kind
            self.kinds[row.kind] = self.fresh[row.kind] = kind

    def meet(self, connection: Connection, names: Collection[str]) -> set[str]:
        """Look these up, and add those that are not there, in a transaction of their own. Must be called outside of one.

        Returns those that an open transaction of somebody else is just adding: they have no number yet.
        """
        unknown = {name for name in names if name not in self.ids and problem_of_kind(name) is None}
        if not unknown:
            return set()
        self.take(SOME_KINDS.all(connection, names=list(unknown), numbers=[]))
        missing = sorted(unknown - self.ids.keys())
        if missing:
            connection.execute(_MEET_TIMEOUT)
            try:
                MEET_KINDS.run(connection, names=missing)
            except _LOCKED:
                for name in missing:  # somebody else is just adding one of them
                    try:
                        MEET_KINDS.run(connection, names=[name])
                    except psycopg.errors.LockNotAvailable:
                        continue
            connection.execute(b"reset lock_timeout")
            self.take(SOME_KINDS.all(connection, names=missing, numbers=[]))
        return unknown - self.ids.keys()

    def name(self, connection: Connection, numbers: Collection[int]) -> None:
        """Look up the names of numbers that others have made."""
        unknown = [number for number in set(numbers) if number not in self.names]
        if unknown:
            self.take(SOME_KINDS.all(connection, names=[], numbers=unknown))

    def told(self) -> dict[str, Kind]:
        """Kinds met since the last call."""
        fresh, self.fresh = self.fresh, {}
        return fresh
