"""One lane's store on a real Postgres, by a role that is a coordinator and nothing else: the lease, the tick, the take-over."""

import threading
import time
import uuid
from collections.abc import Generator

import msgspec
import psycopg
import pytest
from lane_store_builders import NOW, Database, Led, bundle, closed, end, ended, job, new_agent

from jobyard.contracts.control import Bucket
from jobyard.contracts.errors import NotFound, ServiceUnavailable
from jobyard.contracts.job import NewJob, Problem, RefusedJob
from jobyard.contracts.reports import Error
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.events import Placed
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.coordinator.core.questions import DueQuestion, Questions, Unresolved
from jobyard.coordinator.seams import DataRefused, Deposed, PendingMoved, Term
from jobyard.master_db.intake import FEW
from jobyard.master_db.lane_store import PostgresLaneStore
from jobyard.master_db.lanes import PostgresLanes
from jobyard.master_db.notices import PostgresNotices

FIRST = (0.0, "")


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def led(database: Database) -> Led:
    return Led(database)


# ---------------------------------------------------------------- the lease


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
    with pytest.raises(Deposed):
        led.write()
    assert database.count("jobs") == before


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


# ---------------------------------------------------------------- intake


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 300])
def test_L2_what_is_new_is_told_from_what_was_there(database: Database, led: Led, count: int) -> None:
    old = led.accept(count)
    new = [job() for _ in range(count)]
    answers = led.store.ask(Questions(jobs=[*old, *new, *new]))
    led.write()
    assert answers.jobs == new
    assert answers.duplicates == 2 * count
    assert answers.held == 0
    stored = {row[0] for row in database.rows("select id::text from jobyard.jobs")}
    assert {one.id for one in [*old, *new]} <= stored


def test_L2_the_first_content_of_an_id_counts(database: Database, led: Led) -> None:
    (old,) = led.accept(1)
    again = job(id=old.id, args=msgspec.Raw(b'{"n": 2}'))
    led.store.ask(Questions(jobs=[again]))
    led.write()
    assert database.value("select args::text from jobyard.jobs where id = %s", old.id) == '{"n": 1}'


@pytest.mark.parametrize("count", [3, FEW * 3])
@pytest.mark.parametrize("commits", [True, False])
def test_L2_a_locked_id_is_held_and_tried_again(database: Database, led: Led, count: int, commits: bool) -> None:
    led.meet("k")
    jobs = [job() for _ in range(count)]
    locked = jobs[1]
    with database.client() as client:
        client.execute("select jobyard.submit('k', id => %s)", [locked.id])
        answers = led.store.ask(Questions(jobs=jobs))
        led.write()
        assert [one.id for one in answers.jobs] == [one.id for one in jobs if one is not locked]
        assert (answers.held, answers.held_left, answers.duplicates) == (1, True, 0)
        still = led.store.ask(Questions(held_again=True))
        led.write()
        assert (still.jobs, still.held_left) == ([], True)
        if not commits:
            client.rollback()
    answers = led.store.ask(Questions(held_again=True))
    led.write()
    assert answers.jobs == ([] if commits else [locked])
    assert answers.held_left is False
    assert database.count("held_intake") == 0


def test_L2_many_locked_ids_cost_a_bounded_time(database: Database, led: Led) -> None:
    led.meet("k")
    jobs = [job() for _ in range(1_500)]
    locked = {one.id for one in jobs[::2]}
    with database.client() as client:
        many = msgspec.json.encode([{"kind": "k", "id": job_id} for job_id in sorted(locked)]).decode()
        client.execute("select jobyard.submit_many(%s)", [many])
        started = time.monotonic()
        answers = led.store.ask(Questions(jobs=jobs))
        led.write()
        assert time.monotonic() - started < 3.0
        assert not locked & {one.id for one in answers.jobs}
        assert answers.held + len(answers.jobs) == len(jobs)
        assert answers.held >= len(locked)
    in_time = time.monotonic() + 20
    went: set[str] = {one.id for one in answers.jobs}
    while answers.held_left:
        assert time.monotonic() < in_time
        answers = led.store.ask(Questions(held_again=True))
        led.write()
        went |= {one.id for one in answers.jobs}
    assert went == {one.id for one in jobs} - locked
    assert database.count("jobs") == len(jobs) + 1


