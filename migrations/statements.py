"""The SQL of a migration, from the file beside it."""

from pathlib import Path
from typing import Literal

from alembic import op


def parts(script: str) -> dict[str, str]:
    """The parts of an SQL file, by their headings `-- up` and `-- down`."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in script.splitlines(keepends=True):
        if line.strip() in ("-- up", "-- down"):
            lines = found.setdefault(line.strip()[3:], [])
        else:
            lines.append(line)
    return {name: "".join(body) for name, body in found.items()}


def run(migration: str, direction: Literal["up", "down"]) -> None:
    """Run one part of the SQL file that has the migration's name, as it stands: no parameter, no escape."""
    script = Path(migration).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(parts(script)[direction], execution_options={"no_parameters": True})
