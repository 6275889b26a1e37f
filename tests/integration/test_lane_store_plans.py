"""The hot statements' plans on a million waiting rows and a few partitions of history: each reads what it needs by an index, and nothing else."""

import secrets
from collections.abc import Generator, Iterator
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from lane_store_builders import Database
from psycopg import RawCursor

from jobyard.contracts.ids import id_floor
from jobyard.embedded.services import Addresses
from jobyard.master_db import queries
from jobyard.master_db.connection import Connection, connect
from jobyard.master_db.rows import array

WAITING = 1_000_000
BUNDLES = 500
DUE = "2027-01-15 08:00:00+00"
Plan = dict[str, Any]


@pytest.fixture(scope="module")
def large(services: Addresses, template_database: str) -> Generator[Database]:
    """Waiting: a million future rows, 20,000 due ones of 20 kinds, and as many parked ones of one kind. 500 open bundles. 60,000 ended jobs of 12 days."""
    name = f"jobyard_plans_{secrets.token_hex(4)}"
    with psycopg.connect(services.database_url, autocommit=True) as session:
        session.execute(f"create database {name} template {template_database}".encode())
    opened = Database.open(urlunsplit(urlsplit(services.database_url)._replace(path=f"/{name}")))
    admin = opened.admin
    admin.execute("set search_path = jobyard, pg_catalog")
    admin.execute("insert into kinds (kind) select 'kind-' || n from generate_series(1, 20) n")
    waiting = (
        "insert into pending (id, run_at, xid, kind_id, lane_id, priority, why)"
        " select jobyard.uuidv7(now() - n * interval '0.5 s'), {at}, '0', {kind}, 1, 2, 'n' from generate_series(1, {count}) n"
    )
    admin.execute(waiting.format(at="now() + n * interval '1 s'", kind="1 + n % 20", count=WAITING).encode())
    admin.execute(waiting.format(at="now() - n * interval '1 ms'", kind="1 + n % 20", count=20_000).encode())
    admin.execute(waiting.format(at="now() - n * interval '1 s'", kind="7", count=20_000).encode())
    flows = waiting.replace("why)", "why, flow)").replace("'n' from", "'n', 1 + n % 255 from")
    admin.execute(flows.format(at="now() - n * interval '1 ms'", kind="3", count=100_000).encode())
    admin.execute(
        b"insert into jobs (id, run_at, kind_id, lane_id, priority, max_attempts, args)"
        b" select jobyard.uuidv7(now() - n * interval '10 s'), now(), 1 + n % 20, 1, 2, 5, '{}' from generate_series(1, 60000) n"
    )
    admin.execute(
        b"insert into attempts (job_id, fence, placed_at, finished_at, agent_id, bucket, kind_id, outcome, final, lane_id, attempt)"
        b" select id, 1, now(), now(), 1, 1, kind_id, 'succeeded', 'succeeded', 1, 1 from jobs"
    )
    admin.execute(
        (
            "insert into bundles (fence, placed_at, lo, hi, agent_id, bucket, kind_id, lane_id, priority, job_ids,"
            " attempts, used, interruptions, careful)"
            " select n / 10, now(), min(id::text)::uuid, max(id::text)::uuid, 1, 1, 1, 1, 2, array_agg(id),"
            " array_agg(1), array_agg(0), array_agg(0), array_agg(false)"
            f" from (select id, row_number() over (order by id desc) as n from jobs limit {BUNDLES * 10}) j group by n / 10"
        ).encode()
    )
    admin.execute("analyze")
    yield opened
    opened.close()
    with psycopg.connect(services.database_url, autocommit=True) as session:
        session.execute(f"drop database {name} with (force)".encode())


@pytest.fixture(scope="module")
def session(large: Database) -> Generator[Connection]:
    """As the lane's store opens it."""
    opened = connect(large.url, application_name="plans", autocommit=True, plans="force_custom_plan")
    yield opened
    opened.close()


def plan(session: Connection, name: str, **values: object) -> Plan:
    """The plan as it was run, with what it read; what it changed is rolled back."""
    text = queries.loaded()[name]
    assert values.keys() == set(text.parameters)
    cursor = RawCursor(session)
    session.execute("begin")
    try:
        cursor.execute(f"explain (analyze, buffers, format json) {text.sql}".encode(), [values[parameter] for parameter in text.parameters])
        (found,) = cursor.fetchall()
    finally:
        session.execute("rollback")
    whole = cast("list[dict[str, Plan]]", found[0])
    return whole[0]["Plan"]


