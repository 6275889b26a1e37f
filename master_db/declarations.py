"""What the code declares, written to the Master DB by "jobyard app sync": kinds with their defaults. Leaders are told to read them anew."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from psycopg.types.json import Jsonb

from jobyard.contracts import priority
from jobyard.contracts.declaration import Declaration
from jobyard.contracts.errors import ConfigurationError, NotFound
from jobyard.contracts.job import NewJob, problem_of
from jobyard.contracts.rules import RULES
from jobyard.master_db import operations
from jobyard.master_db.connection import OPERATOR, Connection, errors
from jobyard.master_db.queries import Query, Statement


class LaneId(NamedTuple):
    """A lane's number."""

    lane: str
    lane_id: int


class KindRow(NamedTuple):
    """A kind as the Master DB has it."""

    kind: str
    declared: bool
    version: int
    lane_id: int | None
    priority: int
    size_arg: str | None
    size: float
    timeout_s: float | None
    max_attempts: int
    retry: dict[str, object] | None
    tags: dict[str, str] | None


@dataclass(frozen=True)
class Synced:
    """Which kinds a sync has added, changed, dropped (no code declares them now; their jobs and defaults stay) and left as they were."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    dropped: tuple[str, ...]
    unchanged: tuple[str, ...]


_LANES = Query("lanes_by_name", LaneId)
_KINDS = Query("kinds_now", KindRow)
_DECLARE = Statement("declare_kind")
_UNDECLARE = Statement("undeclare_kinds")


def sync(connection: Connection, declarations: Iterable[Declaration], *, dry_run: bool = False) -> Synced:
    """Make the declared kinds those of the code, in one transaction. `dry_run`: only tell what would be done.

    Raises ConfigurationError for a declaration that is wrong or there twice, NotFound for a lane that is not there.
    """
    wanted = _checked(declarations)
    with errors(OPERATOR), connection.transaction():
        lanes = dict(_LANES.all(connection))
        rows = [_row(declared, lanes) for declared in wanted]
        there = {row.kind: row for row in _KINDS.all(connection)}
        added = [row for row in rows if row.kind not in there]
        changed = [row for row in rows if row.kind in there and row != there[row.kind]]
        dropped = sorted(row.kind for row in there.values() if row.declared and row.kind not in {row.kind for row in rows})
        if not dry_run and (added or changed or dropped):
            for row in added + changed:
                _DECLARE.run(
                    connection,
                    **{name: value for name, value in row._asdict().items() if name not in ("declared", "retry", "tags")},
                    retry=None if row.retry is None else Jsonb(row.retry),
                    tags=None if row.tags is None else Jsonb(row.tags),
                )
            _UNDECLARE.run(connection, kinds=dropped)
            for lane in lanes:
                operations.operate(connection, lane, "sync")
    done = {row.kind for row in added + changed}
    return Synced(
        added=tuple(row.kind for row in added),
        changed=tuple(row.kind for row in changed),
        dropped=tuple(dropped),
        unchanged=tuple(row.kind for row in rows if row.kind not in done),
    )


def _checked(declarations: Iterable[Declaration]) -> list[Declaration]:
    wanted: dict[str, Declaration] = {}
    for declared in declarations:
        if declared.kind in wanted:
            raise ConfigurationError(f"kind {declared.kind!r} is declared twice")
        if not 0 <= declared.priority < len(priority.NAMES):
            raise ConfigurationError(
                f"kind {declared.kind!r}: priority {declared.priority} must lie between 0 and {len(priority.NAMES) - 1}"
            )
        problem = problem_of(
            NewJob(
                kind=declared.kind,
                version=declared.version,
                priority=priority.NAMES[declared.priority],
                size=declared.size,
                timeout_s=declared.timeout_s,
                max_attempts=declared.max_attempts,
                retry=declared.retry,
                tags=declared.tags,
            ),
            RULES,
        )
        if problem:
            raise ConfigurationError(f"kind {declared.kind!r}: {problem.message}")
        wanted[declared.kind] = declared
    return sorted(wanted.values(), key=lambda declared: declared.kind)


def _row(declared: Declaration, lanes: dict[str, int]) -> KindRow:
    if declared.lane is not None and declared.lane not in lanes:
        raise NotFound(
            f'kind {declared.kind!r} names the lane {declared.lane!r}, which is not there; add it with "jobyard lane add {declared.lane}"'
        )
    return KindRow(
        kind=declared.kind,
        declared=True,
        version=declared.version,
        lane_id=None if declared.lane is None else lanes[declared.lane],
        priority=declared.priority,
        size_arg=declared.size_arg,
        size=declared.size,
        timeout_s=declared.timeout_s,
        max_attempts=declared.max_attempts,
        retry=None if declared.retry is None else msgspec.structs.asdict(declared.retry),
        tags=declared.tags,
    )
