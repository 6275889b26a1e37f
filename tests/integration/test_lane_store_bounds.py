"""What bounds a tick and a take-over in the Master DB: bytes of what is read ahead (S2), and the end of all incarnations (T1)."""

import uuid
from collections.abc import Generator

import msgspec
import pytest
from lane_store_builders import NOW, Database, Led, job, new_agent

from jobyard.contracts.ids import FIRST_ID
from jobyard.contracts.job import Job
from jobyard.contracts.rules import RULES
from jobyard.contracts.topics import lane_topics
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.core.questions import DueAnswer, DueQuestion, Questions

START = (0.0, FIRST_ID)
TOPICS = lane_topics("test", "default")


@pytest.fixture
def opened(database_url: str) -> Generator[Database]:
    made = Database.open(database_url)
    yield made
    made.close()


@pytest.fixture
def led(opened: Database) -> Led:
    return Led(opened)


def args(length: int, letters: str = "x") -> msgspec.Raw:
    """An object of so many bytes of letters."""
    return msgspec.Raw(b'{"a": "' + (letters * length)[:length].encode() + b'"}')


def waiting(led: Led, sizes: list[msgspec.Raw]) -> list[Job]:
    """Jobs with these arguments, due one after the other."""
    led.meet("k")
    jobs = [job(run_at=NOW + n, priority=2, args=raw) for n, raw in enumerate(sizes)]
    led.store.ask(Questions(jobs=jobs))
    led.wait(jobs)
    return jobs


def due(led: Led, after: tuple[float, str], most_bytes: int | None, most: int = 100) -> DueAnswer:
    (answer,) = led.store.ask(Questions(due=[DueQuestion(2, "k", 0, after, NOW + 50, most, most_bytes)])).due
    return answer


def mixed() -> list[msgspec.Raw]:
    """Small, compressed, and stored out of line as it is."""
    noise = uuid.uuid4().hex * 2_000
    return [args(10), args(500_000), args(60_000, noise), args(10), args(300_000), args(9_000, noise), args(10), args(3_000)]


def test_all_arguments_come_whatever_their_size(led: Led) -> None:
    jobs = waiting(led, mixed())
    answer = due(led, START, None)
    assert [(one.job.id, bytes(one.job.args)) for one in answer.rows] == [(one.id, bytes(one.args)) for one in jobs]
    assert answer.next_at is None


@pytest.mark.parametrize("most_bytes", [1, 100_000, 561_000, 10_000_000])
def test_due_rows_end_where_the_bytes_end_and_say_so(led: Led, most_bytes: int) -> None:
    jobs = waiting(led, mixed())
    after, found = START, list[Job]()
    while True:
        answer = due(led, after, most_bytes)
        rows = answer.rows
        assert rows
        assert len(rows) == 1 or sum(len(one.job.args) for one in rows) <= most_bytes
        found += [one.job for one in rows]
        if answer.next_at is None:
            break
        following = jobs[len(found)]
        assert answer.next_at == following.run_at
        assert sum(len(one.job.args) for one in rows) + len(following.args) > most_bytes  # no earlier than it must
        after = (rows[-1].job.run_at, rows[-1].job.id)
    assert [(one.id, bytes(one.args)) for one in found] == [(one.id, bytes(one.args)) for one in jobs]


def test_bytes_and_rows_bound_together(led: Led) -> None:
    jobs = waiting(led, [args(10)] * 5)
    answer = due(led, START, 1_000, most=3)
    assert (len(answer.rows), answer.next_at) == (3, jobs[3].run_at)
    answer = due(led, START, 40, most=3)
    assert (len(answer.rows), answer.next_at) == (2, jobs[2].run_at)


def test_L11_two_hellos_of_one_name_in_one_tick_and_one_that_ended_before(opened: Database, led: Led) -> None:
    old, first, second = (str(uuid.uuid4()) for _ in range(3))
    led.agent("a", old)
    led.agent("a", first)
    answers = led.ask(Questions(agents=[new_agent("a", second), new_agent("a", old)]))
    led.write()
    assert set(answers.agents) == {second}
    rows = opened.admin.execute("select incarnation::text, state from jobyard.agents order by agent_id").fetchall()
    assert rows == [(old, "replaced"), (first, "replaced"), (second, "active")]


def test_T1_the_end_of_all_incarnations_is_written_with_the_opening(opened: Database, led: Led) -> None:
    incarnation = str(uuid.uuid4())
    number = led.agent("a", incarnation)
    jobs = led.accept(3)
    led.place(jobs, number, incarnation)
    led.store.release(led.term)
    led.store.close()
    store = opened.store("default")
    term = store.seize(at_least=40)
    assert term is not None
    assert term.epoch == 41
    snapshot = store.snapshot()
    lane = Lane.load(
        snapshot,
        lane="default",
        rules=RULES,
        epoch=term.epoch,
        now=term.now,
        topic_ids={topic.name: "one" for topic in TOPICS.all()},
        topics=TOPICS,
        fence_all=True,
    )
    store.write(lane.opening(), {}, lane.fence, term)
    again = store.snapshot()
    assert again.bundles == []
    assert [(row.state, row.ended) for row in again.agents] == [("lost", True)]
    outcomes = opened.admin.execute("select outcome::text, count(*) from jobyard.attempts group by 1").fetchall()
    assert outcomes == [("lost", 3)]
    assert opened.admin.execute("select count(*) from jobyard.pending").fetchone() == (3,)
    store.release(term)
    store.close()
