"""Handlers that return, raise and do what they should not, on a real agent process: each attempt has its end, the others go on, the agent lives."""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import hostile_jobs
import pytest
from agent_leader import Leader

from jobyard.contracts import storable
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End, Goodbye, Progress
from jobyard.contracts.retry import LONGEST_DELAY_S
from jobyard.contracts.rules import RULES
from jobyard.embedded.services import Addresses

PATIENCE_S = 60.0
PROGRAM = """
import sys
sys.path.insert(0, {here!r})
import hostile_jobs
from jobyard.agent.main import AgentPlan, run
sys.exit(run(AgentPlan(app=hostile_jobs.app, bootstrap_servers={servers!r}, namespace={namespace!r}, slots=8, name="besieged", grace_s=5.0)))
"""


@pytest.fixture
def leader(services: Addresses, namespace: str) -> Generator[Leader]:
    made = Leader(services.kafka_bootstrap_servers, namespace, lost_after_s=60.0)
    yield made
    made.close()


def test_whatever_a_handler_does_each_attempt_ends_and_the_agent_lives(services: Addresses, namespace: str, leader: Leader) -> None:
    program = PROGRAM.format(here=str(Path(__file__).parent), servers=services.kafka_bootstrap_servers, namespace=namespace)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JOBYARD_")}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL)
    try:
        life = leader.incarnation()
        jobs: dict[str, str] = {}
        for kind in hostile_jobs.EXPECTED:
            beside = [Job(id=new_job_id(), kind=one) for one in (kind, "good", "good_too")]
            leader.place(life, [], jobs=beside)
            jobs |= {job.id: job.kind for job in beside}

        def all_ended() -> bool:
            assert process.poll() is None, f"the agent has ended with status {process.returncode}"
            return len(leader.ends()) + len(leader.released()) >= len(jobs)

        leader.until(all_ended, PATIENCE_S)
        # given back since nobody had a slot for them in time (S9): once more
        while left := [Job(id=job, kind=jobs[job]) for job in jobs if job not in leader.ends()][:8]:
            count = len(leader.ends())
            leader.place(life, [], jobs=left)
            leader.until(lambda before=count: len(leader.ends()) > before, PATIENCE_S)  # type: ignore[misc]
        ends = leader.ends()
        wrong = [f"{jobs[job]}: {told(end)}" for job, end in ends.items() if not as_expected(jobs[job], end)]
        assert wrong == []
        assert all(len(progress.message.encode()) <= 2_000 for progress in leader.of(Progress))
        assert leader.incarnation() == life
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        leader.until(lambda: bool(leader.of(Goodbye)))
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def told(end: End) -> str:
    return f"{end.outcome.value} {end.error and end.error.type} {end.error and end.error.message[:200]!r} {bytes(end.result)[:60]!r} {end.delay_s}"


def as_expected(kind: str, end: End) -> bool:
    """The right outcome and error, all of it storable and bounded; a delay that can be waited for."""
    outcome, error = hostile_jobs.EXPECTED.get(kind, hostile_jobs.SUCCEEDED)
    fits = end.outcome.value == outcome
    if error:
        fits &= end.error is not None and end.error.type == error
    if kind == "does.forks_and_comes_back_twice":
        fits &= bytes(end.result) == b"70"  # the child has ended itself
    if end.error is not None:
        texts = (end.error.type, end.error.message, end.error.traceback)
        fits &= all(storable.text(text, 20_000) == text for text in texts)
    fits &= storable.problem_of_json(bytes(end.result), RULES.max_result_bytes) is None
    if error == "jobyard.InvalidResult":
        fits &= not end.retryable
    return fits and (end.delay_s is None or 0.0 <= end.delay_s <= LONGEST_DELAY_S)