def test_L2_a_job_of_a_kind_that_somebody_is_just_adding_is_held(database: Database, led: Led) -> None:
    new = NewJob(kind="fresh", id=job().id)
    with database.client() as client:
        client.execute("select jobyard.submit('fresh')")
        answers = led.store.ask(_unresolved(new))
        led.write()
        assert (answers.jobs, answers.held, answers.held_left) == ([], 1, True)
    answers = led.store.ask(Questions(held_again=True))
    led.write()
    assert [one.id for one in answers.jobs] == [new.id]
    assert "fresh" in answers.kinds


def _unresolved(*new: NewJob) -> Questions:
    return Questions(unresolved=[Unresolved(one, NOW, "key") for one in new])


def test_a_kind_is_looked_up_once_and_its_defaults_decide(database: Database, led: Led) -> None:
    database.admin.execute(
        "insert into jobyard.kinds (kind, priority, size_arg, max_attempts, timeout_s, retry, tags)"
        " values ('video', 1, 'minutes', 3, 60, '{\"base_s\": 5}', '{\"t\": \"v\"}')"
    )
    good = NewJob(kind="video", id=job().id, args=msgspec.Raw(b'{"minutes": 12.5}'))
    bad = NewJob(kind="video", id=job().id, args=msgspec.Raw(b'{"minutes": "x"}'), submitter="me")
    answers = led.store.ask(_unresolved(good, bad))
    (made,) = answers.jobs
    assert (made.priority, made.size, made.max_attempts, made.timeout_s, made.tags) == (1, 12.5, 3, 60.0, {"t": "v"})
    assert made.retry is not None
    assert made.retry.base_s == 5
    assert answers.kinds.keys() == {"video"}
    assert [(one.id, one.problem.field) for one in answers.problems] == [(bad.id, "size")]
    assert answers.refused == {bad.id}
    led.write(e.Refused(answers.problems[0], NOW))
    assert led.store.ask(_unresolved(good)).kinds == {}
    led.write()
    (row,) = database.rows("select state::text, error_type, submitter from jobyard.job_status where job_id = %s", bad.id)
    assert row == ("refused", "JY002", "me")


def test_a_kind_that_nobody_declared_is_added(database: Database, led: Led) -> None:
    led.meet("new-kind")
    assert database.rows("select declared from jobyard.kinds where kind = 'new-kind'") == [(False,)]


def test_a_refused_job_takes_its_id_once(database: Database, led: Led) -> None:
    refused = RefusedJob(id=job().id, kind="k", problem=Problem("JY002", "size", "size -1", "hint"))
    first = led.store.ask(Questions(refused=[refused]))
    led.write(e.Refused(refused, NOW))
    second = led.store.ask(Questions(refused=[refused]))
    led.write()
    assert (first.refused, second.refused) == ({refused.id}, set())
    assert database.rows("select args::text from jobyard.jobs where id = %s", refused.id) == [("{}",)]


@pytest.mark.parametrize("count", [1, FEW + 1])
def test_L18_a_value_that_the_database_refuses_is_told_apart_from_a_lost_connection(database: Database, led: Led, count: int) -> None:
    led.meet("k")
    before = database.count("jobs")
    bad = [job(priority=99_999) for _ in range(count)]
    with pytest.raises(DataRefused):
        led.store.ask(Questions(jobs=bad))
    assert database.count("jobs") == before
    with pytest.raises(RuntimeError):
        led.write()


@pytest.mark.parametrize("text", ["\ud800", "a\x00b"])
def test_L18_a_text_that_cannot_be_encoded_is_refused_data(led: Led, text: str) -> None:
    led.meet("k")
    with pytest.raises(DataRefused):
        led.store.ask(Questions(jobs=[job(submitter=text)]))


# ---------------------------------------------------------------- new rows of others


def test_L23_a_row_that_commits_late_is_found_exactly_once(database: Database, led: Led) -> None:
    database.admin.execute("select jobyard.submit('k')")
    found = led.ask().fresh
    assert [(one.priority, one.kind) for one in found] == [(2, "k")]
    slow = database.client()
    slow.execute("select jobyard.submit('k', priority => 'high')")
    assert led.ask().fresh == []
    for _ in range(5):  # transactions that begin later commit before it
        database.admin.execute("select jobyard.submit('k', priority => 'low')")
        assert [one.priority for one in led.ask().fresh] == [3]
        assert led.ask().fresh == []
    slow.commit()
    assert [one.priority for one in led.ask().fresh] == [1]
    assert led.ask().fresh == []


def test_L23_a_row_that_is_rolled_back_is_never_found(database: Database, led: Led) -> None:
    with database.client() as client:
        client.execute("select jobyard.submit('k')")
        led.ask()
        client.rollback()
        assert led.ask().fresh == []


