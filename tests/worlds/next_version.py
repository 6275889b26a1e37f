"""The next version of this code, as far as a deploy has to do with it: a copy with what the rules of CONTRIBUTING.md let a version add."""

import importlib.util
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jobyard
from jobyard import migrations

TESTS: Final = Path(__file__).parents[1]
_ALWAYS_SENT: Final = 'msgspec.field(default_factory=lambda: "{}")'
"""A default that is never left out of a message."""


@dataclass(frozen=True)
class Change:
    """In this file of the package, what stands behind `after` (a regular expression, found once)."""

    file: str
    after: str
    added: str


CHANGES: Final[Sequence[Change]] = (
    # further fields in every message between leader and agents: at the end of those that are arrays, anywhere in the others
    Change(
        "contracts/job.py", r"class Job\(.*?\n    traceparent: str \| None = None\n", f"    shade: str = {_ALWAYS_SENT.format('blue')}\n"
    ),
    Change("contracts/bundle.py", r"    open: list\[_Count\] \| None = None\n", f"    sent_by: str = {_ALWAYS_SENT.format('next')}\n"),
    Change("contracts/control.py", r"class _Control\(.*?\n    incarnation: str\n", f"    sent_by: str = {_ALWAYS_SENT.format('next')}\n"),
    Change("contracts/control.py", r"class Bucket\(.*?\n    start_offset: _Count\n", f"    rack: str = {_ALWAYS_SENT.format('r1')}\n"),
    Change("contracts/reports.py", r"class Hello\(.*?\n    host: _Word = \"\"\n", f"    build: str = {_ALWAYS_SENT.format('next')}\n"),
    Change(
        "contracts/reports.py", r"class Heartbeat\(.*?\n    suspended: bool = False\n", f"    mood: str = {_ALWAYS_SENT.format('good')}\n"
    ),
    Change("contracts/reports.py", r"class Started\(.*?\n    at: _Instant\n", f"    cpu: str = {_ALWAYS_SENT.format('0')}\n"),
    Change("contracts/reports.py", r"class Finished\(.*?\n    busy_s: [^\n]*\n", f"    cpu: str = {_ALWAYS_SENT.format('0')}\n"),
    Change("contracts/reports.py", r"class End\(.*?\n    delay_s: [^\n]*\n", f"    cpu: str = {_ALWAYS_SENT.format('0')}\n"),
    Change("contracts/reports.py", r"class Released\(.*?\n    reason: _Text = \"\"\n", f"    cpu: str = {_ALWAYS_SENT.format('0')}\n"),
    Change("contracts/reports.py", r"class Reports\(.*?\n    seq: _Fence\n", f"    build: str = {_ALWAYS_SENT.format('next')}\n"),
    # a report of a type that there was not, in the batch of each heartbeat
    Change(
        "contracts/reports.py",
        r"\n\nclass Goodbye\(.*?\"\"\"\n",
        '\n\nclass Mood(msgspec.Struct, tag_field="type", tag="mood", kw_only=True):\n    how: str\n',
    ),
    Change("contracts/reports.py", r"Report: TypeAlias = Hello", " | Mood"),
    Change("agent/core/agent.py", r"from jobyard\.contracts\.reports import End", ", Mood"),
    Change(
        "agent/core/agent.py",
        r"            actions\.append\(Say\(life\.id, self\._pulse\.heartbeat\([^\n]*\n",
        '            actions.append(Say(life.id, Mood(how="good")))\n',
    ),
    # and it uses what its migration adds
    Change(
        "master_db/sql/agents.sql",
        r"\(incarnation, started_at, heard_at, capacity, lost_after_s, slots, lane_id, name, host, kinds, versions",
        ", build",
    ),
    Change("master_db/sql/agents.sql", r"\$host, \$kinds::int\[\], \$versions::smallint\[\]", ", 'next'"),
    Change("__init__.py", r'\A""".*?"""\n', '\nNEXT = "this is the next version"\n'),
)
_UP: Final = """\
-- up
alter table agents add column build text not null default 'old';
alter table jobs add column shade text;
alter table bundles add column rack text not null default '';
alter table attempts add column cpu_s float8;
alter table pending add column shade text not null default '';
alter table running add column shade text not null default '';
alter table leases add column build text;
create table next_things (thing text primary key, at timestamptz not null default now());
create or replace view late_outcomes as
{view}, o.attempt_shade
from (select *, 'none'::text as attempt_shade from late_reports) o {rest}

-- down
drop table next_things;
"""
_REVISION: Final = '''\
"""What the next version needs."""

from jobyard.migrations.statements import run

revision = "{revision}"
down_revision: str | None = "{before}"


def upgrade() -> None:
    run(__file__, "up")


def downgrade() -> None:
    run(__file__, "down")
'''


def make(folder: Path) -> Path:
    """Makes it there; the folder to put first in PYTHONPATH, which holds its handlers, too: `tiny` is of version 2 there."""
    (source,) = (Path(path) for path in jobyard.__path__)
    package = folder / "jobyard"
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))  # what is linked is copied
    for change in CHANGES:
        _apply(package / change.file, change.after, change.added)
    before = migrations.head()
    name = f"{int(before) + 1:04}_pre_next"
    (package / "migrations" / "versions" / f"{name}.py").write_text(_REVISION.format(revision=name[:4], before=before))
    (package / "migrations" / "versions" / f"{name}.sql").write_text(_sql(package))
    shutil.copytree(TESTS / "promises", folder / "promises", ignore=shutil.ignore_patterns("__pycache__"))
    handlers = folder / "promises" / "mixed_jobs.py"
    text = handlers.read_text()
    assert text.count("@app.job\nasync def tiny(") == 1
    handlers.write_text(text.replace("@app.job\nasync def tiny(", "@app.job(version=2)\nasync def tiny("))
    assert importlib.util.find_spec("jobyard") is not None
    return folder


def _apply(file: Path, after: str, added: str) -> None:
    text = file.read_text()
    found = re.findall(f"(?s){after}", text)
    assert len(found) == 1, f"{file.name} has {len(found)} times {after}: tests/worlds/next_version.py must follow"
    file.write_text(text.replace(found[0], found[0] + added))


def _sql(package: Path) -> str:
    """With one of the views as it is, and a column more."""
    views = (package / "migrations" / "versions" / "0004_pre_views.sql").read_text()
    found = re.search(r"create view late_outcomes as\n(.*?)\nfrom late_reports o (.*?;)\n", views, re.DOTALL)
    assert found is not None
    return _UP.format(view=found[1], rest=found[2])
