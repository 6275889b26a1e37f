"""The lane store's lease: who leads, what a deposed leader can't do, offsets."""

import threading
import time
import uuid
from collections.abc import Generator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from lane_store_builders import Database, Led, job

from jobyard.contracts.errors import NotFound, ServiceUnavailable
from jobyard.coordinator.core.questions import Questions
from jobyard.coordinator.seams import Deposed, Seen, Term
from jobyard.master_db.intake import FEW
from jobyard.master_db.lane_store import PostgresLaneStore
from jobyard.master_db.lanes import PostgresLanes

ME, OTHER = "00000000-0000-4000-8000-0000000000aa", "00000000-0000-4000-8000-0000000000bb"


def looked(database: Database, me: str) -> Seen:
    """One look of an election."""
    lanes = PostgresLanes(database.url, me)
    try:
        return lanes.look([], [])
    finally:
        lanes.close()


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def led(database: Database) -> Led:
    return Led(database)


def test_T1_a_lane_is_led_by_one_until_its_lease_is_over(database: Database) -> None:
    first, second = database.store(), database.store()
    term = first.seize()
    assert term is not None
    assert second.seize() is None
    database.expire()
    other = second.seize()
    assert other is not None
    assert other.epoch == term.epoch + 1
    now = database.value("select extract(epoch from clock_timestamp())::float8")
    assert isinstance(now, float)
    assert abs(other.now - now) < 5


def test_T1_the_same_process_takes_its_lane_again_at_once(database: Database) -> None:
    me = str(uuid.uuid4())
    first, again = database.store(leader=me).seize(), database.store(leader=me).seize()
    assert first is not None
    assert again is not None
    assert again.epoch == first.epoch + 1


def test_T1_ends_what_a_paused_leader_has_left_open_in_a_pipeline(database: Database) -> None:
    """Its server waits for the next message of the pipeline, holds its locks, and is not idle: no time-out of the server ends that."""
    leader = str(uuid.uuid4())
    assert database.store(leader=leader).seize() is not None
    lane_id = database.value("select lane_id from jobyard.lanes where lane = 'default'")

    def begin(lane: object, at: int) -> psycopg.Connection[Any]:
        session = psycopg.connect(database.url, autocommit=True, application_name=f"jobyard-coordinator {lane} {leader}")
        for text in (b"begin", f"select pg_advisory_xact_lock({at})".encode()):
            session.pgconn.enter_pipeline_mode()
            session.pgconn.send_query_params(text, None)
        session.pgconn.send_flush_request()
        session.pgconn.flush()
        return session

    def locked() -> list[object]:
        return [
            row[0]
            for row in database.rows("select objid::int from pg_locks where locktype = 'advisory' and objid in (4711, 4712) order by 1")
        ]

    sessions = [begin(lane_id, 4711), begin("99", 4712)]  # the other one leads another lane
    deadline = time.monotonic() + 10
    while locked() != [4711, 4712]:
        assert time.monotonic() < deadline
    states = database.rows(
        "select state, wait_event from pg_stat_activity where application_name = %s", f"jobyard-coordinator {lane_id} {leader}"
    )
    assert ("active", "ClientRead") in states
    database.expire()
    assert database.store().seize() is not None
    while locked() != [4712]:
        assert time.monotonic() < deadline, "the locks of the leader before stay"
    for session in sessions:
        session.close()