def test_L23_the_leaders_own_rows_are_never_new_to_it(led: Led) -> None:
    led.wait(led.accept(FEW + 1))
    led.wait(led.accept(1))
    assert led.ask().fresh == []
    assert led.ask().fresh == []


def test_L23_what_commits_between_take_over_and_first_look_is_found(database: Database) -> None:
    slow = database.client()
    slow.execute("select jobyard.submit('early')")
    led = Led(database)
    slow.commit()
    assert [one.kind for one in led.ask().fresh] == ["early"]


def test_L23_rows_of_another_lane_are_not_ours(database: Database, led: Led) -> None:
    database.add_lane("other")
    database.admin.execute("select jobyard.submit('k', lane => 'other')")
    assert led.ask().fresh == []


# ---------------------------------------------------------------- asleep and awake


def test_L25_submit_notifies_only_a_leader_that_sleeps(database: Database, led: Led) -> None:
    notices = PostgresNotices(database.url, "default")
    assert notices.wait(0.0)  # the session is new
    led.store.wake()
    database.admin.execute("select jobyard.submit('k')")
    assert not notices.wait(0.2)
    led.store.sleep()
    database.admin.execute("select jobyard.submit('k')")
    assert notices.wait(10)
    led.store.wake()
    database.admin.execute("select jobyard.submit('k')")
    assert not notices.wait(0.2)
    notices.close()


def test_L25_a_notice_for_another_lane_wakes_nobody_here(database: Database, led: Led) -> None:
    other = database.add_lane("other")
    notices = PostgresNotices(database.url, "default")
    notices.wait(0.0)
    database.admin.execute("select pg_notify('jobyard', %s)", [str(other)])
    assert not notices.wait(0.2)
    notices.close()


def test_L25_a_sleeper_is_settled_when_all_that_were_open_have_ended(database: Database, led: Led) -> None:
    led.meet("k")
    led.store.wake()
    assert led.ask().settled
    slow = database.client()
    slow.execute("select jobyard.submit('k')")  # saw the lock: tells nobody
    led.store.sleep()
    assert not led.ask().settled
    database.admin.execute("select jobyard.submit('k')")
    assert not led.ask().settled
    slow.commit()
    answers = led.ask()
    assert answers.settled
    assert [one.kind for one in answers.fresh] == ["k"]


def test_L25_while_a_predecessor_holds_the_lock_looks_try_again(database: Database, led: Led) -> None:
    lane_id = database.value("select lane_id from jobyard.lanes")
    paused = psycopg.connect(database.admin_url, autocommit=True)
    paused.execute("select pg_advisory_lock(1247, %s)", [lane_id])
    led.store.wake()
    led.ask()
    assert database.value("select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 1247") == 1
    paused.close()
    until = time.monotonic() + 10
    while True:
        led.ask()
        held = database.value(
            "select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 1247 and objid = %s", lane_id
        )
        if held == 1 and database.value("select not pg_try_advisory_lock_shared(1247, %s)", lane_id):
            break
        database.admin.execute("select pg_advisory_unlock_all()")
        assert time.monotonic() < until


# ---------------------------------------------------------------- what is written


@pytest.mark.parametrize("count", [1, FEW + 5])
def test_L8_every_end_is_a_row_of_attempts(database: Database, led: Led, count: int) -> None:
    agent = led.agent()
    placed = led.place(led.accept(count), agent)
    ends = [end(one, Outcome.FAILED, error=Error("E", "a\tb\\", "tb\n")) for one in placed.jobs]
    led.write(
        e.Ended(placed, ends, None, [1] * count, [None] * count, []), closed(placed), e.Waits([Waiting(one, 1, 1) for one in placed.jobs])
    )
    found = database.rows(
        "select distinct attempt, fence, agent_id, bucket, outcome::text, final, used, error_type, error_message, error_traceback,"
        " extract(epoch from started_at)::float8, extract(epoch from finished_at)::float8, extract(epoch from placed_at)::float8, reason"
        " from jobyard.attempts"
    )
    times = (1_800_000_002.0, 1_800_000_003.5, 1_800_000_001.25)
    assert found == [(1, placed.fence, agent, 3, "failed", None, 1, "E", "a\tb\\", "tb\n", *times, {"rule": "least loaded"})]
    assert database.count("attempts") == count
    assert database.count("bundles") == 0
    assert database.count("pending") == count


