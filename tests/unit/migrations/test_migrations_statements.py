"""The SQL files beside the migrations."""

from pathlib import Path

import pytest

import jobyard.migrations
from jobyard import migrations
from jobyard.migrations.statements import parts

VERSIONS = Path(jobyard.migrations.__file__).parent / "versions"


def test_parts_are_found_by_their_headings() -> None:
    assert parts("-- up\nselect 1;\n-- a comment\n-- down\nselect 2;\n") == {"up": "select 1;\n-- a comment\n", "down": "select 2;\n"}


@pytest.mark.parametrize("path", sorted(VERSIONS.glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_each_migration_has_its_sql_with_both_parts_and_says_when_it_runs(path: Path) -> None:
    assert path.stem.split("_")[1] in ("pre", "post")
    found = parts(path.with_suffix(".sql").read_text(encoding="utf-8"))
    assert found.keys() == {"up", "down"}
    assert all(part.strip() for part in found.values())
    assert f'revision = "{path.stem[:4]}"' in path.read_text(encoding="utf-8")


def test_the_head_is_the_last_migration() -> None:
    assert migrations.head() == max(path.stem[:4] for path in VERSIONS.glob("[0-9]*.py"))
