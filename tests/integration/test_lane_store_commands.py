"""Commands and late reports as the lane store tells them (L13, L14, L21)."""

import uuid
from collections.abc import Generator

import msgspec
import psycopg
import pytest
from lane_store_builders import NOW, Database, Led, bundle, closed, end, ended, job

from jobyard.contracts.reports import Error
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.events import Placed
from jobyard.coordinator.core.places import Bundle, Waiting
from jobyard.coordinator.core.questions import Questions


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def led(database: Database) -> Led:
    return Led(database)


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
