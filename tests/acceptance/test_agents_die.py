"""Agents killed, replaced, told to end, and paused for too long, under load."""

import signal
import time

import pytest
from promises import mixed_jobs
from promises.guarantees import EITHER, FAILED, Expected, InterruptedOnlyOf, LostOnlyOf
from worlds.world import MakeWorld, World

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included


def test_killed_agents_cost_no_job(make_world: MakeWorld) -> None:
    """One is killed and stays away, one is killed and replaced under its name."""
    world = make_world()
    world.coordinator("coordinator")
    world.agent("anna")
    world.until_active("anna")
    once = _start_single_attempts(world, "anna")
    world.agent("bert")
    world.until_active("anna", "bert")
    world.submit_mixed(300)

    world.until_busy("anna", "bert")
    ran = _kill(world, "anna")
    assert once <= {job for job, _ in ran}
    world.until(
        "anna is lost", lambda: world.rows("select 1 from jobyard.agents where name = 'anna' and state = 'lost'"), within_s=5.0 + 20.0
    )
    _check_lost(world, ran)

    once = _start_single_attempts(world, "bert")
    world.submit_mixed(100, by_cli=0)
    world.until_busy("bert")
    ran = _kill(world, "bert")
    assert once <= {job for job, _ in ran}
    world.agent("bert")
    world.until(
        "bert is replaced", lambda: world.rows("select 1 from jobyard.agents where name = 'bert' and state in ('replaced', 'lost')")
    )
    evidence = world.check(LostOnlyOf(("anna", "bert")), InterruptedOnlyOf())
    _check_lost(world, ran)
    # a job with a single attempt fails only because it was running when its agent was killed
    for job, (row, *_) in evidence.status.items():
        if row["kind"] == "single" and row["state"] == "failed":
            assert row["error_type"] == "Lost"
            assert evidence.attempts[job][-1]["outcome"] == "lost"
            assert len(evidence.executions.get(job, [])) <= 1


def _start_single_attempts(world: World, name: str) -> set[str]:
    """Jobs with a single attempt that go on until their agent, now the only one, is killed."""
    requests = [world.expect(mixed_jobs.patient.options(max_attempts=1).request(n, 3600.0, 0.0), Expected(FAILED)) for n in (1, 2)]
    for request in requests:
        request.submit()
    jobs = {str(request.id) for request in requests}
    world.until(f"they run on {name}", lambda: jobs <= {one.job for one in world.running_on(name)})
    return jobs


def _kill(world: World, name: str) -> set[tuple[str, int]]:
    """Kill it; the jobs, with their fences, that ran there and never ended."""
    pid = world.pid(name)
    world.kill(name)
    return {(one.job, one.fence) for one in world.executions() if one.pid == pid and one.ended is None}


def _check_lost(world: World, ran: set[tuple[str, int]]) -> None:
    """What was running is told as lost, whatever it was; with a single attempt the job has failed."""
    assert ran
    evidence = world.evidence()
    outcomes = {(job, row["fence"]): row["outcome"] for job, rows in evidence.attempts.items() for row in rows}
    assert {outcomes.get(one) for one in ran} == {"lost"}
    singles = [job for job, _ in ran if evidence.jobs[job]["max_attempts"] == 1]
    assert singles
    assert {evidence.status[job][0]["state"] for job in singles} == {"failed"}


def test_an_agent_that_is_told_to_end_gives_back_and_interrupts(make_world: MakeWorld) -> None:
    world = make_world()
    world.coordinator("coordinator")
    world.agent("anna")
    world.until_active("anna")
    long = [world.expect(mixed_jobs.patient.options(priority="critical").request(n, 3600.0, 0.1)) for n in (1, 2)]
    once = world.expect(mixed_jobs.patient.options(priority="critical", max_attempts=1).request(3, 3600.0, 0.1), Expected(EITHER))
    for request in (*long, once):
        request.submit()
    world.submit_mixed(200, by_cli=0)
    endless = {str(request.id) for request in (*long, once)}
    world.until("they run", lambda: endless <= {one.job for one in world.running_on("anna")})
    world.until_busy("anna")
    world.agent("bert")
    assert world.terminate("anna") == 0
    evidence = world.check(LostOnlyOf(), InterruptedOnlyOf(("anna",)))
    assert {row["state"] for row in world.rows("select state from jobyard.agents where name = 'anna'")} == {"gone"}
    for request in long:
        assert [row["outcome"] for row in evidence.attempts[str(request.id)]] == ["interrupted", "succeeded"]
    assert [row["outcome"] for row in evidence.attempts[str(once.id)]] == ["interrupted"]
    assert evidence.status[str(once.id)][0]["state"] == "failed"


