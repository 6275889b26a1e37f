"""How Postgres carries out the hot statements with a million waiting rows: by which index, and reading no more than it must."""

import time
from collections.abc import Generator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import RawCursor
from psycopg.conninfo import make_conninfo

from jobyard.contracts.ids import id_floor
from jobyard.master_db import connection, queries
from jobyard.master_db.connection import Connection, Timeouts

Node = dict[str, Any]

FILL = """
insert into jobyard.kinds (kind) select 'kind' || n from generate_series(1, 20) n;
insert into jobyard.jobs (id, run_at, kind_id, lane_id, priority, max_attempts, args)
  select (lpad(to_hex(ms + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid, now(), 1 + n % 20, 1, n % 5, 5, '{"path": "a.wav"}'
  from generate_series(1, 20000) n, (select ((extract(epoch from now()) - 86400) * 1000)::bigint as ms) m;
insert into jobyard.attempts (job_id, fence, placed_at, finished_at, agent_id, bucket, kind_id, outcome, final, lane_id, attempt)
  select id, row_number() over () / 100, now(), now(), 1, 1, kind_id, 'succeeded', 'succeeded', 1, 1 from jobyard.jobs;
insert into jobyard.pending (id, run_at, xid, kind_id, lane_id, priority)
  select (lpad(to_hex(ms + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid, now() + make_interval(secs => n::bigint * 7919 % 1000000 - 100000),
    '0', 1 + n % 20, 1, n % 5
  from generate_series(1, 1000000) n, (select ((extract(epoch from now()) - 86400) * 1000)::bigint as ms) m;
insert into jobyard.bundles (fence, placed_at, lo, hi, agent_id, bucket, kind_id, lane_id, priority, job_ids, attempts, used, interruptions, careful)
  select n, now(), gen_random_uuid(), gen_random_uuid(), 1, 1, 1, 1, 2, array_fill(gen_random_uuid(), array[300]), array_fill(1::smallint, array[300]),
    array_fill(0::smallint, array[300]), array_fill(0::smallint, array[300]), array_fill(false, array[300]) from generate_series(1, 2000) n"""


@pytest.fixture(scope="module")
def filled(services: Any, template_database: str) -> Generator[str]:
    """A database with 1 M waiting rows, 20,000 jobs and 2,000 bundles, for all tests of this module: none of them changes it."""
    name = f"{template_database}_plans"
    with psycopg.connect(services.database_url, autocommit=True) as admin:
        admin.execute(f"create database {name} template {template_database}".encode())
        url = make_conninfo(services.database_url, dbname=name)
        try:
            with psycopg.connect(url, autocommit=True) as session:
                indexes = session.execute(
                    "select indexname, indexdef from pg_indexes where schemaname = 'jobyard' and tablename = 'pending' and indexname <> 'pending_pkey'"
                ).fetchall()
                for index, _ in indexes:  # a million rows go in faster without them
                    session.execute(f"drop index jobyard.{index}".encode())
                for statement in FILL.split(";"):
                    session.execute(statement.encode())
                for _, definition in indexes:
                    session.execute(definition.encode())
                session.execute("analyze jobyard.jobs, jobyard.attempts, jobyard.pending, jobyard.bundles")
            yield url
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def session(filled: str) -> Generator[Connection]:
    with connection.connect(filled, application_name="test", plans="force_custom_plan", timeouts=Timeouts(statement_s=20)) as made:
        yield made
        made.rollback()


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("Plans", []):
        yield from nodes(child)


def plan(session: Connection, name: str, **values: object) -> list[Node]:
    """The nodes of a named query's plan, carried out and rolled back, with what each really read."""
    text = queries.loaded()[name]
    assert set(values) == set(text.parameters)
    cursor = RawCursor(session)
    cursor.execute(f"explain (analyze, buffers, format json) {text.sql}".encode(), [values[parameter] for parameter in text.parameters])
    row = cursor.fetchone()
    assert row is not None
    session.rollback()
    return list(nodes(row[0][0]["Plan"]))


def scans(found: list[Node]) -> set[tuple[str, str]]:
    """How what is read: (kind of scan, index or table)."""
    return {
        (node["Node Type"], node.get("Index Name") or node.get("Relation Name", ""))
        for node in found
        if "Scan" in node["Node Type"] and node["Node Type"] != "CTE Scan"
    }


def read_in_full(found: list[Node]) -> list[str]:
    """Tables that are read from end to end, but for those of a few rows."""
    return [
        node["Relation Name"]
        for node in found
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] not in ("kinds", "lanes", "leases", "agents")
    ]


def ids(session: Connection, table: str, most: int) -> list[str]:
    return [str(row[0]) for row in session.execute(f"select id from jobyard.{table} order by id limit {most}".encode()).fetchall()]


def test_read_ahead_walks_the_due_index_and_stops(session: Connection) -> None:
    found = plan(
        session, "read_due", lane_id=1, priority=2, kind_id=3, flow=0, after_at="-infinity", after_id=id_floor(0), until="now", most=100
    )
    assert scans(found) == {("Index Scan", "pending_due")}
    assert sum(node.get("Rows Removed by Filter", 0) for node in found) == 0
    assert found[0]["Shared Hit Blocks"] + found[0]["Shared Read Blocks"] < 250
    assert not any(node["Node Type"] in ("Sort", "Incremental Sort") for node in found)