@pytest.mark.parametrize("outcome", list(Outcome))
def test_L8_whatever_the_outcome(database: Database, led: Led, outcome: Outcome) -> None:
    placed = led.place(led.accept(1), led.agent())
    led.write(ended(placed, outcome, None))
    assert database.rows("select outcome::text from jobyard.attempts") == [(outcome.value,)]


def test_L7_started_and_progress_are_rows_until_the_end(database: Database, led: Led) -> None:
    placed = led.place(led.accept(2), led.agent())
    led.write(e.Started(placed, 0, NOW, NOW + 60), e.Progressed(placed, 1, NOW, 0.5, None, "half"))
    led.write(e.Progressed(placed, 0, NOW + 1, 1, 4, "one"), e.Progressed(placed, 0, NOW + 2, 2, 4, "two"))
    found = database.rows(
        "select job_id::text, fence, done, total, message, deadline is null from jobyard.running order by deadline nulls last"
    )
    first, second = placed.jobs
    assert found == [(first.id, placed.fence, 2, 4, "two", False), (second.id, placed.fence, 0.5, None, "half", True)]
    led.write(e.Ended(placed, [end(first)], None, [0], [State.SUCCEEDED], [first.id]))
    assert database.rows("select job_id::text from jobyard.running") == [(second.id,)]


@pytest.mark.parametrize("count", [1, FEW + 1])
def test_what_leaves_pending_must_be_there(database: Database, led: Led, count: int) -> None:
    led.wait(led.accept(count))
    due = led.store.ask(Questions(due=[DueQuestion(2, "k", FIRST, NOW + 10, 100)])).due[0].rows
    led.write(e.Left(due))
    assert database.count("pending") == 0
    with pytest.raises(PendingMoved):
        led.write(e.Left(due))


def test_a_ctid_that_holds_another_row_now_fails_the_tick(database: Database, led: Led) -> None:
    led.wait(led.accept(40))
    due = led.store.ask(Questions(due=[DueQuestion(2, "k", FIRST, NOW + 10, 100)])).due[0].rows
    led.write(e.Left(due[:20]))
    database.admin.execute("vacuum full jobyard.pending")
    with pytest.raises(PendingMoved):
        led.write(e.Left(due[20:]))
    assert database.count("pending") == 20


@pytest.mark.parametrize("known", [True, False])
def test_a_job_that_moves_has_one_row_in_its_new_place(database: Database, led: Led, known: bool) -> None:
    (waiting,) = led.wait(led.accept(1))
    if known:
        (waiting,) = led.store.ask(Questions(due=[DueQuestion(2, "k", FIRST, NOW + 10, 100)])).due[0].rows
    waiting.job.run_at, waiting.job.priority = NOW + 99, 0
    led.write(e.Moved(waiting), e.Noted(waiting.job.id, "k", "rescheduled", NOW, actor="me", detail={"run_at": "a\x00"}))
    assert database.rows("select priority, extract(epoch from run_at)::float8 from jobyard.pending") == [(0, NOW + 99)]
    assert database.rows("select event, actor, detail from jobyard.job_events") == [("rescheduled", "me", {"run_at": "a\ufffd"})]


def test_quarantine_and_late_reports(database: Database, led: Led) -> None:
    (one,) = led.accept(1)
    late = e.LateReported(one.id, 4, NOW, 1, Outcome.SUCCEEDED, True, None, b'{"x": "\\\\"}')
    led.write(e.Quarantined(BadMessage("t", 0, 5, "bad\\", b"\x00\xff"), NOW), late, late)
    assert database.rows('select topic, part, "offset", reason, body from jobyard.quarantine') == [("t", 0, 5, "bad\\", b"\x00\xff")]
    assert database.rows("select fence, closed_job, result from jobyard.late_reports") == [(4, True, {"x": "\\"})]