def test_C19_of_two_processes_with_one_name_the_older_ends(make_world: MakeWorld) -> None:
    world = make_world()
    world.coordinator("coordinator")
    world.agent("anna")
    world.until_active("anna")
    world.submit_mixed(150, by_cli=0)
    world.until_busy("anna")
    world.agent("anna", process="another")
    assert world.status_of("anna") != 0
    assert "name" in world.log_of("anna").splitlines()[-1]
    world.check(LostOnlyOf(("anna",)), InterruptedOnlyOf(("anna",)))


def test_a_paused_agent_starts_nothing_more_and_its_late_success_counts(make_world: MakeWorld) -> None:
    """C16, C17: paused beyond lost_after with running and with queued jobs, then resumed."""
    world = make_world()
    world.coordinator("coordinator")
    world.agent("anna", slots=4)
    world.until_active("anna")
    # in its second attempt the first is under way when the late success comes, the second has ended by then
    closing = world.expect(mixed_jobs.patient.request(1, 4.0, 3600.0))
    over = world.expect(mixed_jobs.patient.request(2, 4.0, 0.1))
    once = world.expect(mixed_jobs.patient.options(max_attempts=1).request(3, 4.0, 0.1), Expected(EITHER, 3))
    started = [str(request.id) for request in (closing, over, once)]
    for request in (closing, over, once):
        request.submit()
    world.until("they run", lambda: {one.job for one in world.running_on("anna")} == set(started))
    world.until("the leader knows it", lambda: all(world.state(job) == "running" for job in started))
    world.send("anna", signal.SIGSTOP)
    paused = time.monotonic()
    queued = [world.expect(mixed_jobs.tiny.request(n)) for n in range(10, 30)]
    mixed_jobs.app.submit_many(queued)
    world.until(
        "some are placed on the agent that is paused",
        lambda: world.rows("select 1 from jobyard.job_states where state = 'placed'"),
        within_s=2.0,
    )
    world.agent("bert")
    world.until("anna is lost", lambda: world.rows("select 1 from jobyard.agents where name = 'anna' and state = 'lost'"))
    assert time.monotonic() - paused >= 4.0
    world.until("the job runs elsewhere", lambda: world.running_on("bert"))
    world.until("the other one has ended", lambda: world.state(str(over.id)) == "succeeded")
    assert world.state(str(once.id)) == "failed"
    world.send("anna", signal.SIGCONT)
    resumed = time.monotonic()
    world.until("the late success closes the job", lambda: world.state(str(closing.id)) == "succeeded")
    world.until_active("anna")
    evidence = world.check(LostOnlyOf(("anna",)), InterruptedOnlyOf())
    assert [row["outcome"] for row in evidence.attempts[str(closing.id)]] == ["lost", "superseded"]
    assert [row["closed_job"] for row in evidence.late[str(closing.id)]] == [True]
    assert [row["outcome"] for row in evidence.attempts[str(over.id)]] == ["lost", "succeeded"]
    assert [row["closed_job"] for row in evidence.late[str(over.id)]] == [False]
    assert evidence.status[str(once.id)][0]["state"] == "failed"
    assert [row["closed_job"] for row in evidence.late[str(once.id)]] == [False]
    # of what was placed under the old life nothing was started there
    anna = world.pid("anna")
    old = {(job, row["fence"]) for job, rows in evidence.attempts.items() for row in rows if row["agent_state"] == "lost"}
    waiting = {str(request.id) for request in queued}
    assert [job for job, _ in old if job in waiting]
    for job in waiting:
        for one in evidence.executions[job]:
            assert (job, one.fence) not in old
            assert one.pid != anna or one.started > resumed
