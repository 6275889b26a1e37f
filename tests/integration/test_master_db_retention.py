"""The housekeeper: partitions ahead, old ones dropped with unfinished jobs kept, one at a time, never in the way of ticks."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from jobyard.contracts.errors import ConfigurationError, Refused, ServiceUnavailable
from jobyard.contracts.ids import id_floor
from jobyard.master_db import connection, retention
from jobyard.master_db.connection import Connection, Timeouts

NOW = datetime.now(UTC)


@pytest.fixture
def session(database_url: str) -> Generator[Connection]:
    with connection.connect(database_url, application_name="test", autocommit=True) as made:
        yield made


def old_partitions(session: Connection, days: int = 120) -> None:
    """As if Jobyard had been installed so many days ago."""
    session.execute("select jobyard.make_partitions(now() - make_interval(days => %s), now())", [days])


def old_job(session: Connection, days: float, *, waits: bool) -> str:
    """A job submitted so many days ago, with an attempt, an event and a late report; ended or waiting for next year."""
    floor = id_floor((NOW - timedelta(days=days)).timestamp())
    job = f"{floor[:14]}7{floor[15:19]}8{floor[20:]}"
    session.execute(
        "insert into jobyard.jobs (id, run_at, kind_id, lane_id, priority, max_attempts, args) values (%s::uuid, now(), 1, 1, 2, 5, '{}')",
        [job],
    )
    session.execute(
        "insert into jobyard.attempts (job_id, fence, placed_at, finished_at, agent_id, bucket, kind_id, outcome, final, lane_id, attempt) "
        "values (%s::uuid, 1, now(), now() - interval '10 days', 1, 1, 1, 'failed', %s::text::jobyard.job_state, 1, 1)",
        [job, None if waits else "failed"],
    )
    session.execute("insert into jobyard.job_events (job_id, kind_id, lane_id, event) values (%s::uuid, 1, 1, 'noted')", [job])
    session.execute(
        "insert into jobyard.late_reports (job_id, fence, agent_id, outcome, closed_job) values (%s::uuid, 1, 1, 'failed', false)", [job]
    )
    if waits:
        session.execute(
            "insert into jobyard.pending (id, run_at, kind_id, lane_id, priority) values (%s::uuid, now() + interval '1 year', 1, 1, 2)",
            [job],
        )
    return job


def left(session: Connection) -> dict[str, list[str]]:
    return {
        table: [row[0] for row in session.execute(f"select {column} from jobyard.{table} order by 1".encode())]
        for table, column in (("jobs", "id"), ("attempts", "job_id"), ("job_events", "job_id"), ("late_reports", "job_id"))
    }


def test_the_first_upgrade_makes_what_ids_may_need(session: Connection) -> None:
    found = retention.partitions(session)
    assert found[0].since <= NOW - timedelta(days=7)
    assert found[-1].until >= NOW + timedelta(days=7)
    assert [later.since for later in found[1:]] == [earlier.until for earlier in found[:-1]]
    assert {(part.until - part.since).days for part in found} == {3}
    assert retention.keep(session).made == 0


def test_partitions_are_made_ahead_and_gaps_are_filled(session: Connection) -> None:
    before = retention.partitions(session)
    assert (
        session.execute("select jobyard.make_partitions(now() - interval '40 days', now() - interval '35 days', 1)").fetchone() is not None
    )
    assert session.execute("select jobyard.make_partitions(now() - interval '60 days', now() + interval '20 days')").fetchone() is not None
    found = retention.partitions(session)
    assert [later.since for later in found[1:]] == [earlier.until for earlier in found[:-1]]
    assert set(before) < {part._replace(old=False) for part in found}
    assert found[0].since <= NOW - timedelta(days=60)
    assert found[-1].until > NOW + timedelta(days=20)
    assert {(part.until - part.since).days for part in found} <= {1, 2, 3}


def test_partitions_of_another_length_fit_beside_the_older_ones(session: Connection) -> None:
    session.execute("update jobyard.settings set value = '10' where name = 'partition_days'")
    session.execute("select jobyard.make_partitions(now(), now() + interval '30 days')")
    found = retention.partitions(session)
    assert [later.since for later in found[1:]] == [earlier.until for earlier in found[:-1]]
    assert (found[-1].until - found[-1].since).days == 10


def test_what_is_past_the_retention_goes_and_unfinished_jobs_are_kept(session: Connection) -> None:
    old_partitions(session)
    gone, waiting, older, young = (
        old_job(session, 100, waits=False),
        old_job(session, 101, waits=True),
        old_job(session, 115, waits=True),
        old_job(session, 50, waits=False),
    )
    kept = retention.keep(session)
    assert kept.dropped == sorted(kept.dropped)
    assert len(kept.dropped) >= 9
    assert (kept.moved_jobs, kept.waiting, kept.busy) == (2, [], False)
    assert gone not in left(session)["jobs"]
    for rows in left(session).values():
        assert rows == [older, waiting, young]
    assert session.execute("select tableoid::regclass::text from jobyard.jobs where id = %s::uuid", [waiting]).fetchone() == (
        "jobyard.jobs_kept",
    )
    assert not any(part.old for part in retention.partitions(session))
    assert retention.keep(session).dropped == []


def test_kept_rows_are_history_too_and_stay_through_later_drops(session: Connection) -> None:
    old_partitions(session)
    job = old_job(session, 101, waits=True)
    retention.prune(session)
    retention.prune(session, retention_days=40)
    retention.prune(session, retention_days=7)
    for rows in left(session).values():
        assert rows == [job]
    with pytest.raises(Refused, match="history"), connection.errors():
        session.execute("delete from jobyard.jobs_kept")
    session.execute("select jobyard.make_partitions(now() - interval '20 days', now() + interval '7 days')")
    assert retention.partitions(session)[0].until > NOW - timedelta(days=8)


def test_a_job_in_a_bundle_is_kept_until_its_attempt_is_there(session: Connection) -> None:
    old_partitions(session)
    placed, done = old_job(session, 101, waits=False), old_job(session, 102, waits=False)
    session.execute(
        "insert into jobyard.bundles (fence, placed_at, lo, hi, agent_id, bucket, kind_id, lane_id, priority, job_ids, attempts, used, interruptions, careful) "
        "values (1, now(), %s::uuid, %s::uuid, 1, 1, 1, 1, 2, %s::uuid[], '{1}', '{0}', '{0}', '{f}'), "
        "(2, now(), %s::uuid, %s::uuid, 1, 1, 1, 1, 2, %s::uuid[], '{2}', '{0}', '{0}', '{f}')",
        [done, done, [done], placed, placed, [placed]],
    )
    assert retention.prune(session).moved_jobs == 1
    assert left(session)["jobs"] == [placed]


def test_nothing_younger_than_an_id_may_be_is_dropped(session: Connection) -> None:
    for days in (0, 6):
        with pytest.raises(ConfigurationError, match=f"retention_days={days}"):
            retention.keep(session, retention_days=days)
    suffix = retention.partitions(session)[0].suffix
    with pytest.raises(Refused, match="younger than id_max_age"), connection.errors():
        session.execute("select jobyard.drop_partition(%s)", [suffix])
    with pytest.raises(Refused, match="not the oldest"), connection.errors():
        session.execute("select jobyard.drop_partition(%s)", [retention.partitions(session)[1].suffix])


def test_a_reader_delays_a_drop_but_is_not_waited_for(session: Connection, database_url: str) -> None:
    old_partitions(session)
    old_job(session, 100, waits=False)
    with psycopg.connect(database_url) as reader:
        reader.execute("select count(*) from jobyard.jobs")
        kept = retention.prune(session)
        assert kept.dropped == []
        assert len(kept.waiting) >= 9
    assert retention.prune(session).dropped == kept.waiting


def test_one_housekeeper_at_a_time(session: Connection, database_url: str) -> None:
    with connection.connect(database_url, application_name="test", autocommit=True) as other:
        other.execute("select pg_advisory_lock(1247, -3)")
        assert retention.keep(session).busy
        other.execute("select pg_advisory_unlock(1247, -3)")
        assert not retention.keep(session).busy
    assert session.execute(
        "select count(*) from pg_locks l join pg_database d on d.oid = l.database where locktype = 'advisory' and datname = current_database()"
    ).fetchone() == (0,)


def test_statistics_of_the_parents_are_made_daily(session: Connection) -> None:
    assert retention.keep(session).analyzed
    assert session.execute(
        "select count(*) from pg_class where relname in ('jobs', 'attempts', 'job_events') and reltuples >= 0"
    ).fetchone() == (3,)
    session.execute("select pg_stat_force_next_flush()")
    assert not retention.keep(session).analyzed


def test_old_answered_commands_are_forgotten(session: Connection) -> None:
    session.execute(
        "insert into jobyard.commands (verb, actor, answered_at) values ('sync', 'me', now() - interval '31 days'), ('sync', 'me', now()), ('sync', 'me', null)"
    )
    assert retention.keep(session).forgotten_commands == 1
    assert session.execute("select count(*) from jobyard.commands").fetchone() == (2,)


def test_keeping_house_needs_autocommit(database_url: str) -> None:
    with connection.connect(database_url, application_name="test") as session, pytest.raises(ConfigurationError, match="autocommit"):
        retention.keep(session)


def test_L1_sessions_end_when_they_hang(database_url: str) -> None:
    timeouts = Timeouts(idle_in_transaction_s=1.0, statement_s=0.2, lock_s=0.1)
    with connection.connect(database_url, application_name="test", timeouts=timeouts, plans="force_custom_plan") as hung:
        shown = hung.execute(
            "select current_setting('jit'), current_setting('plan_cache_mode'), current_setting('application_name'), current_setting('statement_timeout')"
        ).fetchone()
        assert shown == ("off", "force_custom_plan", "test", "200ms")
        with pytest.raises(psycopg.errors.QueryCanceled):
            hung.execute("select pg_sleep(10)")
        hung.rollback()
        hung.execute("lock table jobyard.leases")
        with connection.connect(database_url, application_name="other", autocommit=True, timeouts=Timeouts(lock_s=10)) as other:
            other.execute("update jobyard.leases set epoch = epoch + 1")  # goes on when the server has ended the one that holds the lock
        with pytest.raises(ServiceUnavailable), connection.errors():
            hung.execute("select 1")


def test_old_rows_of_quarantine_go(session: Connection) -> None:
    for days in (1, 89, 91, 400):
        session.execute(
            "insert into jobyard.quarantine (at, reason) values (now() - make_interval(days => %s), %s::text)", [days, str(days)]
        )
    assert retention.keep(session).forgotten_quarantined == 2
    assert retention.prune(session, retention_days=7).forgotten_quarantined == 1
    assert [row[0] for row in session.execute("select reason from jobyard.quarantine")] == ["1"]


def test_agents_that_ended_go_once_nothing_names_them(session: Connection) -> None:
    def agent(name: str, ended_days: int | None) -> int:
        row = session.execute(
            "insert into jobyard.agents (incarnation, name, capacity, slots, lane_id, lost_after_s, kinds, versions, ended_at) "
            "values (gen_random_uuid(), %s, 1, 1, 1, 15, '{}', '{}', now() - make_interval(days => %s)) returning agent_id",
            [name, ended_days],
        ).fetchone()
        assert row is not None
        return int(row[0])

    def attempt_of(job: str, agent_id: int) -> None:
        session.execute(
            "insert into jobyard.attempts (job_id, fence, placed_at, finished_at, agent_id, bucket, kind_id, outcome, lane_id, attempt) "
            "values (%s::uuid, 2, now(), now(), %s, 1, 1, 'failed', 1, 2)",
            [job, agent_id],
        )

    def names() -> list[str]:
        return [row[0] for row in session.execute("select name from jobyard.agents order by name")]

    old_partitions(session)
    agent("current", None)
    agent("ended lately", 20)
    agent("ended long ago", 119)
    attempt_of(old_job(session, 118, waits=True), agent("ran an unfinished job", 117))
    attempt_of(old_job(session, 116, waits=False), agent("ran one that has ended", 115))
    session.execute(
        "insert into jobyard.running (job_id, fence, started_at, agent_id, kind_id, lane_id, attempt) values (gen_random_uuid(), 1, now(), %s, 1, 1, 1)",
        [agent("still runs", 119)],
    )
    assert retention.keep(session).forgotten_agents == 2
    assert names() == ["current", "ended lately", "ran an unfinished job", "still runs"]


def test_nothing_is_forgotten_that_an_id_could_still_come_for(session: Connection) -> None:
    with pytest.raises(psycopg.Error, match="at least id_max_age_days"):
        session.execute("select jobyard.forget_aside(6)")