def test_agents_join_change_and_end_with_their_buckets(database: Database, led: Led) -> None:
    one = str(uuid.uuid4())
    agent = led.agent("a", one, {"k": 1, "bad kind": 1, "huge": 99_999})
    buckets = [Bucket(priority, priority + 10, "topic", 5) for priority in range(5)]
    led.write(e.AgentJoined(agent, "a", one, buckets), e.AgentChanged(agent, "a", "draining", 2.5, 9), e.AgentsHeard({agent: NOW + 5}))
    (row,) = led.store.snapshot().agents
    assert (row.agent_id, row.name, row.incarnation, row.kinds, row.state, row.capacity, row.slots) == (
        agent,
        "a",
        one,
        {"k": 1},
        "draining",
        2.5,
        9,
    )
    assert row.buckets == buckets
    moved = [Bucket(0, 10, "again", 0)]
    led.write(e.BucketsMoved(agent, moved))
    assert led.store.snapshot().agents[0].buckets == moved
    two = str(uuid.uuid4())
    answers = led.store.ask(Questions(agents=[new_agent("a", two)]))
    now = time.time()
    led.write(e.AgentEnded(agent, "a", one, "replaced", now), e.AgentJoined(answers.agents[two], "a", two, moved))
    first, second = led.store.snapshot().agents
    assert (first.ended, first.state, first.buckets, second.ended, second.buckets) == (True, "replaced", [], False, moved)
    assert led.store.ask(Questions(agents=[new_agent("a", one)])).agents == {}  # it has ended: no new number, and the current one stays
    led.write()
    assert [agent.ended for agent in led.store.snapshot().agents] == [True, False]


def test_L11_two_hellos_of_one_name_in_one_tick_leave_the_later_one(led: Led) -> None:
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    answers = led.store.ask(Questions(agents=[new_agent("a", one), new_agent("a", two)]))
    led.write()
    assert answers.agents.keys() == {one, two}
    assert {agent.incarnation: agent.ended for agent in led.store.snapshot().agents} == {one: True, two: False}


def test_an_agent_of_a_kind_that_somebody_is_just_adding_gets_it_later(database: Database) -> None:
    led = Led(database, rules=Rules(held_again_s=0.0))
    led.meet("k")
    with database.client() as client:
        client.execute("select jobyard.submit('fresh')")
        led.agent("a", kinds={"k": 1, "fresh": 3})
        led.ask()
        assert led.store.snapshot().agents[0].kinds == {"k": 1}
    led.ask()
    assert led.store.snapshot().agents[0].kinds == {"k": 1, "fresh": 3}


# ---------------------------------------------------------------- reading ahead


