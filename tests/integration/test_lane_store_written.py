"""What the lane store writes, reads ahead, and loads at a take-over."""

import time
import uuid
from collections.abc import Generator

import pytest
from lane_store_builders import NOW, Database, Led, closed, end, ended, job, new_agent

from jobyard.contracts.control import Bucket
from jobyard.contracts.reports import Error
from jobyard.contracts.rules import Rules
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.places import Waiting
from jobyard.coordinator.core.questions import DueQuestion, Questions
from jobyard.coordinator.seams import Deposed, PendingMoved
from jobyard.master_db.intake import FEW

FIRST = (0.0, "")


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def led(database: Database) -> Led:
    return Led(database)


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
    due = led.store.ask(Questions(due=[DueQuestion(2, "k", 0, FIRST, NOW + 10, 100)])).due[0].rows
    led.write(e.Left(due))
    assert database.count("pending") == 0
    with pytest.raises(PendingMoved):
        led.write(e.Left(due))


def test_a_ctid_that_holds_another_row_now_fails_the_tick(database: Database, led: Led) -> None:
    led.wait(led.accept(40))
    due = led.store.ask(Questions(due=[DueQuestion(2, "k", 0, FIRST, NOW + 10, 100)])).due[0].rows
    led.write(e.Left(due[:20]))
    database.admin.execute("vacuum full jobyard.pending")
    with pytest.raises(PendingMoved):
        led.write(e.Left(due[20:]))
    assert database.count("pending") == 20


@pytest.mark.parametrize("known", [True, False])
def test_a_job_that_moves_has_one_row_in_its_new_place(database: Database, led: Led, known: bool) -> None:
    (waiting,) = led.wait(led.accept(1))
    if known:
        (waiting,) = led.store.ask(Questions(due=[DueQuestion(2, "k", 0, FIRST, NOW + 10, 100)])).due[0].rows
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


def test_due_rows_come_in_order_from_the_cursor_on(database: Database, led: Led) -> None:
    led.meet("k")
    jobs = [job(run_at=NOW + n // 2, priority=2) for n in range(10)]
    led.store.ask(Questions(jobs=jobs))
    led.wait(jobs)
    jobs.sort(key=lambda one: (one.run_at, one.id))
    (answer,) = led.store.ask(Questions(due=[DueQuestion(2, "k", 0, FIRST, NOW + 3, 3)])).due
    assert [one.job for one in answer.rows] == jobs[:3]
    assert all(one.stored and one.ctid for one in answer.rows)
    assert answer.next_at == jobs[3].run_at
    after = (jobs[2].run_at, jobs[2].id)
    (answer,) = led.store.ask(Questions(due=[DueQuestion(2, "k", 0, after, NOW + 3, 100)])).due
    assert [one.job for one in answer.rows] == jobs[3:8]
    assert answer.next_at == NOW + 4
    (answer,) = led.store.ask(Questions(due=[DueQuestion(2, "k", 0, after, NOW + 99, 100)])).due
    assert (len(answer.rows), answer.next_at) == (7, None)
    (answer,) = led.store.ask(Questions(due=[DueQuestion(1, "k", 0, FIRST, NOW + 99, 100)])).due
    assert (answer.rows, answer.next_at) == ([], None)


def test_L9_a_retry_by_hand_raises_the_bound_of_what_is_read(database: Database, led: Led) -> None:
    (one,) = led.accept(1)
    led.write(e.Reopened(one.id, NOW, 8, "me"), e.Waits([Waiting(one, 5, 5, 2, why="h")]))
    (row,) = led.store.ask(Questions(due=[DueQuestion(2, "k", 0, FIRST, NOW + 3, 3)])).due[0].rows
    assert (row.bound, row.attempt, row.used, row.interruptions, row.why) == (8, 5, 5, 2, "h")


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
