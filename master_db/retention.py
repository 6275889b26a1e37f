"""The housekeeper of the history: partitions made ahead, old ones dropped as a whole, statistics kept fresh; old quarantine and agents forgotten.

Each coordinator calls it once an hour; one works at a time. Rows of unfinished jobs are kept for ever; they move aside when their partition goes.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import psycopg

from jobyard.contracts.errors import ConfigurationError
from jobyard.master_db.connection import COORDINATOR, Connection, errors
from jobyard.master_db.queries import Query, Statement

AHEAD_DAYS = 7
"""Partitions are there this long before an id needs them."""


class Got(NamedTuple):
    """A yes or no."""

    yes: bool


class Made(NamedTuple):
    """How many partitions were made."""

    partitions: int


class Moved(NamedTuple):
    """How many unfinished jobs were moved aside."""

    jobs: int


class Days(NamedTuple):
    """A number of days."""

    days: int


class Forgotten(NamedTuple):
    """How many rows of `quarantine` and of ended agents went."""

    quarantined: int
    agents: int


class Done(NamedTuple):
    """The answer of a function that gives none."""

    nothing: str


class Partition(NamedTuple):
    """A partition of the history: the ids made in [since, until). `old`: past the retention."""

    suffix: str
    since: datetime
    until: datetime
    old: bool


@dataclass
class Kept:
    """What the housekeeper has done.

    `busy`: another one works, and nothing was done; `waiting`: partitions whose lock somebody holds, to be tried again in a minute.
    """

    busy: bool = False
    made: int = 0
    dropped: list[str] = field(default_factory=list[str])
    moved_jobs: int = 0
    waiting: list[str] = field(default_factory=list[str])
    forgotten_commands: int = 0
    forgotten_quarantined: int = 0
    forgotten_agents: int = 0
    analyzed: bool = False


_KEEP = Query("keep_house", Got)
_LEAVE = Query("leave_house", Got)
_MAKE = Query("make_partitions", Made)
_PARTITIONS = Query("partitions", Partition)
_MAX_AGE = Query("id_max_age", Days)
_DROP = Query("drop_partition", Moved)
_FORGET = Statement("forget_commands")
_ASIDE = Query("forget_aside", Forgotten)
_ANALYZED = Query("analyzed_lately", Got)
_ANALYZE = Query("analyze_history", Done)


def keep(connection: Connection, *, retention_days: int | None = None, partition_days: int | None = None) -> Kept:
    """Do all that is due. None: the settings in the Master DB (90 and 3). The connection must be in autocommit: each partition goes in its own transaction.

    Raises ConfigurationError for a retention shorter than an id may be old.
    """
    kept = Kept()
    with errors(COORDINATOR), _alone(connection) as mine:
        if not mine:
            return Kept(busy=True)
        _check(connection, retention_days)
        kept.made = _MAKE.one(connection, ahead_days=AHEAD_DAYS, partition_days=partition_days).partitions
        _prune(connection, retention_days, kept)
        kept.forgotten_commands = _FORGET.run(connection, days=30)
        if not _ANALYZED.one(connection).yes:
            _ANALYZE.one(connection)
            kept.analyzed = True
    return kept


def prune(connection: Connection, *, retention_days: int | None = None) -> Kept:
    """Only drop what is past the retention: partitions, oldest first, and what lies aside."""
    kept = Kept()
    with errors(COORDINATOR), _alone(connection) as mine:
        if not mine:
            return Kept(busy=True)
        _check(connection, retention_days)
        _prune(connection, retention_days, kept)
    return kept


def partitions(connection: Connection, *, retention_days: int | None = None) -> list[Partition]:
    """The partitions of the history, oldest first: those that are `old` are what `prune` would drop."""
    with errors(COORDINATOR):
        return _PARTITIONS.all(connection, retention_days=retention_days)


@contextmanager
def _alone(connection: Connection) -> Generator[bool]:
    if not connection.autocommit:
        raise ConfigurationError("housekeeping needs a connection in autocommit")
    mine = _KEEP.one(connection).yes
    try:
        yield mine
    finally:
        if mine and not connection.closed:
            _LEAVE.one(connection)


def _check(connection: Connection, retention_days: int | None) -> None:
    oldest = _MAX_AGE.one(connection).days
    if retention_days is not None and retention_days < oldest:
        raise ConfigurationError(
            f"retention_days={retention_days} must be at least {oldest}: a duplicate of an older id could no longer be told"
        )


def _prune(connection: Connection, retention_days: int | None, kept: Kept) -> None:
    old = [found.suffix for found in _PARTITIONS.all(connection, retention_days=retention_days) if found.old]
    for place, suffix in enumerate(old):
        try:
            kept.moved_jobs += _DROP.one(connection, suffix=suffix).jobs
        except psycopg.errors.LockNotAvailable:
            kept.waiting = old[place:]  # the oldest goes first
            break
        kept.dropped.append(suffix)
    # After the partitions: only then does nothing name the agents of their time.
    kept.forgotten_quarantined, kept.forgotten_agents = _ASIDE.one(connection, retention_days=retention_days)