def test_due_rows_come_in_order_from_the_cursor_on(database: Database, led: Led) -> None:
    led.meet("k")
    jobs = [job(run_at=NOW + n // 2, priority=2) for n in range(10)]
    led.store.ask(Questions(jobs=jobs))
    led.wait(jobs)
    jobs.sort(key=lambda one: (one.run_at, one.id))
    (answer,) = led.store.ask(Questions(due=[DueQuestion(2, "k", FIRST, NOW + 3, 3)])).due
    assert [one.job for one in answer.rows] == jobs[:3]
    assert all(one.stored and one.ctid for one in answer.rows)
    assert answer.next_at == jobs[3].run_at
    after = (jobs[2].run_at, jobs[2].id)
    (answer,) = led.store.ask(Questions(due=[DueQuestion(2, "k", after, NOW + 3, 100)])).due
    assert [one.job for one in answer.rows] == jobs[3:8]
    assert answer.next_at == NOW + 4
    (answer,) = led.store.ask(Questions(due=[DueQuestion(2, "k", after, NOW + 99, 100)])).due
    assert (len(answer.rows), answer.next_at) == (7, None)
    (answer,) = led.store.ask(Questions(due=[DueQuestion(1, "k", FIRST, NOW + 99, 100)])).due
    assert (answer.rows, answer.next_at) == ([], None)


def test_L9_a_retry_by_hand_raises_the_bound_of_what_is_read(database: Database, led: Led) -> None:
    (one,) = led.accept(1)
    led.write(e.Reopened(one.id, NOW, 8, "me"), e.Waits([Waiting(one, 5, 5, 2, why="h")]))
    (row,) = led.store.ask(Questions(due=[DueQuestion(2, "k", FIRST, NOW + 3, 3)])).due[0].rows
    assert (row.bound, row.attempt, row.used, row.interruptions, row.why) == (8, 5, 5, 2, "h")


# ---------------------------------------------------------------- the take-over


def test_T2_the_snapshot_tells_open_bundles_with_their_marks(database: Database, led: Led) -> None:
    incarnation = str(uuid.uuid4())
    agent = led.agent("a", incarnation)
    jobs = led.accept(4)
    placed = led.place(jobs, agent, incarnation, careful=True)
    other = led.place(led.accept(1), agent, incarnation)
    done = e.Ended(placed, [end(jobs[1])], None, [0], [State.SUCCEEDED], [])
    cancel = e.Noted(jobs[2].id, "k", "cancel_asked", NOW, actor="me", detail={"fence": placed.fence, "reason": "why"})
    older = e.Noted(jobs[0].id, "k", "cancel_asked", NOW, actor="me", detail={"fence": placed.fence - 1, "reason": "old"})
    led.write(done, cancel, older, e.Started(placed, 3, NOW, None))
    led.offsets = {"t": ("id", 9)}
    led.write()
    database.expire()
    again = Led(database)
    snapshot = again.store.snapshot()
    placed.ended, placed.running, placed.cancels = {1}, {3: NOW}, {2: "why"}
    assert snapshot.bundles == [placed, other]
    assert (snapshot.fence, snapshot.offsets, snapshot.held) == (other.fence, {"t": ("id", 9)}, False)
    assert snapshot.kinds.keys() == {"k"}


def test_T2_the_backlog_names_each_priority_and_kind_once(database: Database, led: Led) -> None:
    led.meet("a", "b")
    database.add_lane("other")
    database.admin.execute("select jobyard.submit('b', lane => 'other', priority => 'critical')")
    jobs = [job(kind, NOW + n, priority=priority) for kind in "ab" for priority in (0, 4) for n in (3, 1, 2)]
    led.store.ask(Questions(jobs=jobs))
    led.wait(jobs)
    found = [(row.priority, row.kind, row.next_at) for row in led.store.snapshot().backlog]
    assert found == [(0, "a", NOW + 1), (0, "b", NOW + 1), (4, "a", NOW + 1), (4, "b", NOW + 1)]


def test_T2_of_a_deposed_leader_is_none(database: Database, led: Led) -> None:
    database.expire()
    Led(database)
    with pytest.raises(Deposed):
        led.store.snapshot()


# ---------------------------------------------------------------- commands and late reports


def test_L13_a_command_comes_with_where_its_job_stands(database: Database, led: Led) -> None:
    waiting, done, placed = led.accept(3)
    led.wait([waiting])
    agent = led.agent()
    one = led.place([done], agent)
    led.place([placed], agent)
    led.write(ended(one, Outcome.FAILED, State.FAILED, used=1), closed(one))
    for each in (waiting, done, placed):
        database.admin.execute("insert into jobyard.commands (job_id, lane_id, verb, actor) values (%s, 1, 'cancel', 'me')", [each.id])
    database.admin.execute("insert into jobyard.commands (lane_id, verb, actor, args) values (1, 'sync', 'me', '{\"a\": 1}')")
    first, second, third, fourth = led.ask().commands
    assert (first.job, first.state, first.waiting is not None and first.waiting.ctid is not None) == (waiting, None, True)
    assert (second.job, second.state, second.waiting, second.attempt, second.used, second.bound) == (done, State.FAILED, None, 1, 1, 5)
    assert (third.job, third.state, third.waiting) == (placed, None, None)
    assert (fourth.verb, fourth.job_id, fourth.args) == ("sync", None, {"a": 1})
    led.write(*[e.Answered(one.command_id, None, "done") for one in (first, second, third, fourth)])
    assert led.ask().commands == []
    assert database.rows("select distinct code, answer from jobyard.commands where answered_at is not null") == [(None, "done")]


def test_L13_a_retry_by_hand_voids_the_final_state_until_the_next(database: Database, led: Led) -> None:
    (one,) = led.accept(1)
    agent = led.agent()
    first = led.place([one], agent)
    led.write(ended(first, Outcome.FAILED, State.FAILED, used=1), closed(first))
    led.write(e.Reopened(one.id, first.placed_at + 1, 10, "me"))
    database.admin.execute("insert into jobyard.commands (job_id, lane_id, verb, actor) values (%s, 1, 'retry', 'me')", [one.id])
    (command,) = led.ask().commands
    assert (command.state, command.bound) == (None, 10)
    led.write(e.Noted(one.id, "k", "cancelled", first.placed_at + 2, State.CANCELLED))
    (command,) = led.ask().commands
    assert command.state is State.CANCELLED


def _sqlstate(database: Database, statement: str, *values: object) -> str | None:
    """Of the error that it ends with; None: it is carried out."""
    try:
        database.admin.execute(statement.encode(), values)
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.mark.parametrize("ahead_s", [-86_400 * 400, 0, 86_400 * 400])
def test_L13_view_lists_commands_and_store_void_by_the_leaders_clock_whatever_the_agents_says(
    database: Database, led: Led, ahead_s: float
) -> None:
    (one,) = led.accept(1)
    agent = led.agent()
    first = led.place([one], agent)
    second = bundle(first.fence + 1, [one], agent)
    second.placed_at, second.attempts, reopened_at = first.placed_at + 5, [2], first.placed_at + 5

    def fail(of: Bundle) -> None:
        done = end(one, Outcome.FAILED, attempt=of.attempts[0], started_at=of.placed_at + ahead_s, ended_at=of.placed_at + ahead_s + 1)
        led.write(e.Ended(of, [done], None, [of.attempts[0]], [State.FAILED], []), closed(of))

    def told() -> tuple[set[str], set[str], set[str], list[State | None], bool]:
        """By the view, by both lists, by the store, and whether a cancel is refused at once."""
        view = {str(row[0]) for row in database.rows("select state::text from jobyard.job_states where job_id = %s", one.id)}
        failed = {str(row[0]) for row in database.rows("select state::text from jobyard.find_jobs(state => 'failed')")}
        everything = {str(row[0]) for row in database.rows("select state::text from jobyard.find_jobs()")}
        database.admin.execute("insert into jobyard.commands (job_id, lane_id, verb, actor) values (%s, 1, 'retry', 'me')", [one.id])
        store = [command.state for command in led.ask().commands]
        ended_by_command = _sqlstate(database, "select jobyard.cancel(%s)", one.id) == "JY009"
        database.admin.execute("delete from jobyard.commands")
        return view, failed, everything, store, ended_by_command

    one.run_at = NOW - 86_400 * 400
    fail(first)
    assert told() == ({"failed"}, {"failed"}, {"failed"}, [State.FAILED], True)
    led.write(e.Reopened(one.id, reopened_at, 10, "me"), e.Waits([Waiting(one, 1, 1, why="h")]))
    assert told() == ({"pending"}, set(), {"pending"}, [None], False)
    led.write(e.Left([Waiting(one)]), Placed(second))  # in the very moment of the retry
    assert told() == ({"placed"}, set(), {"placed"}, [None], False)
    fail(second)
    assert told() == ({"failed"}, {"failed"}, {"failed"}, [State.FAILED], True)
    assert database.rows("select attempts, max_attempts from jobyard.job_status") == [(2, 10)]


def test_L13_an_event_that_ended_a_job_is_void_from_its_own_moment_on(database: Database, led: Led) -> None:
    (one,) = led.accept(1)
    states = "select state::text from jobyard.job_states where job_id = %s"
    led.write(e.Noted(one.id, "k", "cancelled", NOW, State.CANCELLED))
    assert database.rows(states, one.id) == [("cancelled",)]
    database.admin.execute("insert into jobyard.reopened (job_id, at, max_attempts) values (%s, to_timestamp(%s), 5)", [one.id, NOW])
    assert database.rows(states, one.id) == []
    led.write(e.Noted(one.id, "k", "cancelled", NOW + 0.000_001, State.CANCELLED))
    assert database.rows(states, one.id) == [("cancelled",)]


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (rb'{"words": [1, 2.5, "\u00e9\\u0000"], "id": "1e99999"}', True),
        (b"null", True),
        (rb'"\u0000"', False),
        (rb'{"a": "\ud800"}', False),
        (b"[1e999999]", False),
        (b"[" + b"1" * 200_000 + b"]", False),
        (b"[" * 300 + b"]" * 300, False),
    ],
)
def test_L14_the_result_of_a_late_success_is_the_jobs_or_a_note_says_why_not(database: Database, led: Led, raw: bytes, kept: bool) -> None:
    (one,) = led.accept(1)
    agent = led.agent()
    placed = led.place([one], agent)
    led.write(ended(placed, Outcome.LOST, None, used=1), closed(placed))
    led.write(
        e.LateReported(one.id, placed.fence, NOW, agent, Outcome.SUCCEEDED, True, None, raw),
        e.Noted(one.id, "k", "late_success", NOW, State.SUCCEEDED, attempt=1, detail={"fence": placed.fence, "result": msgspec.Raw(raw)}),
    )
    ((state, result),) = database.rows("select state::text, result::text from jobyard.job_status where job_id = %s", one.id)
    ((fence, note),) = database.rows("select detail -> 'fence', detail ->> 'note' from jobyard.job_events where event = 'late_success'")
    assert (state, fence) == ("succeeded", placed.fence)
    if kept:
        assert msgspec.json.decode(str(result)) == msgspec.json.decode(raw)
        assert note is None
    else:
        assert result is None
        assert "the result" in note
        assert "not kept" in note


