"""The lane store takes in new jobs (L2), and finds what others submitted (L23)."""

import time
from collections.abc import Generator

import msgspec
import pytest
from lane_store_builders import NOW, Database, Led, job

from jobyard.contracts.job import NewJob, Problem, RefusedJob
from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.questions import Questions, Unresolved
from jobyard.coordinator.seams import DataRefused
from jobyard.master_db.intake import FEW


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def led(database: Database) -> Led:
    return Led(database)


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


def test_L2_whatever_a_locked_id_cuts_short_is_prepared_anew(database: Database, led: Led) -> None:
    """Statements are prepared after some uses. In a pipeline that a lock ends, the server sees none of what follows."""
    led.meet("k")
    for number in range(16):
        locked = job()
        with database.client() as client:
            client.execute("select jobyard.submit('k', id => %s)", [locked.id])
            answers = led.store.ask(Questions(jobs=[job(), locked], look=True, held_again=number % 3 == 2))
            led.write()
            assert (len(answers.jobs), answers.held) == (1, 1)
        led.store.ask(Questions(jobs=[job()] if number % 2 else [], look=True))
        led.write()


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


def test_a_wrong_job_of_a_kind_that_was_just_met_is_refused_once_though_it_comes_twice(database: Database, led: Led) -> None:
    bad = NewJob(kind="video", id=job().id)
    with database.client() as client:
        client.execute("select jobyard.submit('k', id => %s)", [bad.id])
        database.admin.execute("insert into jobyard.kinds (kind, size_arg) values ('video', 'minutes')")
        assert led.store.ask(_unresolved(bad)).problems == []  # somebody holds its id
        led.write()
        client.rollback()
    assert [one.id for one in led.store.ask(Questions(held_again=True)).problems] == [bad.id]
    led.write()
    assert led.store.ask(_unresolved(bad)).problems == []
    led.write()


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