def nodes(of: Plan) -> Iterator[Plan]:
    yield of
    for child in of.get("Plans", []):
        yield from nodes(child)


def scans(of: Plan) -> set[tuple[str, str]]:
    """How which table is read: those that were really run."""
    return {
        (node["Node Type"], node.get("Index Name") or node.get("Relation Name") or "")
        for node in nodes(of)
        if "Scan" in node["Node Type"] and node["Actual Loops"]
    }


def read(of: Plan) -> int:
    """Pages that were touched."""
    return int(of["Shared Hit Blocks"]) + int(of["Shared Read Blocks"])


def filtered(of: Plan) -> int:
    """Rows that were read in vain."""
    return sum(int(node.get("Rows Removed by Filter", 0)) for node in nodes(of))


def ids(large: Database, table: str, column: str, most: int, where: str = "true") -> list[str]:
    return [str(row[0]) for row in large.rows(f"select {column}::text from jobyard.{table} where {where} limit {most}")]


ZERO = "00000000-0000-0000-0000-000000000000"


def test_read_ahead_of_one_kind_reads_what_it_returns_though_another_kind_is_parked(session: Connection) -> None:
    found = plan(
        session, "read_due", lane_id=1, priority=2, kind_id=8, flow=0, after_at="1970-01-01 00:00:00+00", after_id=ZERO, until=DUE, most=501
    )
    assert scans(found) == {("Index Scan", "pending_due")}
    assert (found["Actual Rows"], filtered(found)) == (501, 0)
    assert read(found) < 600


def test_read_ahead_of_one_flow_reads_what_it_returns(session: Connection) -> None:
    found = plan(
        session,
        "read_due",
        lane_id=1,
        priority=2,
        kind_id=3,
        flow=8,
        after_at="1970-01-01 00:00:00+00",
        after_id=ZERO,
        until=DUE,
        most=301,
    )
    assert scans(found) == {("Index Scan", "pending_flow")}
    assert (found["Actual Rows"], filtered(found)) == (301, 0)
    assert read(found) < 400
    found = plan(session, "next_future", lane_id=1, priority=2, kind_id=3, flow=8, until="2026-01-01 00:00:00+00")
    assert {name for _, name in scans(found)} == {"pending_flow"}
    assert read(found) < 12


def test_what_is_due_next_is_one_row(session: Connection) -> None:
    found = plan(session, "next_future", lane_id=1, priority=2, kind_id=8, flow=0, until="2026-01-01 00:00:00+00")
    assert {name for _, name in scans(found)} == {"pending_due"}
    assert read(found) < 12


def test_L23_a_look_reads_only_what_is_new(session: Connection, large: Database) -> None:
    now = large.value("select pg_snapshot_xmax(pg_current_snapshot())::text")
    found = plan(session, "look_fresh", lane_id=1, since=now, also=[str(n) for n in range(10, 20)])
    assert ("Seq Scan", "pending") not in scans(found)
    assert ("Bitmap Index Scan", "pending_xid") in scans(found) or ("Index Scan", "pending_xid") in scans(found)
    assert read(found) < 100


def test_rows_leave_pending_by_their_place(session: Connection, large: Database) -> None:
    rows = large.rows("select ctid::text, id::text from jobyard.pending where run_at < now() limit 1000")
    found = plan(session, "take_pending_at", places=array(str(row[0]) for row in rows), ids=array(str(row[1]) for row in rows))
    assert ("Tid Scan", "pending") in scans(found)
    assert {name for kind, name in scans(found) if kind != "Tid Scan"} <= {"", "gone"}


def test_rows_leave_pending_by_id(session: Connection, large: Database) -> None:
    found = plan(session, "take_pending", ids=ids(large, "pending", "id", 1_000, "run_at < now()"))
    assert {name for _, name in scans(found) if name} <= {"pending_pkey", "gone", "pending"}
    assert ("Seq Scan", "pending") not in scans(found)