def test_T1_two_that_seize_at_once_do_not_both_lead(database: Database) -> None:
    database.expire()
    stores = [database.store() for _ in range(4)]
    terms: list[Term | None] = []

    def seize(store: PostgresLaneStore) -> None:
        terms.append(store.seize())

    threads = [threading.Thread(target=seize, args=[store]) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(terms) == 4
    assert sum(term is not None for term in terms) == 1


def test_T1_a_restored_backup_raises_epoch_and_fences(database: Database) -> None:
    led = Led(database)
    led.fence = 7
    led.write()
    again = database.store(leader=led.store._leader)  # pyright: ignore[reportPrivateUsage] - the same process
    same = again.seize(at_least=led.term.epoch)
    assert same is not None
    assert again.snapshot().fence == 7
    raised = again.seize(at_least=same.epoch + 100)
    assert raised is not None
    assert raised.epoch == same.epoch + 101
    assert again.snapshot().fence == 1_000_000_007


def test_T1_a_lane_that_does_not_exist_is_named(database: Database) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        database.store("nowhere").seize()


def test_L1_each_write_renews_the_lease_and_trust_starts_before_it(database: Database, led: Led) -> None:
    database.admin.execute("update jobyard.leases set lease_until = now() + interval '1 s'")
    before = time.monotonic()
    led.write()
    assert before + 3.0 <= led.term.trusted_until <= time.monotonic() + 3.0
    left = database.value("select extract(epoch from lease_until - clock_timestamp())::float8 from jobyard.leases")
    assert isinstance(left, float)
    assert 2.0 < left <= 4.0


def test_L1_each_write_reads_the_databases_clock(database: Database, led: Led) -> None:
    before = database.value("select extract(epoch from clock_timestamp())::float8")
    led.write()
    after = database.value("select extract(epoch from clock_timestamp())::float8")
    assert isinstance(before, float)
    assert isinstance(after, float)
    assert before <= led.term.now <= after
    assert led.term.asked_at <= led.term.answered_at <= time.monotonic()


@pytest.mark.parametrize(("ahead", "free"), [("14 s", False), ("1 hour", True), ("-1 s", True)])
def test_T1_a_lease_of_before_the_clock_was_set_back_keeps_nobody_out(database: Database, led: Led, ahead: str, free: bool) -> None:
    """No lease is taken for longer than 15 s: one that ends in an hour is of a clock that was an hour ahead, and whoever had it may be dead."""
    database.admin.execute("update jobyard.leases set lease_until = clock_timestamp() + %s::interval", [ahead])
    assert (looked(database, ME).lanes["default"] is None) is free
    assert (database.store(leader="other").seize() is not None) is free


@pytest.mark.parametrize("count", [0, 1, FEW + 1])
def test_L1_what_a_deposed_leader_writes_is_not_written(database: Database, led: Led, count: int) -> None:
    jobs = led.accept(count) if count else []
    database.expire()
    other = Led(database)
    with pytest.raises(Deposed):
        led.wait(jobs)
    assert database.count("pending") == 0
    assert database.value("select epoch from jobyard.leases") == other.term.epoch
    other.write()


def test_L1_what_a_deposed_leader_has_inserted_is_not_there(database: Database, led: Led) -> None:
    led.meet("k")
    before = database.count("jobs")
    assert len(led.store.ask(Questions(jobs=[job() for _ in range(FEW + 1)])).jobs) == FEW + 1
    database.expire()
    Led(database)
    with pytest.raises(ServiceUnavailable, match=r"terminat|closed"):  # its transaction was ended when the lane was taken (T1)
        led.write()
    assert database.count("jobs") == before


def test_T1_a_leader_that_was_stopped_between_its_lease_and_its_commit_keeps_nobody_out(database: Database, led: Led) -> None:
    """It holds the lease's row itself; its pipeline is not at an end, so no time-out of the server ends it."""
    name = database.value("select application_name from pg_stat_activity where application_name like 'jobyard-coordinator 1 %%'")
    database.expire()
    with closing(psycopg.connect(database.url, application_name=str(name), autocommit=True)) as session:
        raw = session.pgconn
        raw.enter_pipeline_mode()
        for statement in (b"begin", b"update jobyard.leases set fence = 77, lease_until = now() + interval '1 hour'"):
            raw.send_query_params(statement, None)
        raw.send_flush_request()  # no Sync follows: the server waits for the next message
        raw.flush()
        since = time.monotonic()
        while not database.rows("select 1 from pg_locks where relation = 'jobyard.leases'::regclass and mode = 'RowExclusiveLock'"):
            assert time.monotonic() - since < 10
        assert database.store().seize() is not None
        assert database.value("select fence from jobyard.leases") == 0
        assert database.rows("select 1 from pg_stat_activity where pid = %s", raw.backend_pid) == []


def test_L1_the_lease_row_may_have_been_moved(database: Database, led: Led) -> None:
    for _ in range(3):
        led.write()
    database.admin.execute("vacuum full jobyard.leases")
    led.fence = 5
    led.write()
    led.write()
    assert database.value("select fence from jobyard.leases") == 5


def test_L3_after_any_error_the_session_is_gone_and_the_lane_can_be_taken_anew(database: Database, led: Led) -> None:
    jobs = led.accept(1)
    pid = database.value(
        "select pid from pg_stat_activity where application_name like 'jobyard-coordinator%%' and datname = current_database()"
    )
    database.admin.execute("select pg_terminate_backend(%s)", [pid])
    with pytest.raises(ServiceUnavailable):
        led.wait(jobs)
    assert database.count("pending") == 0
    term = led.store.seize()
    assert term is not None
    assert led.store.snapshot().fence == 0


def test_L17_offsets_are_kept_with_their_topics_ids(database: Database, led: Led) -> None:
    led.offsets = {"jobyard.default.intake": ("id-1", 5), "jobyard.default.reports": ("id-2", 0)}
    led.write()
    led.offsets = {"jobyard.default.intake": ("id-3", 1)}
    led.write()
    assert led.store.snapshot().offsets == {"jobyard.default.intake": ("id-3", 1), "jobyard.default.reports": ("id-2", 0)}


def test_an_orderly_end_gives_the_lane_away_at_once(database: Database, led: Led) -> None:
    led.store.release(led.term)
    assert database.store().seize() is not None
    led.store.release(led.term)  # not ours any more: changes nothing
    assert database.store().seize() is None


def test_lanes_are_free_when_their_lease_is_over(database: Database, led: Led) -> None:
    database.add_lane("other")
    lanes = PostgresLanes(database.url)
    assert lanes.all() == ["default", "other"]
    lanes.close()
    assert [lane for lane, leader in looked(database, ME).lanes.items() if leader is None] == ["other"]
    database.expire()
    assert looked(database, ME).lanes == {"default": None, "other": None}


def test_coordinators_see_each_other_until_they_leave_or_say_nothing_for_too_long(database: Database) -> None:
    one, two = PostgresLanes(database.url, ME), PostgresLanes(database.url, OTHER)
    one.look(["default"], [])
    seen = two.look([], ["default"])
    assert [(peer.coordinator, peer.wanted, peer.unable, peer.settled) for peer in seen.peers] == [
        (ME, frozenset({"default"}), frozenset(), False),
        (OTHER, frozenset(), frozenset({"default"}), False),
    ]
    database.admin.execute("update jobyard.coordinators set started_at = started_at - interval '1 minute'")
    assert [peer.settled for peer in one.look([], []).peers] == [True, True]
    database.admin.execute("update jobyard.coordinators set seen_until = now() where coordinator = %s", [OTHER])
    assert [peer.coordinator for peer in one.look([], []).peers] == [ME]
    assert [(peer.coordinator, peer.settled) for peer in two.look([], []).peers] == [(ME, True), (OTHER, False)]  # was away: begins anew
    one.leave()
    assert [peer.coordinator for peer in two.look([], []).peers] == [OTHER]
    database.admin.execute("update jobyard.coordinators set seen_until = now() - interval '2 minutes'")
    one.look([], [])
    assert database.count("coordinators") == 1
    one.close()
    two.close()


def test_everything_here_runs_under_the_rights_of_a_coordinator(database: Database) -> None:
    with psycopg.connect(database.url) as session:
        (row,) = session.execute(
            "select rolsuper, pg_has_role('jobyard_coordinator', 'member'), pg_has_role('jobyard_owner', 'member') from pg_roles where rolname = current_user"
        ).fetchall()
    assert row == (False, True, False)


def test_history_stays_even_for_the_coordinator(database: Database, led: Led) -> None:
    led.accept(1)
    with psycopg.connect(database.url) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("delete from jobyard.jobs")


def test_T1_the_first_long_lease_of_a_leader_that_has_died_inside_its_take_over_keeps_nobody_out(database: Database) -> None:
    store, dead = database.store(leader=ME), PostgresLanes(database.url, ME)
    dead.look([], [])
    assert store.seize() is not None
    assert looked(database, OTHER).lanes["default"] == ME
    assert database.store(leader=OTHER).seize() is None
    database.admin.execute("update jobyard.coordinators set seen_until = clock_timestamp() where coordinator = %s", [ME])
    assert looked(database, OTHER).lanes["default"] is None
    assert database.store(leader=OTHER).seize() is not None
    dead.close()


def test_T1_a_leader_that_ticks_keeps_its_lane_though_its_process_has_said_nothing_for_some_time(database: Database) -> None:
    silent = PostgresLanes(database.url, ME)
    silent.look([], [])
    store = database.store(leader=ME)
    term = store.seize()
    assert term is not None
    store.write([], {}, store.snapshot().fence, term)
    database.admin.execute("update jobyard.coordinators set seen_until = clock_timestamp() where coordinator = %s", [ME])
    assert looked(database, OTHER).lanes["default"] == ME
    assert database.store(leader=OTHER).seize() is None
    silent.close()