def test_L21_a_command_about_another_lanes_job_goes_there(database: Database, led: Led) -> None:
    other_id = database.add_lane("other")
    other = Led(database, "other")
    (one,) = other.accept(1)
    database.admin.execute("insert into jobyard.commands (job_id, verb, actor) values (%s, 'cancel', 'me')", [one.id])
    assert led.ask().commands == []
    assert database.rows("select lane_id from jobyard.commands") == [(other_id,)]
    assert [command.job for command in other.ask().commands] == [one]


def test_L21_not_found_is_answered_when_every_led_lane_has_said_so(database: Database, led: Led) -> None:
    database.add_lane("other")
    database.add_lane("nobody-leads")
    other = Led(database, "other")
    database.admin.execute("insert into jobyard.commands (job_id, verb, actor) values (%s, 'cancel', 'me')", [job().id])
    (command,) = led.ask().commands
    led.write(e.NotHere(command.command_id))
    assert led.ask().commands == []
    assert database.rows("select answered_at from jobyard.commands") == [(None,)]
    (command,) = other.ask().commands
    other.write(e.NotHere(command.command_id))
    assert database.rows("select code, answered_at is not null from jobyard.commands") == [("JY007", True)]


def test_L21_not_found_is_answered_when_the_lane_that_had_yet_to_look_is_led_no_more(database: Database, led: Led) -> None:
    other_id = database.add_lane("other")
    Led(database, "other")
    missing, found_later = job(), job()
    for one in (missing, found_later):
        database.admin.execute("insert into jobyard.commands (job_id, verb, actor) values (%s, 'cancel', 'me')", [one.id])
    led.write(*[e.NotHere(command.command_id) for command in led.ask().commands])
    assert led.ask().commands == []
    assert database.rows("select answered_at from jobyard.commands") == [(None,), (None,)]  # the other lane's leader may know
    led.meet("k")
    led.store.ask(Questions(jobs=[found_later]))
    led.write()
    database.admin.execute("update jobyard.leases set lease_until = clock_timestamp() where lane_id = %s", [other_id])
    assert [command.job for command in led.ask().commands] == [found_later]  # in the tables by now: not unknown
    assert database.rows("select code, answer, answered_at is not null from jobyard.commands order by command_id") == [
        ("JY007", "no such job", True),
        (None, None, False),
    ]


