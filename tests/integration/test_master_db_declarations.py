"""app sync: what the code declares becomes the defaults of kinds, and leaders are told."""

from collections.abc import Generator

import pytest

from jobyard.contracts.declaration import Declaration
from jobyard.contracts.errors import ConfigurationError, NotFound
from jobyard.contracts.retry import Retrying
from jobyard.master_db import connection, declarations, operations
from jobyard.master_db.connection import Connection
from jobyard.master_db.declarations import Synced


@pytest.fixture
def session(database_url: str) -> Generator[Connection]:
    with connection.connect(database_url, application_name="test", autocommit=True) as made:
        yield made


FULL = Declaration(
    kind="full",
    version=3,
    lane="gpu",
    priority=0,
    size_arg="film.minutes",
    size=2,
    timeout_s=60,
    max_attempts=1,
    retry=Retrying(base_s=1),
    tags={"a": "b"},
)


def told(session: Connection) -> list[tuple[object, ...]]:
    return session.execute("select lane, verb from jobyard.commands join jobyard.lanes using (lane_id) order by command_id").fetchall()


def test_kinds_are_added_changed_left_and_dropped(session: Connection) -> None:
    operations.add_lane(session, "gpu")
    assert declarations.sync(session, [FULL, Declaration(kind="plain")]) == Synced(("full", "plain"), (), (), ())
    assert told(session) == [("default", "sync"), ("gpu", "sync")]
    assert session.execute(
        "select declared, version, lane, priority, size_arg, size, timeout_s, max_attempts, retry, k.tags "
        "from jobyard.kinds k left join jobyard.lanes using (lane_id) order by kind"
    ).fetchall() == [
        (
            True,
            3,
            "gpu",
            0,
            "film.minutes",
            2.0,
            60.0,
            1,
            {"backoff": "exponential", "base_s": 1.0, "cap_s": 3600.0, "jitter": 0.1},
            {"a": "b"},
        ),
        (True, 1, None, 2, None, 1.0, None, 5, None, None),
    ]
    assert declarations.sync(session, [Declaration(kind="plain"), FULL]) == Synced((), (), (), ("full", "plain"))
    assert len(told(session)) == 2
    assert declarations.sync(session, [Declaration(kind="plain", size=2)]) == Synced((), ("plain",), ("full",), ())
    assert session.execute("select kind, declared, size from jobyard.kinds order by kind").fetchall() == [
        ("full", False, 2.0),
        ("plain", True, 2.0),
    ]
    assert declarations.sync(session, [FULL, Declaration(kind="plain", size=2)]) == Synced((), ("full",), (), ("plain",))


def test_a_kind_that_a_job_has_named_becomes_declared(session: Connection) -> None:
    session.execute("select jobyard.submit('plain')")
    assert declarations.sync(session, []) == Synced((), (), (), ())
    assert declarations.sync(session, [Declaration(kind="plain")]) == Synced((), ("plain",), (), ())


def test_a_dry_run_only_tells(session: Connection) -> None:
    assert declarations.sync(session, [Declaration(kind="plain")], dry_run=True) == Synced(("plain",), (), (), ())
    assert session.execute("select count(*) from jobyard.kinds").fetchone() == (0,)
    assert told(session) == []


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ([Declaration(kind="a b")], "kind"),
        ([Declaration(kind="k"), Declaration(kind="k")], "twice"),
        ([Declaration(kind="k", size=0)], "size"),
        ([Declaration(kind="k", priority=5)], "priority"),
        ([Declaration(kind="k", version=0)], "version"),
        ([Declaration(kind="k", max_attempts=0)], "max_attempts"),
        ([Declaration(kind="k", timeout_s=-1)], "timeout_s"),
        ([Declaration(kind="k", retry=Retrying(jitter=2))], "jitter"),
        ([Declaration(kind="k", tags={"": "x"})], "tag"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name_and_nothing_is_written(
    session: Connection, declared: list[Declaration], named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        declarations.sync(session, [Declaration(kind="good"), *declared])
    assert session.execute("select count(*) from jobyard.kinds").fetchone() == (0,)


def test_a_lane_that_is_not_there_is_named(session: Connection) -> None:
    with pytest.raises(NotFound, match=r"'full'.*'gpu'.*lane add gpu"):
        declarations.sync(session, [FULL])