def test_the_backlog_is_skipped_through(session: Connection) -> None:
    found = plan(session, "backlog", lane_id=1)
    assert found["Actual Rows"] == 20 + 255
    assert {name for _, name in scans(found) if name} <= {"pending_due", "pending_flow", "pair", "triple"}
    assert read(found) < 3_000


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("jobs_of", "jobs"),
        ("due_jobs_of", "jobs"),
        ("due_args_of", "jobs"),
        ("known_jobs", "jobs"),
        ("attempts_of", "attempts"),
        ("ended_of", "attempts"),
        ("finals_of", "job_events"),
        ("cancels_of", "job_events"),
    ],
)
def test_history_is_read_by_id_in_one_partition_or_two(session: Connection, large: Database, name: str, table: str) -> None:
    some = ids(large, "jobs", "id", 200, "id >= jobyard.id_floor(now() - interval '1 hour')")
    found = plan(session, name, ids=some, low=min(some), high=max(some))
    touched = {node["Relation Name"] for node in nodes(found) if node.get("Relation Name")}
    assert 1 <= len(touched) <= 2
    assert all(relation.startswith(f"{table}_") for relation in touched)
    assert read(found) < 2_000


def test_the_lease_is_found_by_its_place(session: Connection, large: Database) -> None:
    with psycopg.connect(large.admin_url) as reader:  # a held snapshot keeps the versions that ticks leave
        reader.execute("begin isolation level repeatable read")
        reader.execute("select 1 from jobyard.leases")
        large.admin.execute("do $$ begin for n in 1..2000 loop update jobyard.leases set epoch = 3; end loop; end $$")
    place = large.value("select ctid::text from jobyard.leases where lane_id = 1")
    found = plan(session, "renew_lease", lane_id=1, at=place, epoch=3, offsets="{}", fence=1, lease_s=4.0)
    assert ("Tid Scan", "leases") in scans(found)
    assert ("Seq Scan", "leases") not in scans(found)  # only a row that has been moved is looked for


def test_closed_bundles_go_by_their_fences(session: Connection) -> None:
    found = plan(session, "close_bundles", lane_id=1, fences=[3, 4, 5])
    assert {name for _, name in scans(found)} <= {"bundles_pkey", "bundles"}
    assert ("Seq Scan", "bundles") not in scans(found)


def test_L21_open_commands_are_read_by_their_index(session: Connection, large: Database) -> None:
    large.admin.execute(
        b"insert into jobyard.commands (job_id, lane_id, verb, actor, answered_at)"
        b" select gen_random_uuid(), 1, 'cancel', 'me', now() from generate_series(1, 20000); "
    )
    large.admin.execute("insert into jobyard.commands (lane_id, verb, actor) values (1, 'sync', 'me')")
    large.admin.execute("analyze jobyard.commands")
    found = plan(session, "open_commands", lane_id=1)
    assert "commands" not in {name for kind, name in scans(found) if kind == "Seq Scan"}
    assert read(found) < 50


def test_T2_a_take_over_of_500_bundles_and_a_million_waiting_jobs_is_quick(large: Database) -> None:
    large.admin.execute(
        b"insert into jobyard.agents (incarnation, capacity, lost_after_s, slots, lane_id, name, kinds, versions)"
        b" values (gen_random_uuid(), 1, 15, 1, 1, 'a', '{1}', '{1}')"
    )
    large.admin.execute(
        b"update jobyard.bundles set agent_id = (select agent_id from jobyard.agents), bounds = array_fill(5::smallint, array[cardinality(job_ids)])"
    )
    large.expire()
    store = large.store()
    assert store.seize() is not None
    snapshot = store.snapshot()
    assert sum(len(bundle.jobs) for bundle in snapshot.bundles) == BUNDLES * 10
    assert all(len(bundle.ended) == len(bundle.jobs) for bundle in snapshot.bundles if bundle.fence == 1)
    assert len(snapshot.backlog) == 20 + 255


def test_ids_are_grouped_by_the_time_in_them() -> None:
    assert id_floor(1_800_000_000.0)[:5] != id_floor(1_800_000_000.0 + 4 * 86_400)[:5]


def test_S16_what_a_lane_has_learned_is_read_and_written_by_its_key(session: Connection, large: Database) -> None:
    large.admin.execute(
        b"insert into durations (lane_id, kind_id, size_class, ends, mean_s)"
        b" select 2 + n % 50, n / 500, n / 50 % 10, 1, 1.0 from generate_series(1, 50000) n on conflict do nothing"
    )
    large.admin.execute(b"analyze durations")
    found = plan(session, "durations_of_lane", lane_id=7)
    assert {name for kind, name in scans(found) if kind != "Bitmap Heap Scan"} == {"durations_pkey"}
    found = plan(session, "learn_durations", lane_id=7, kind_ids=[1, 2], classes=[0, 1], ends=[5, 6], means=[0.1, 0.2])
    assert [node["Conflict Arbiter Indexes"] for node in nodes(found) if "Conflict Arbiter Indexes" in node] == [["durations_pkey"]]
    assert read(found) < 60
