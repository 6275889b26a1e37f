"""A real agent, in threads and as a process, with real Kafka and a leader that follows a script."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import agent_jobs
import pytest
from agent_leader import PATIENCE_S, Leader

from jobyard.agent.main import AgentPlan, AgentProcess
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import Job
from jobyard.contracts.reports import Finished, Goodbye, Heartbeat, Hello, Started
from jobyard.contracts.states import Outcome
from jobyard.embedded.services import Addresses

HERE = Path(__file__).parent
PROGRAM = """
import sys
sys.path.insert(0, {here!r})
import agent_jobs
from jobyard.agent.main import AgentPlan, run
sys.exit(run(AgentPlan(app=agent_jobs.app, bootstrap_servers={servers!r}, namespace={namespace!r}, slots=2, name="as-process", grace_s={grace})))
"""


@pytest.fixture
def leader(services: Addresses, namespace: str) -> Generator[Leader]:
    made = Leader(services.kafka_bootstrap_servers, namespace)
    yield made
    made.close()


@contextmanager
def running(services: Addresses, namespace: str, slots: int = 2, name: str = "in-threads") -> Generator[AgentProcess]:
    plan = AgentPlan(
        app=agent_jobs.app, bootstrap_servers=services.kafka_bootstrap_servers, namespace=namespace, slots=slots, name=name, grace_s=10.0
    )
    process = AgentProcess(plan)
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.terminate()
        assert process.ended(PATIENCE_S)


@contextmanager
def started(services: Addresses, namespace: str, grace_s: float = 10.0) -> "Generator[subprocess.Popen[bytes]]":
    program = PROGRAM.format(here=str(HERE), servers=services.kafka_bootstrap_servers, namespace=namespace, grace=grace_s)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JOBYARD_")}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def test_a_bundle_is_run_and_reported(services: Addresses, namespace: str, leader: Leader) -> None:
    with running(services, namespace) as agent:
        life = leader.incarnation()
        jobs = [Job(id=new_job_id(), kind=kind) for kind in ("quick", "fails", "thread")]
        quick, fails, thread = leader.place(life, [], jobs=jobs)
        leader.until(lambda: len(leader.ends()) == 3)
        ends = leader.ends()
        assert bytes(ends[quick].result) == b'"done"'
        assert bytes(ends[thread].result) == b'"from a thread"'
        assert ends[fails].outcome is Outcome.FAILED
        error = ends[fails].error
        assert error is not None
        assert (error.type, error.message) == ("ValueError", "no")
        assert 'raise ValueError("no")' in error.traceback
        assert [report.job for report in leader.of(Started)] == [thread]
        # sent again: the same reports again, nothing runs twice (A4)
        leader.place(life, [], fence=1, jobs=jobs)
        leader.until(lambda: sum(len(report.ends) for report in leader.of(Finished)) == 6)
        assert [end for report in leader.of(Finished) for end in report.ends if end.job == thread] == [ends[thread]] * 2
        agent.terminate()
        leader.until(lambda: bool(leader.of(Goodbye)))
        assert agent.ended(PATIENCE_S)
        assert agent.result().code == 0
    seqs = leader.seqs[life]
    assert seqs == list(range(1, len(seqs) + 1))


def test_A7_a_careful_job_is_reported_as_started_before_it_runs(services: Addresses, namespace: str, leader: Leader) -> None:
    with running(services, namespace):
        (job,) = leader.place(leader.incarnation(), ["quick"], careful=True)
        leader.until(lambda: job in leader.ends())
        (said,) = leader.of(Started)
        started_at = leader.ends()[job].started_at
        assert started_at is not None
        assert said.at <= started_at


def test_a_blocked_loop_stops_no_heartbeat(services: Addresses, namespace: str, leader: Leader) -> None:
    with running(services, namespace):
        life = leader.incarnation()
        (job,) = leader.place(life, ["blocks"])
        leader.until(lambda: job in leader.ends())
        end = leader.ends()[job]
        assert end.started_at is not None
        assert end.ended_at - end.started_at >= 5.0
        times = leader.times(Heartbeat)
        assert max(b - a for a, b in itertools.pairwise(times)) < 2.5
        assert not any(beat.suspended for beat in leader.of(Heartbeat))


def test_A12_a_fenced_agent_comes_back_as_another_incarnation(services: Addresses, namespace: str, leader: Leader) -> None:
    with running(services, namespace):
        first = leader.incarnation()
        (old,) = leader.place(first, ["slow"])
        leader.until(lambda: bool(leader.of(Started)))
        leader.fenced(first, "lost")
        second = leader.incarnation(1)
        assert len({first, second}) == 2
        leader.until(lambda: bool(leader.of(Heartbeat, second)))
        (new,) = leader.place(second, ["quick"])
        leader.until(lambda: {old, new} <= set(leader.ends()))
        under = {end.job: life for life, report, _ in leader.reports if hasattr(report, "ends") for end in getattr(report, "ends")}  # noqa: B009
        assert under == {old: first, new: second}


def test_A12_a_replaced_agent_exits_with_an_error(services: Addresses, namespace: str, leader: Leader) -> None:
    with running(services, namespace, name="twin") as agent:
        life = leader.incarnation()
        (job,) = leader.place(life, ["endless"])
        leader.until(lambda: bool(leader.of(Started)))
        leader.fenced(life, "replaced")
        assert agent.ended(PATIENCE_S)
        assert agent.result().code == 1
        assert "'twin'" in agent.result().reason
        leader.until(lambda: job in leader.ends())
        assert leader.ends()[job].outcome is Outcome.INTERRUPTED
        assert len(leader.of(Hello)) == len(leader.of(Hello, life))


def test_a_running_job_is_cancelled(services: Addresses, namespace: str, leader: Leader) -> None:
    with running(services, namespace):
        life = leader.incarnation()
        (job,) = leader.place(life, ["endless"])
        leader.until(lambda: bool(leader.of(Started)))
        leader.cancel(life, 1, job)
        leader.until(lambda: job in leader.ends())
        assert leader.ends()[job].outcome is Outcome.CANCELLED


def test_A11_sigterm_releases_finishes_and_says_goodbye_without_any_database(services: Addresses, namespace: str, leader: Leader) -> None:
    with started(services, namespace) as process:
        life = leader.incarnation()
        one, two = leader.place(life, ["slow", "slow"])
        third = leader.place(life, ["quick"])
        leader.until(lambda: len(leader.of(Started)) == 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        leader.until(lambda: bool(leader.of(Goodbye)))
    ends = leader.ends()
    assert {ends[job].outcome for job in (one, two)} == {Outcome.SUCCEEDED}
    assert leader.released() == third
    assert isinstance(leader.reports[-1][1], Goodbye)


def test_A11_after_the_grace_period_what_runs_is_interrupted(services: Addresses, namespace: str, leader: Leader) -> None:
    with started(services, namespace, grace_s=0.5) as process:
        (job,) = leader.place(leader.incarnation(), ["endless"])
        leader.until(lambda: bool(leader.of(Started)))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        leader.until(lambda: bool(leader.of(Goodbye)))
    assert leader.ends()[job].outcome is Outcome.INTERRUPTED


def test_A11_a_second_signal_ends_it_at_once(services: Addresses, namespace: str, leader: Leader) -> None:
    with started(services, namespace, grace_s=60.0) as process:
        (job,) = leader.place(leader.incarnation(), ["endless"])
        leader.until(lambda: bool(leader.of(Started)))
        process.send_signal(signal.SIGTERM)
        leader.until(lambda: any(beat.draining for beat in leader.of(Heartbeat)))
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        assert time.monotonic() - begun < 10.0
        leader.until(lambda: job in leader.ends())
    assert leader.ends()[job].outcome is Outcome.INTERRUPTED


def test_A6_without_confirmation_a_suspended_agent_starts_nothing(services: Addresses, namespace: str, leader: Leader) -> None:
    leader.lost_after_s = 2.5
    with started(services, namespace) as process:
        life = leader.incarnation()
        leader.heartbeat()
        leader.welcoming = False
        process.send_signal(signal.SIGSTOP)
        time.sleep(3.0)  # longer than its lease: time itself is what is tested
        jobs = leader.place(life, ["quick"])
        process.send_signal(signal.SIGCONT)
        leader.until(lambda: leader.released() == jobs)
        assert leader.ends() == {}
        assert any(beat.suspended for beat in leader.of(Heartbeat))
        leader.welcoming = True
        leader.until(lambda: not leader.heartbeat().suspended)
        (job,) = leader.place(life, ["quick"])
        leader.until(lambda: job in leader.ends())
