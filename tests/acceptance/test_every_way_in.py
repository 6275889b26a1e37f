"""Nothing is killed: every way in, every sort of job, the same id twice, transactions that end late or not at all, commands, a blocked event loop."""

import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from promises import mixed_jobs
from promises.guarantees import FAILED, Expected, InterruptedOnlyOf, LostOnlyOf
from worlds.world import MakeWorld, World

from jobyard import JobFailed, JobRequest
from jobyard.contracts.ids import new_job_id

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included

CANCELLED = Expected(frozenset({"cancelled"}))


def test_every_sort_of_job_by_every_way_ends_as_its_code_says(make_world: MakeWorld) -> None:
    world = make_world()
    world.coordinator("coordinator")
    world.agent("anna")
    world.agent("bert")
    world.until_active("anna", "bert")
    world.submit_mixed(200)
    _send_ids_twice(world)
    evidence = world.check(LostOnlyOf(), InterruptedOnlyOf())
    outcomes = {
        kind: {row["outcome"] for job, rows in evidence.attempts.items() if evidence.status[job][0]["kind"] == kind for row in rows}
        for kind in ("tiny", "unsteady", "broken", "snoozing", "single")
    }
    assert outcomes["unsteady"] == {"failed", "succeeded"}
    assert outcomes["broken"] == {"failed"}
    assert outcomes["snoozing"] == {"snoozed", "succeeded"}
    # nothing was killed: single attempts succeed
    assert {rows[0]["state"] for rows in evidence.status.values() if rows[0]["kind"] == "single"} == {"succeeded"}
    ways = {str(row["submitted_via"]) for row in world.rows("select distinct submitted_via from jobyard.job_status")}
    assert ways == {"sql", "kafka"}

    _keep_a_transaction_open(world)
    _block_the_event_loop(world)
    world.check(LostOnlyOf(), InterruptedOnlyOf())


def _send_ids_twice(world: World) -> None:
    """The same id by SQL, by Kafka and in bulk, twice each: one job, and the first content counts (promise 7)."""
    tiny = mixed_jobs.tiny
    for first in ("sql", "kafka"):
        job = new_job_id()
        world.expect(tiny.options(id=job).request(1000), Expected(result=1000))
        tiny.options(id=job, via=first).submit(1000)
        _send_everywhere(world, job)
    # at the same time by both ways: one of the two, and nothing of the other
    both = [new_job_id() for _ in range(20)]
    mixed_jobs.app.submit_many([tiny.options(id=job, via="kafka").request(1) for job in both])
    assert mixed_jobs.app.submit_many([tiny.options(id=job).request(1) for job in both]).accepted <= len(both)
    for job in both:
        world.expect(tiny.options(id=job).request(1))
    # an open transaction holds the id when it comes by Kafka: what became of the transaction decides
    kept, dropped = new_job_id(), new_job_id()
    world.expect(tiny.options(id=kept).request(2000))
    world.expect(tiny.options(id=dropped).request(3))
    with psycopg.connect(world.addresses.database_url) as keeping, psycopg.connect(world.addresses.database_url) as dropping:
        tiny.options(id=kept).request(2000).submit(connection=keeping)
        tiny.options(id=dropped).request(2001).submit(connection=dropping)
        tiny.options(id=kept, via="kafka").submit(3)
        tiny.options(id=dropped, via="kafka").submit(3)
        world.until("the ids that are locked are set aside", lambda: world.number("select count(*) from jobyard.held_intake") == 2)
        keeping.commit()
        dropping.rollback()
    world.until("nothing is set aside", lambda: world.number("select count(*) from jobyard.held_intake") == 0)


def _send_everywhere(world: World, job: str) -> None:
    world.until(f"job {job} is known", lambda: world.state(job))
    tiny = mixed_jobs.tiny
    for other in (1, 2):
        assert tiny.options(id=job, via="sql").submit(other).duplicate
        tiny.options(id=job, via="kafka").submit(other)
        bulk: list[JobRequest[Any]] = [tiny.options(id=job, via="sql").request(other), tiny.options(id=job, via="sql").request(other + 10)]
        result = mixed_jobs.app.submit_many(bulk)
        assert (result.accepted, result.duplicates) == (0, 2)
        mixed_jobs.app.submit_many([tiny.options(id=job, via="kafka").request(other), tiny.options(id=job, via="kafka").request(other)])