def test_L21_a_command_about_a_held_job_waits_for_it(database: Database, led: Led) -> None:
    led.meet("k")
    (one,) = jobs = [job()]
    with database.client() as client:
        client.execute("select jobyard.submit('k', id => %s)", [one.id])
        led.store.ask(Questions(jobs=jobs))
        led.write()
        database.admin.execute("insert into jobyard.commands (job_id, verb, actor) values (%s, 'cancel', 'me')", [one.id])
        assert led.ask().commands == []
        client.rollback()
    led.store.ask(Questions(held_again=True))
    led.write()
    assert [command.job for command in led.ask().commands] == [one]


def test_L14_a_late_report_finds_its_attempt(database: Database, led: Led) -> None:
    incarnation = str(uuid.uuid4())
    agent = led.agent("a", incarnation)
    (one,) = led.accept(1)
    placed = led.place([one], agent, incarnation)
    led.write(ended(placed, Outcome.LOST, None, used=1), closed(placed), e.Waits([Waiting(one, 1, 1, why="l")]))
    unknown = (job().id, 4)
    late = led.store.ask(Questions(late=[(one.id, placed.fence), (one.id, 99), unknown])).late
    found = late[one.id, placed.fence]
    assert (found.outcome, found.attempt, found.agent_id, found.incarnation, found.kind) == (Outcome.LOST, 1, agent, incarnation, "k")
    assert (found.used, found.reported, found.state) == (1, False, None)
    assert found.waiting is not None
    assert (found.waiting.used, found.waiting.why) == (1, "l")
    assert (late[one.id, 99].outcome, late[unknown].outcome) == (None, None)
    led.write(e.LateReported(one.id, placed.fence, NOW, agent, Outcome.FAILED, False, Error("E", "m"), None))
    led.write(e.Left([found.waiting]), e.Noted(one.id, "k", "late_success", NOW, State.SUCCEEDED))
    found = led.store.ask(Questions(late=[(one.id, placed.fence)])).late[one.id, placed.fence]
    assert (found.reported, found.state, found.waiting) == (True, State.SUCCEEDED, None)


# ---------------------------------------------------------------- lanes


def test_lanes_are_free_when_their_lease_is_over(database: Database, led: Led) -> None:
    database.add_lane("other")
    lanes = PostgresLanes(database.url)
    assert (lanes.all(), lanes.free()) == (["default", "other"], ["other"])
    database.expire()
    assert lanes.free() == ["default", "other"]
    lanes.close()


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
