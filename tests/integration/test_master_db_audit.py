"""The public views by the rows that a leader writes: a job in each state, its history, its timeline, lists, counts."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from jobyard.contracts.errors import ConfigurationError, InvalidJob
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.states import State
from jobyard.master_db import audit, connection
from jobyard.master_db.audit import Filter
from jobyard.master_db.connection import Connection


@pytest.fixture
def session(database_url: str) -> Generator[Connection]:
    with connection.connect(database_url, application_name="test", autocommit=True) as made:
        made.execute("insert into jobyard.kinds (kind) values ('k'), ('rare')")
        made.execute(
            "insert into jobyard.agents (incarnation, capacity, lost_after_s, slots, lane_id, name, host, kinds, versions) "
            "values (gen_random_uuid(), 100, 15, 10, 1, 'one', 'h', '{1}', '{1}')"
        )
        yield made


def submitted(session: Connection, extra: str = "") -> str:
    row = session.execute(f"select jobyard.submit('k'{extra})::text".encode()).fetchone()
    assert row is not None
    return str(row[0])


def placed(session: Connection, *jobs: str, fence: int = 1, attempt: int = 1) -> None:
    session.execute("delete from jobyard.pending where id = any (%s::uuid[])", [list(jobs)])
    n = len(jobs)
    session.execute(
        "insert into jobyard.bundles (fence, placed_at, lo, hi, agent_id, bucket, kind_id, lane_id, priority, job_ids, attempts, used, "
        "interruptions, careful, reason) "
        'values (%s, clock_timestamp(), %s::uuid, %s::uuid, 1, 3, 1, 1, 2, %s::uuid[], %s, %s, %s, %s, \'{"why": "least load"}\')',
        [fence, min(jobs), max(jobs), sorted(jobs), [attempt] * n, [attempt - 1] * n, [0] * n, [False] * n],
    )


def running(session: Connection, job: str, fence: int = 1) -> None:
    session.execute(
        "insert into jobyard.running (job_id, fence, started_at, done, total, agent_id, kind_id, lane_id, attempt, message) "
        "values (%s::uuid, %s, clock_timestamp(), 3, 10, 1, 1, 1, 1, 'decoding')",
        [job, fence],
    )


def ended(
    session: Connection,
    job: str,
    outcome: str,
    final: str | None,
    attempt: int = 1,
    fence: int = 1,
    error: str | None = None,
    kind: int = 1,
) -> None:
    session.execute(
        "insert into jobyard.attempts (job_id, fence, placed_at, started_at, finished_at, agent_id, bucket, kind_id, outcome, final, lane_id, attempt, used, "
        "error_type, error_message, result) "
        "values (%s::uuid, %s, clock_timestamp(), clock_timestamp(), clock_timestamp(), 1, 3, %s, %s::text::jobyard.outcome, %s::text::jobyard.job_state, 1, "
        "%s, %s, %s, %s, '{\"words\": 5}')",
        [job, fence, kind, outcome, final, attempt, attempt, error, f"no {error} 100%_" if error else None],
    )


def waits(session: Connection, job: str, why: str, run_at: str) -> None:
    session.execute(
        "insert into jobyard.pending (id, run_at, kind_id, lane_id, priority, attempt, used, why) values (%s::uuid, %s::timestamptz, 1, 1, 2, 1, 1, %s)",
        [job, run_at, why],
    )


def each_state(session: Connection) -> dict[State, str]:
    """A job in each state that this version knows."""
    jobs: dict[State, str] = {state: submitted(session) for state in State if state is not State.SCHEDULED}
    jobs[State.SCHEDULED] = submitted(session, ", run_at => now() + interval '1 day'")
    session.execute("delete from jobyard.pending where id <> all (%s::uuid[])", [[jobs[State.PENDING], jobs[State.SCHEDULED]]])
    ended(session, jobs[State.RETRYING], "failed", None, error="ValueError")
    waits(session, jobs[State.RETRYING], "r", "2199-01-01")
    waits(session, jobs[State.BLOCKED], "b", "infinity")
    gone = submitted(session)
    placed(session, jobs[State.PLACED], jobs[State.RUNNING], gone)
    running(session, jobs[State.RUNNING])
    ended(session, gone, "succeeded", "succeeded")
    ended(session, jobs[State.SUCCEEDED], "succeeded", "succeeded")
    ended(session, jobs[State.FAILED], "failed", "failed", error="KeyError")
    for state in (State.CANCELLED, State.EXPIRED, State.REFUSED):
        session.execute(
            "insert into jobyard.job_events (job_id, kind_id, lane_id, event, final, actor, detail) "
            "values (%s::uuid, 1, 1, %s, %s::text::jobyard.job_state, 'me', '{\"error_type\": \"Why\"}')",
            [jobs[state], state.value, state.value],
        )
    return jobs


def test_each_state_is_told_by_id_and_by_list(session: Connection) -> None:
    jobs = each_state(session)
    for state, job in jobs.items():
        found = audit.job_status(session, job)
        assert found is not None
        assert (found.job_id, found.state) == (job, state.value)
        if state is not State.SUCCEEDED:
            assert [row.job_id for row in audit.find_jobs(session, Filter(state=state))] == [job]
    assert audit.job_status(session, new_job_id()) is None
    everything = audit.find_jobs(session, Filter())
    assert len(everything) == len(jobs) + 1
    assert [row.job_id for row in everything] == sorted((row.job_id for row in everything), reverse=True)


def test_a_job_tells_what_it_is_and_how_far_it_is(session: Connection) -> None:
    jobs = each_state(session)
    run, done, failed = (audit.job_status(session, jobs[state]) for state in (State.RUNNING, State.SUCCEEDED, State.FAILED))
    assert run is not None
    assert done is not None
    assert failed is not None
    assert (run.agent, run.progress_done, run.progress_total, run.progress_message) == ("one", 3.0, 10.0, "decoding")
    assert (done.kind, done.lane, done.priority, done.size, done.args, done.attempts, done.max_attempts, done.submitted_via) == (
        "k",
        "default",
        "medium",
        1.0,
        {},
        1,
        5,
        "sql",
    )
    assert (done.result, done.error_type, failed.error_type, failed.error_message) == ({"words": 5}, None, "KeyError", "no KeyError 100%_")
    assert done.finished_at is not None
    assert done.finished_at.utcoffset() == timedelta(0)


def test_a_retry_by_hand_voids_the_older_end(session: Connection) -> None:
    job = submitted(session)
    session.execute("delete from jobyard.pending")
    ended(session, job, "failed", "failed", error="KeyError")
    session.execute("insert into jobyard.reopened (job_id, at, max_attempts) values (%s::uuid, clock_timestamp(), 10)", [job])
    waits(session, job, "h", "2000-01-01")
    assert [(row.state, row.max_attempts) for row in audit.find_jobs(session, Filter())] == [("pending", 10)]
    session.execute("delete from jobyard.pending")
    ended(session, job, "succeeded", "succeeded", attempt=2, fence=2)
    assert [(row.state, row.attempts) for row in audit.find_jobs(session, Filter())] == [("succeeded", 2)]
    assert [(row.attempt, row.is_final) for row in audit.attempt_history(session, job)] == [(1, True), (2, True)]


def test_lists_filter_by_everything(session: Connection) -> None:
    session.execute("insert into jobyard.submitters values (session_user, 'shop')")
    a = submitted(session, ', submitter => \'shop\', tags => \'{"customer": "7", "x": "y"}\'')
    b = submitted(session)
    ended(session, b, "failed", "failed", error="KeyError")
    session.execute("delete from jobyard.pending where id = %s::uuid", [b])
    now = datetime.now(UTC)

    def found(wanted: Filter) -> list[str]:
        return [row.job_id for row in audit.find_jobs(session, wanted)]

    assert found(Filter(submitter="shop")) == found(Filter(tags={"customer": "7"})) == found(Filter(state=State.PENDING)) == [a]
    assert found(Filter(state=State.PENDING, submitter="shop", tags={"x": "y"}, kind="k", lane="default")) == [a]
    assert (
        found(Filter(error_type="KeyError"))
        == found(Filter(error="keyerror 100%_"))
        == found(Filter(state=State.FAILED, kind="k", lane="default"))
        == [b]
    )
    for none in (
        Filter(kind="unknown"),
        Filter(kind="rare"),
        Filter(lane="unknown"),
        Filter(submitter="x' or true --"),
        Filter(error="100%%"),
        Filter(tags={"customer": "8"}),
        Filter(state=State.FAILED, submitter="shop"),
        Filter(state=State.PENDING, error_type="KeyError"),
        Filter(until=now - timedelta(days=1)),
        Filter(since=now + timedelta(hours=1)),
        Filter(since=datetime(9999, 1, 1, tzinfo=UTC)),
        Filter(until=datetime(1, 1, 2, tzinfo=UTC)),
    ):
        assert found(none) == [], none
    assert found(Filter(since=now - timedelta(days=1), until=now + timedelta(days=1))) == [b, a]
    assert found(Filter(since=datetime(1, 1, 2, tzinfo=UTC), until=datetime(9999, 1, 1, tzinfo=UTC))) == [b, a]


def test_lists_go_by_pages(session: Connection) -> None:
    jobs = sorted((submitted(session) for _ in range(7)), reverse=True)
    seen: list[str] = []
    while page := audit.find_jobs(session, Filter(), before=seen[-1] if seen else None, most=3):
        seen += [row.job_id for row in page]
    assert seen == jobs
    for most in (0, -1, 10_001):
        with pytest.raises(InvalidJob, match="lim"):
            audit.find_jobs(session, Filter(), most=most)
    with pytest.raises(ConfigurationError, match="since"):
        audit.find_jobs(session, Filter(since=datetime(2026, 1, 1)))  # noqa: DTZ001 - naive on purpose


def test_a_timeline_tells_all_in_order(session: Connection) -> None:
    job = submitted(session)
    placed(session, job)
    assert [(row.event, row.attempt, row.agent) for row in audit.job_timeline(session, job)] == [
        ("submitted", None, None),
        ("placed", 1, "one"),
    ]
    running(session, job)
    session.execute(
        "insert into jobyard.job_events (job_id, at, kind_id, lane_id, attempt, event, actor) "
        "values (%s::uuid, clock_timestamp(), 1, 1, 1, 'cancel_asked', 'me')",
        [job],
    )
    session.execute("delete from jobyard.running")
    ended(session, job, "lost", "cancelled")
    session.execute(
        "insert into jobyard.late_reports (job_id, fence, at, agent_id, outcome, closed_job) values (%s::uuid, 1, clock_timestamp(), 1, 'succeeded', false)",
        [job],
    )
    timeline = audit.job_timeline(session, job)
    assert [row.event for row in timeline] == ["submitted", "cancel_asked", "placed", "started", "lost", "late_succeeded"]
    assert timeline[2].detail is None
    assert timeline[1].actor == "me"
    assert [(row.outcome, row.closed_job, row.kind) for row in audit.late_outcomes(session, job)] == [("succeeded", False, "k")]


def test_lanes_and_agents_are_summed_up(session: Connection) -> None:
    each_state(session)
    (lane,) = audit.lane_summary(session)
    assert (lane.pending, lane.scheduled, lane.retrying, lane.blocked, lane.placed, lane.running) == (1, 1, 1, 1, 1, 1)
    assert (lane.finished_last_minute, lane.failed_last_minute) == (3, 1)
    assert lane.oldest_pending_s is not None
    assert 0 <= lane.oldest_pending_s < 60
    (agent,) = audit.agent_load(session)
    assert (agent.size_running, agent.size_placed, agent.running, agent.placed, agent.kinds) == (1.0, 1.0, 1, 1, ["k"])


def test_errors_are_counted_by_kind_and_type(session: Connection) -> None:
    jobs = [submitted(session) for _ in range(4)]
    ended(session, jobs[0], "failed", None, error="ValueError")
    ended(session, jobs[0], "failed", "failed", attempt=2, fence=2, error="ValueError")
    ended(session, jobs[1], "failed", "failed", error="KeyError")
    ended(session, jobs[2], "lost", None, kind=2)
    ended(session, jobs[3], "succeeded", "succeeded")
    assert [(row.kind, row.error_type, row.attempts, row.jobs) for row in audit.error_counts(session)] == [
        ("k", "ValueError", 2, 1),
        ("k", "KeyError", 1, 1),
        ("rare", "lost", 1, 0),
    ]
    assert [row.kind for row in audit.error_counts(session, kind="rare", lane="default")] == ["rare"]
    assert audit.error_counts(session, since=datetime.now(UTC) + timedelta(minutes=30)) == []


def test_jobs_that_will_not_move_are_told_with_the_reason(session: Connection) -> None:
    job = submitted(session)
    session.execute("update jobyard.pending set run_at = now() - interval '5 min'")
    assert [(row.job_id, row.reason) for row in audit.stuck_jobs(session)] == [(job, "no coordinator leads the lane")]
    session.execute("update jobyard.leases set lease_until = now() + interval '1 min'")
    assert audit.stuck_jobs(session) == []
    session.execute("update jobyard.agents set kinds = '{2}'")
    assert [(row.job_id, row.state, row.reason) for row in audit.stuck_jobs(session)] == [
        (job, "pending", "no agent of the lane has the kind")
    ]


def test_a_waiting_job_shows_the_priority_by_which_it_waits_and_a_held_one_its_kind(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute("select jobyard.submit('noop', priority => 'low')").fetchone()
        assert row is not None
        connection.execute("update jobyard.pending set priority = 0 where id = %s", row)
        assert connection.execute("select priority from jobyard.job_status where job_id = %s", row).fetchone() == ("critical",)
        connection.execute(
            "insert into jobyard.held_intake (id, lane_id, since, job) values (jobyard.uuidv7(), 1, now() - interval '1 hour', %s)",
            ('{"job": {"kind": "noop"}}',),
        )
        assert connection.execute("select kind from jobyard.stuck_jobs where state is null").fetchone() == ("noop",)