def _keep_a_transaction_open(world: World) -> None:
    """Rolled back: no job. Committed late, when jobs submitted after have long ended and the leader sleeps: its jobs run (L23, L25)."""
    with psycopg.connect(world.addresses.database_url) as connection:
        given_up = [mixed_jobs.tiny.request(n) for n in range(20)]
        mixed_jobs.app.submit_many(given_up, connection=connection)
        given_up[0].submit(connection=connection)
        connection.rollback()
    with psycopg.connect(world.addresses.database_url) as connection:
        late = world.mixed(20)
        mixed_jobs.app.submit_many(late[:10], connection=connection)
        before = len(world.expected) - len(late)
        for request in world.mixed(20):
            request.submit()
        world.until("the jobs submitted after have ended", lambda: world.ended() == before + 20)
        time.sleep(2.0)  # the leader goes to sleep after a second without work
        mixed_jobs.app.submit_many(late[10:], connection=connection)
        connection.commit()
        at = time.monotonic()
    world.until_all_ended()
    assert world.until("they have ended", lambda: world.ended() == len(world.expected)) - at < 20
    assert not world.rows("select 1 from jobyard.jobs where id = any (%s::uuid[])", [str(request.id) for request in given_up])


def _block_the_event_loop(world: World) -> None:
    """A handler that stops the loop for longer than lost_after doesn't cost its agent anything: what keeps it alive runs in a thread of its own."""
    blocking = world.expect(mixed_jobs.blocking.request(7, 8.0))
    blocking.submit()
    world.until("it blocks", lambda: any(one.job == str(blocking.id) for one in world.executions()))
    for request in world.mixed(20):
        request.submit()
    world.until_all_ended()
    (blocked,) = [one for one in world.executions() if one.job == str(blocking.id)]
    assert blocked.ended is not None
    assert blocked.ended - blocked.started >= 8.0
    assert {row["state"] for row in world.rows("select state from jobyard.agents")} == {"active"}


def test_cancel_at_every_stage_and_retry_by_hand(make_world: MakeWorld, tmp_path: Path) -> None:
    world = make_world(lost_after_s=20.0)
    world.coordinator("coordinator")
    world.agent("anna", slots=4)
    world.until_active("anna")

    waiting = world.expect(mixed_jobs.tiny.options(run_at=datetime.now(UTC) + timedelta(hours=1)).request(1), CANCELLED)
    handle = waiting.submit()
    handle.cancel("not needed")
    assert world.state(str(waiting.id)) == "cancelled"

    running = world.expect(mixed_jobs.patient.request(2, 3600.0, 0.0), CANCELLED)
    handle = running.submit()
    world.until("it runs", lambda: world.state(str(running.id)) == "running")
    handle.cancel()
    world.until("it is cancelled", lambda: world.state(str(running.id)) == "cancelled")

    # stopped, the agent reads nothing: the cancel comes while the job is placed. What it reads first then, job or cancel, must not matter
    world.send("anna", signal.SIGSTOP)
    placed = world.expect(mixed_jobs.patient.request(3, 3600.0, 3600.0), CANCELLED)
    handle = placed.submit()
    world.until("it is placed", lambda: world.state(str(placed.id)) == "placed")
    handle.cancel()
    world.send("anna", signal.SIGCONT)
    world.until("it is cancelled", lambda: world.state(str(placed.id)) == "cancelled")
    assert not [one for one in world.executions() if one.job == str(waiting.id)]
    assert not world.running_on("anna")

    wanted = tmp_path / "wanted"
    failing = world.expect(mixed_jobs.wanting.request(str(wanted)), Expected(result="found"))
    reading = failing.submit()
    with pytest.raises(JobFailed):
        reading.wait(60.0)
    wanted.write_text("found")
    reading.retry("it is there now")
    assert reading.result(60.0) == "found"
    stays = world.expect(mixed_jobs.broken.request(4), Expected(FAILED))
    stays.submit()
    world.check(LostOnlyOf(), InterruptedOnlyOf())
