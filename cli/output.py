"""What commands print: tables for people, `--json` for programs (one object, or one object a line). Errors and progress go to stderr."""

import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, cast

import msgspec
import typer

from jobyard.cli.exits import Exit
from jobyard.process.logs import masked

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: one object, or one object a line.")]

_GAP: Final = "  "
_NARROWEST: Final = 8
_PROGRESS_S: Final = 0.2


def fields(thing: object) -> dict[str, Any]:
    """A struct, dataclass, named tuple or mapping as name and value, in its order; values as they are."""
    if isinstance(thing, Mapping):
        return dict(cast("Mapping[str, Any]", thing))
    # named tuples, structs, dataclasses: each lists its fields
    for names in ("_fields", "__struct_fields__", "__dataclass_fields__"):
        listed = cast("Iterable[str] | None", getattr(thing, names, None))
        if listed is not None:
            return {name: getattr(thing, name) for name in listed}
    raise TypeError(f"a {type(thing).__name__} has no fields to print")


def json_line(thing: object) -> str:
    """A thing as one line of JSON, keys in its order; moments as RFC 3339."""
    return msgspec.json.encode(fields(thing)).decode()


def one(thing: object, as_json: bool) -> None:
    """Print one thing: a line a field, or an object."""
    if as_json:
        typer.echo(json_line(thing))
        return
    shown = fields(thing)
    width = max((len(name) for name in shown), default=0)
    for name, value in shown.items():
        text = cell(value)
        lines = text.splitlines() or [""]
        typer.echo(f"{name:<{width}}{_GAP}{lines[0]}".rstrip())
        for line in lines[1:]:
            typer.echo(" " * (width + len(_GAP)) + line)


def many(things: Iterable[object], as_json: bool, columns: Sequence[str], empty: str) -> None:
    """Print many things: a table of some columns, or an object a line. `empty`: said to people, on stderr, if there are none."""
    if as_json:
        for thing in things:
            typer.echo(json_line(thing))
        return
    rows = [[_flat(fields(thing).get(column)) for column in columns] for thing in things]
    if not rows:
        note(empty)
        return
    for line in table(columns, rows, _width()):
        typer.echo(line)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Lines of a table. `width`: of the terminal; the last column is cut to it. None: nothing is cut."""
    widths = [max(len(name), *(len(row[place]) for row in rows)) for place, name in enumerate(columns)]
    lines: list[str] = []
    for row in ([*columns], *rows):
        line = _GAP.join(f"{text:<{widths[place]}}" for place, text in enumerate(row)).rstrip()
        if width is not None and len(line) > max(width, _NARROWEST):
            line = line[: max(width, _NARROWEST) - 1] + "…"
        lines.append(line)
    return lines


def cell(value: object) -> str:
    """A value for people."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in cast("Sequence[object]", value)):
        return ", ".join(cast("Sequence[str]", value))
    if isinstance(value, dict | list | tuple):
        return msgspec.json.encode(value).decode()
    return str(value)


def _flat(value: object) -> str:
    return " ".join(cell(value).split())


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wide(columns: int) -> bool:
    """Whether a line of so many characters fits: always, where nothing is cut."""
    width = _width()
    return width is None or width >= columns


def say(text: str) -> None:
    """Print a line of the result."""
    typer.echo(text)


def note(text: str) -> None:
    """Say something that is no result."""
    typer.echo(text, err=True)


def error(text: str) -> None:
    """Say what is wrong, and what to do next; each line by itself."""
    for line in text.splitlines():
        typer.echo(f"error: {masked(line)}", err=True)


def confirm(question: str) -> None:
    """Ask on the terminal; where there is none, --yes is needed. No: the command ends with 1."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} Add --yes, since there is no terminal to ask on (--dry-run shows what is meant)")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("nothing was done")
        raise typer.Exit(Exit.REFUSED)


class Progress:
    """A count that runs on the terminal while long work is done; silent elsewhere. `what`: "lines read", for example."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = sys.stderr.isatty()
        self._next = time.monotonic() + _PROGRESS_S

    def at(self, count: int) -> None:
        """So many are done."""
        if self._shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_S
            sys.stderr.write(f"\r{count:,} {self._what} ")
            sys.stderr.flush()

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