def test_the_next_future_row_is_one_look_at_the_due_index(session: Connection) -> None:
    found = plan(session, "next_future", lane_id=1, priority=2, kind_id=3, flow=0, until="now")
    assert {index for _, index in scans(found)} == {"pending_due"}
    assert found[0]["Shared Hit Blocks"] + found[0]["Shared Read Blocks"] < 20


def test_L23_what_others_committed_is_found_by_its_transaction(session: Connection) -> None:
    session.execute(
        "insert into jobyard.pending (id, run_at, kind_id, lane_id, priority) select gen_random_uuid(), now(), 1, 1, 1 from generate_series(1, 50)"
    )
    row = session.execute("select pg_current_xact_id()::text").fetchone()
    assert row is not None
    text = queries.loaded()["look_fresh"]
    values: dict[str, object] = {"lane_id": 1, "since": row[0], "also": ["700", "701"]}
    cursor = RawCursor(session)
    cursor.execute(f"explain (analyze, buffers, format json) {text.sql}".encode(), [values[parameter] for parameter in text.parameters])
    explained = cursor.fetchone()
    assert explained is not None
    found = list(nodes(explained[0][0]["Plan"]))
    assert "pending_xid" in {index for _, index in scans(found)}
    assert read_in_full(found) == []
    assert found[0]["Shared Hit Blocks"] + found[0]["Shared Read Blocks"] < 100


def test_what_was_placed_leaves_by_ctid(session: Connection) -> None:
    rows = session.execute("select ctid::text, id::text from jobyard.pending order by id limit 500").fetchall()
    found = plan(session, "take_pending_at", places=[row[0] for row in rows], ids=[row[1] for row in rows])
    assert scans(found) == {("Tid Scan", "pending")}


def test_what_is_named_leaves_by_its_key(session: Connection) -> None:
    assert {index for _, index in scans(plan(session, "take_pending", ids=ids(session, "pending", 100)))} <= {"pending_pkey", "pending"}
    found = plan(session, "pending_of", ids=ids(session, "pending", 100))
    assert read_in_full(found) == []


def test_the_backlog_is_read_by_skipping(session: Connection) -> None:
    found = plan(session, "backlog", lane_id=1)
    assert {index for _, index in scans(found) if index} <= {"pending_due", "pending_flow"}
    assert found[0]["Actual Rows"] == 20  # each kind has one priority here
    assert found[0]["Shared Hit Blocks"] + found[0]["Shared Read Blocks"] < 1_000


@pytest.mark.parametrize(
    "name", ["jobs_of", "due_jobs_of", "due_args_of", "known_jobs", "attempts_of", "ended_of", "finals_of", "cancels_of"]
)
def test_history_is_read_by_id_within_its_partition(session: Connection, name: str) -> None:
    wanted = ids(session, "jobs", 300)
    found = plan(session, name, ids=wanted, low=wanted[0], high=wanted[-1])
    read = [node for node in found if node.get("Relation Name", "").startswith(("jobs_2", "attempts_2", "job_events_2"))]
    for parent in ("jobs_2", "attempts_2", "job_events_2"):
        assert len({node["Relation Name"] for node in read if node["Relation Name"].startswith(parent)}) <= 2
    assert not any(node["Node Type"] == "Seq Scan" and node["Actual Rows"] + node.get("Rows Removed by Filter", 0) > 0 for node in read)


def test_L1_the_lease_is_renewed_by_ctid(session: Connection) -> None:
    # A held snapshot has kept old versions: the table is of many pages.
    session.execute("insert into jobyard.leases (lane_id, leader) select 2 + n % 100, repeat('x', 100) from generate_series(1, 5000) n")
    session.execute("analyze jobyard.leases")
    row = session.execute("select ctid::text, epoch from jobyard.leases where lane_id = 1").fetchone()
    assert row is not None
    found = plan(session, "renew_lease", lane_id=1, at=row[0], epoch=row[1], offsets="{}", fence=1, lease_s=4.0)
    assert ("Tid Scan", "leases") in scans(found)
    assert all(node["Actual Loops"] == 0 for node in found if node["Node Type"] == "Seq Scan")


def test_closed_bundles_go_by_their_key(session: Connection) -> None:
    found = plan(session, "close_bundles", lane_id=1, fences=list(range(1, 50)))
    assert read_in_full(found) == []
    assert "bundles_pkey" in {index for _, index in scans(found)}


def test_a_job_is_found_by_id_without_reading_what_waits(session: Connection) -> None:
    (job,) = ids(session, "jobs", 1)
    found = plan(session, "job_by_id", job=job)
    assert [table for table in read_in_full(found) if table == "pending"] == []
    assert len({node["Relation Name"] for node in found if node.get("Relation Name", "").startswith("jobs_2")}) == 1


@pytest.mark.parametrize(
    "filters",
    [
        "",
        "state => 'pending'",
        "state => 'scheduled'",
        "state => 'succeeded'",
        "state => 'failed'",
        "kind => 'kind3'",
        "state => 'pending', kind => 'kind3'",
    ],
)
def test_a_page_of_jobs_comes_at_once(session: Connection, filters: str) -> None:
    session.execute(f"select count(*) from jobyard.find_jobs({filters})".encode())  # loads the catalogue
    began = time.perf_counter()
    session.execute(f"select count(*) from jobyard.find_jobs({filters})".encode())
    assert time.perf_counter() - began < 5.0  # of the shapes that are wrong, each takes over 20 s
