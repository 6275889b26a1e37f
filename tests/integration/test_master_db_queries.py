"""Every named query prepared on the migrated schema: parameters, names and types of its columns."""

import dataclasses
import pkgutil
import types
import typing
from datetime import datetime
from importlib import import_module

import msgspec
import pytest
from psycopg.pq import ExecStatus

import jobyard.master_db
from jobyard.master_db import connection, queries

for module in pkgutil.iter_modules(jobyard.master_db.__path__, "jobyard.master_db."):
    import_module(module.name)

# What a session gives for the types of columns; enums, and whatever else has no loader, come as text.
NUMBER, TEXT = {20, 21, 23}, {25, 18, 19, 27, 1042, 1043, 2950}
DICT: object = dict
LOADED: dict[object, set[int]] = {
    int: NUMBER,
    float: {700, 701},
    bool: {16},
    str: TEXT,
    bytes: {17},
    datetime: {1184},
    object: {114, 3802},
    DICT: {114, 3802},
    list[int]: {1005, 1007, 1016},
    list[str]: {1009, 2951},
    list[bool]: {1000},
    list[float]: {1021, 1022},
}


def is_text(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, str)


def plain(annotation: object) -> object:
    """The type in `X | None`, in a NewType, a Literal; dict whatever it holds."""
    while isinstance(annotation, typing.NewType):
        annotation = annotation.__supertype__
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        (inner,) = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
        return plain(inner)
    if origin is typing.Literal:
        return str if all(isinstance(argument, str) for argument in typing.get_args(annotation)) else int
    if origin is dict:
        return DICT
    if origin is list:
        return {int: list[int], str: list[str], bool: list[bool], float: list[float]}[
            typing.cast("type", plain(typing.get_args(annotation)[0]))
        ]
    return str if is_text(annotation) else annotation


def fields(row: type[object]) -> list[tuple[str, object]]:
    """Names and types of a row's fields, in order."""
    hints = typing.get_type_hints(row)
    if issubclass(row, msgspec.Struct):
        names = row.__struct_fields__
    elif dataclasses.is_dataclass(row):
        names = tuple(field.name for field in dataclasses.fields(row))
    else:
        names = tuple(typing.cast("tuple[str, ...]", getattr(row, "_fields")))  # noqa: B009 - a NamedTuple
    return [(name, plain(hints[name])) for name in names]


def test_every_query_can_be_prepared_and_gives_what_its_row_says(database_url: str) -> None:
    wrong: list[str] = []
    with connection.connect(database_url, application_name="test", autocommit=True) as session:
        enums = {row[0] for row in session.execute("select oid::int from pg_type where typtype = 'e'").fetchall()}
        for name, text in queries.loaded().items():
            prepared = session.pgconn.prepare(b"", text.sql.encode())
            if prepared.status != ExecStatus.COMMAND_OK:
                wrong.append(f"{name}: {prepared.error_message.decode().strip()}")
                continue
            described = session.pgconn.describe_prepared(b"")
            if described.nparams != len(text.parameters):
                wrong.append(f"{name}: {described.nparams} parameters, the heading has {len(text.parameters)}")
            columns = [((described.fname(n) or b"").decode(), described.ftype(n)) for n in range(described.nfields)]
            if name not in queries.registered:
                continue  # prepared only; that all are taken up is a unit test
            row = queries.registered[name]
            expected = fields(row) if row else []
            if row is None and all(oid == 2278 for _, oid in columns):  # void, or nothing
                continue
            if [column for column, _ in columns] != [field for field, _ in expected]:
                wrong.append(f"{name}: columns {[column for column, _ in columns]}, the row has {[field for field, _ in expected]}")
                continue
            for (column, oid), (_, kind) in zip(columns, expected, strict=True):
                if oid not in LOADED[kind] and not (kind is str and oid in enums):
                    wrong.append(f"{name}: column {column} has type {oid}, the row {kind}")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(
    ("annotation", "expected"), [(str | None, str), (list[int], list[int]), (dict[str, str] | None, dict), (typing.NewType("N", int), int)]
)
def test_annotations_are_understood(annotation: object, expected: object) -> None:
    assert plain(annotation) == expected
