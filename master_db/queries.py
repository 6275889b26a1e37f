"""Named queries: `sql/*.sql` holds them, this module loads and types them.

A file holds queries under headings, each with its parameters and the name of its row:

    -- name: load_due(lane, priority, most) -> DueRow
    select id, run_at from jobyard.pending where lane_id = $lane and priority = $priority order by run_at, id limit $most;

`$lane` is a parameter; a percent sign is only itself. Without `-> Row` it is a statement, which answers with the number of its rows. Who uses a query
declares the row beside it, as a NamedTuple, dataclass or msgspec Struct whose fields are the columns in order, and registers both:

    LOAD_DUE = Query("load_due", DueRow)
    rows = LOAD_DUE.all(connection, lane=1, priority=2, most=100)       # list[DueRow]

A test prepares every query of every file on the migrated schema and compares parameters, names and types.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Generic, TypeVar, cast

from psycopg import RawCursor
from psycopg.rows import BaseRowFactory, args_row, tuple_row

from jobyard.master_db.connection import Connection

Row = TypeVar("Row")

_HEADING = re.compile(r"-- name: (?P<name>[a-z_]+)\((?P<parameters>[a-z_, ]*)\)(?: -> (?P<row>[A-Za-z]+))?\s*")
_PARAMETER = re.compile(r"\$([a-z_]+)")


@dataclass(frozen=True)
class Text:
    """A query as its file has it. `sql` has its parameters numbered, in the order of `parameters`; `row` is the row's name, None for a statement."""

    name: str
    parameters: tuple[str, ...]
    row: str | None
    sql: str


def texts(script: str) -> list[Text]:
    """The queries of one file. Raises ValueError for a heading or a parameter that is wrong."""
    found: list[Text] = []
    heading: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*script.splitlines(), "-- name: end()"]:
        if line.startswith("-- name:"):
            if heading:
                found.append(_text(heading, "\n".join(lines)))
            heading = _HEADING.fullmatch(line)
            if heading is None:
                raise ValueError(f"not a heading of a query: {line}")
            lines = []
        elif heading and not line.lstrip().startswith("--"):
            lines.append(line)
    return found


def _text(heading: re.Match[str], sql: str) -> Text:
    parameters = tuple(name.strip() for name in heading["parameters"].split(",") if name.strip())
    used = set(_PARAMETER.findall(sql))
    if used != set(parameters) or len(set(parameters)) != len(parameters):
        raise ValueError(f"query {heading['name']}: the heading has {', '.join(parameters)}, the text {', '.join(sorted(used))}")
    numbered = _PARAMETER.sub(lambda match: f"${parameters.index(match[1]) + 1}", sql)
    return Text(heading["name"], parameters, heading["row"], numbered.strip().removesuffix(";"))


@cache
def loaded() -> dict[str, Text]:
    """All queries of the package, by name. Raises ValueError for a name that is there twice."""
    found: dict[str, Text] = {}
    for file in sorted(files("jobyard.master_db").joinpath("sql").iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        for text in texts(file.read_text(encoding="utf-8")):
            if text.name in found:
                raise ValueError(f"query {text.name} is there twice")
            found[text.name] = text
    return found


registered: dict[str, type[object] | None] = {}
"""The row of each query that a module has taken up; None for a statement."""


def _take(name: str, row: type[object] | None) -> Text:
    text = loaded().get(name)
    if text is None:
        raise LookupError(f"no query {name} in sql/*.sql")
    if text.row != (row.__name__ if row else None):
        raise TypeError(f"query {name} gives {text.row or 'no rows'}, not {row.__name__ if row else 'no rows'}")
    if name in registered:
        raise ValueError(f"query {name} is taken up twice")
    registered[name] = row
    return text


def _values(text: Text, given: dict[str, object]) -> tuple[object, ...]:
    if given.keys() != set(text.parameters):
        raise TypeError(f"query {text.name} takes {', '.join(text.parameters)}, not {', '.join(given)}")
    return tuple(given[name] for name in text.parameters)


def _factory_of(row: type[Row]) -> BaseRowFactory[Row]:
    """How a row is made of its values. A NamedTuple takes them as they are: its own constructor costs more than all else that is done for a row."""
    plain: type[tuple[object, ...]] = tuple
    if not issubclass(cast("type[object]", row), plain):
        return args_row(row)
    make = partial(cast("Callable[[type[Row], Sequence[object]], Row]", plain.__new__), row)
    return lambda _: make


class Query(Generic[Row]):
    """A query that answers with rows."""

    def __init__(self, name: str, row: type[Row]) -> None:
        self.text = _take(name, row)
        self._sql = self.text.sql.encode()
        self._factory = _factory_of(row)

    def cursor(self, connection: Connection, **values: object) -> RawCursor[Row]:
        """Sent, not yet read: in a pipeline the rows are fetched from the cursor later."""
        cursor = RawCursor(connection, row_factory=self._factory)
        cursor.execute(self._sql, _values(self.text, values))
        return cursor

    def all(self, connection: Connection, **values: object) -> list[Row]:
        """All rows."""
        return self.cursor(connection, **values).fetchall()

    def first(self, connection: Connection, **values: object) -> Row | None:
        """The first row; None if there is none."""
        return self.cursor(connection, **values).fetchone()

    def one(self, connection: Connection, **values: object) -> Row:
        """The one row of a query that always has it."""
        row = self.first(connection, **values)
        if row is None:
            raise LookupError(f"query {self.text.name} gave no row")
        return row


class Statement:
    """A statement that answers only with the number of rows that it changed."""

    def __init__(self, name: str) -> None:
        self.text = _take(name, None)

    def run(self, connection: Connection, **values: object) -> int:
        """Run it. Inside a pipeline the number is not known yet: -1."""
        cursor = RawCursor(connection, row_factory=tuple_row)
        cursor.execute(self.text.sql.encode(), _values(self.text, values))
        return cursor.rowcount
