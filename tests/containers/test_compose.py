"""compose.yaml as users run it: up, jobs by the command line and by SQL, an agent killed, and what each container may do."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import psycopg
import pytest
from psycopg.rows import dict_row
from servers.contained import ROOT, docker, images, owner, sweep

pytestmark = pytest.mark.timeout(600)  # building the image and starting everything included

HERE: Final = Path(__file__).parent
PATIENCE_S: Final = 120.0
LOOK_S: Final = 0.2
SERVICES: Final = {"postgres": 1, "kafka": 1, "coordinator": 1, "agent": 2}
"""What stays, and how many of it."""
ONCE: Final = ("upgrade", "roles", "setup")
SECRETS: Final = ("superuser", "coordinator", "operator")

Row: TypeAlias = dict[str, Any]


@dataclass
class Project:
    """The compose project of this test, up."""

    name: str
    environment: dict[str, str]
    secrets: dict[str, str]
    said: str = ""
    """What the start printed."""

    def compose(
        self, *words: str, timeout_s: float = 300.0, environment: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Runs compose, whichever there is; never raises for what it says."""
        files = ["-f", str(ROOT / "compose.yaml"), "-f", str(HERE / "override.yaml")]
        argv = [*_compose(), "-p", self.name, *files, *words]
        chosen = self.environment if environment is None else environment
        return subprocess.run(argv, cwd=ROOT, env=chosen, capture_output=True, text=True, check=False, timeout=timeout_s)

    def ids(self, service: str) -> list[str]:
        """Containers of a service, also those that have ended."""
        labels = [f"label=com.docker.compose.project={self.name}", f"label=com.docker.compose.service={service}"]
        return docker("ps", "--all", "--quiet", "--no-trunc", *[word for label in labels for word in ("--filter", label)]).split()

    def inspect(self, service: str) -> list[Row]:
        """What Docker says about them."""
        found: list[Row] = json.loads(docker("inspect", *self.ids(service)))
        return found

    def sql(self, statement: str) -> list[Row]:
        """As the operator, by the port on this machine."""
        port = docker("port", self.ids("postgres")[0], "5432/tcp").splitlines()[0].rpartition(":")[2]
        url = f"postgresql://operator:{self.secrets['operator']}@127.0.0.1:{port}/jobyard"
        with psycopg.Connection[Row].connect(url, row_factory=dict_row) as connection:
            return connection.execute(statement.encode()).fetchall()

    def cli(self, *words: str) -> str:
        """What a command of Jobyard's prints, run as docs/operations.md says."""
        done = self.compose("run", "--rm", "-T", "cli", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def until(self, what: str, holds: Callable[[], object]) -> None:
        """Waits for it; fails with the end of all logs."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                pytest.fail(
                    f"not within {PATIENCE_S:.0f} s: {what}\n{self.said}\n{self.compose('ps').stdout}\n{self.compose('logs', '--tail=30').stdout}"
                )
            time.sleep(LOOK_S)


def _compose() -> list[str]:
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False, timeout=60).returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"]


@pytest.fixture(scope="module")
def image() -> Generator[str]:
    """Jobyard's image, as `docker build` makes it here, with the test's application on top."""
    names = images()
    tag = f"{owner()}-image"
    base, with_app = f"{tag}:base", f"{tag}:app"
    arguments = ["--build-arg", f"PYTHON_IMAGE={names['YARD_PYTHON_IMAGE']}", "--build-arg", f"BUILD_IMAGE={names['YARD_BUILD_IMAGE']}"]
    docker("build", "--quiet", "--network=host", *arguments, "--tag", base, str(ROOT), timeout_s=400)
    docker("build", "--quiet", "--build-arg", f"JOBYARD={base}", "--tag", with_app, str(HERE / "app"), timeout_s=100)
    yield with_app
    docker("image", "rm", "--force", with_app, base)


@pytest.fixture(scope="module")
def project(image: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Project]:
    """Everything up: healthy, and both agents there."""
    sweep()
    folder = tmp_path_factory.mktemp("compose") / "secrets"
    subprocess.run([str(ROOT / "compose" / "secrets.sh"), str(folder)], check=True, capture_output=True)
    environment = os.environ | images() | {"YARD_IMAGE": image, "YARD_APP": "contained_jobs:app", "YARD_SECRETS": str(folder)}
    up = Project(f"{owner()}-compose", environment, {name: (folder / name).read_text() for name in SECRETS})
    try:
        done = up.compose("up", "--detach", "--no-build")
        up.said = done.stdout + done.stderr
        assert done.returncode == 0, done.stderr + up.compose("logs", "--tail=30").stdout
        up.until("both agents are there", lambda: len(up.sql("select 1 from jobyard.agent_load where state = 'active'")) == 2)
        yield up
    finally:
        up.compose("down", "--volumes", "--timeout", "5")


def test_everything_gets_healthy(project: Project) -> None:
    def states() -> list[str]:
        return [found["State"]["Health"]["Status"] for service in SERVICES for found in project.inspect(service)]

    project.until("all are healthy", lambda: states() == ["healthy"] * sum(SERVICES.values()))
    assert {service: len(project.ids(service)) for service in SERVICES} == SERVICES
    assert [(found["State"]["Status"], found["State"]["ExitCode"]) for service in ONCE for found in project.inspect(service)] == [
        ("exited", 0)
    ] * len(ONCE)


def test_jobs_come_in_by_the_command_line_and_by_sql(project: Project) -> None:
    said = project.cli("job", "submit", "where", '{"n": 1}', "--wait", "--json")
    assert '"succeeded"' in said
    submitted = [str(project.sql(f"select jobyard.submit('where', '{{\"n\": {n}}}')::text as id")[0]["id"]) for n in range(2, 12)]
    wanted = ", ".join(f"'{job}'" for job in submitted)
    project.until(
        "all jobs have ended",
        lambda: len(project.sql(f"select 1 from jobyard.attempt_history where is_final and job_id in ({wanted})")) == 10,
    )
    rows = project.sql("select state, result, submitter, submitted_via from jobyard.job_status where kind = 'where' order by job_id")
    assert [row["result"]["n"] for row in rows] == list(range(1, 12))
    assert {(row["state"], row["submitter"], row["submitted_via"]) for row in rows} == {("succeeded", "operator", "sql")}
    assert {(row["result"]["uid"], row["result"]["database"]) for row in rows} == {(10001, False)}
    assert {row["result"]["host"] for row in rows} <= {container[:12] for container in project.ids("agent")}


def test_nobody_has_more_rights_than_needed(project: Project) -> None:
    for service in (*SERVICES, *ONCE):
        for found in project.inspect(service):
            host = found["HostConfig"]
            assert host["CapDrop"] == ["ALL"], service
            assert "no-new-privileges:true" in host["SecurityOpt"], service
            assert not host["Privileged"], service
            assert host["ReadonlyRootfs"] == (service != "kafka"), service
            if service in SERVICES:
                assert docker("exec", found["Id"], "id", "-u") != "0", service
            # the whole of what `docker inspect` shows
            assert not [name for name in SECRETS if project.secrets[name] in json.dumps(found)], service
    agent = project.ids("agent")[0]
    with pytest.raises(RuntimeError):  # no network leads to the database
        docker("exec", agent, "python3", "-c", "import socket; socket.getaddrinfo('postgres', 5432)")
    docker("exec", agent, "python3", "-c", "import socket; socket.getaddrinfo('kafka', 9092)")
    assert project.sql(
        "select rolname::text as name, rolsuper as super, pg_has_role(rolname, 'jobyard_coordinator', 'member') as leads "
        "from pg_roles where rolname in ('coordinator', 'operator') order by 1"
    ) == [{"name": "coordinator", "super": False, "leads": True}, {"name": "operator", "super": False, "leads": False}]
    assert project.sql(
        "select distinct usename::text as name from pg_stat_activity where application_name like 'jobyard-coordinator%'"
    ) == [{"name": "coordinator"}]


def test_a_killed_agents_job_ends_elsewhere(project: Project) -> None:
    for n in range(6):
        project.sql(f"select jobyard.submit('patient', '{{\"n\": {n}, \"seconds\": 6}}')")
    running = "select agent, job_id::text as job from jobyard.job_status where kind = 'patient' and state = 'running'"
    project.until("both agents run some", lambda: len({row["agent"] for row in project.sql(running)}) == 2)
    victim = project.ids("agent")[0]
    ran = {row["job"] for row in project.sql(running) if row["agent"].startswith(victim[:12])}
    docker("kill", victim)
    succeeded = "select 1 from jobyard.job_status where kind = 'patient' and state = 'succeeded'"
    project.until("all have ended", lambda: len(project.sql(succeeded)) == 6)
    rows = project.sql("select job_id::text as job, agent, outcome::text from jobyard.attempt_history where kind = 'patient'")
    lost = {row["job"] for row in rows if row["outcome"] == "lost"}
    assert ran
    assert ran <= lost
    on_victim = {(row["outcome"], row["agent"].startswith(victim[:12])) for row in rows}
    assert on_victim == {("lost", True), ("succeeded", False)}
    assert len(rows) == 6 + len(lost)


def test_without_secrets_it_says_what_is_missing(project: Project) -> None:
    environment = {name: value for name, value in project.environment.items() if name != "YARD_SECRETS"}
    done = project.compose("config", environment=environment)
    assert done.returncode != 0
    assert "compose/secrets.sh" in done.stderr


def test_an_orderly_end_loses_nothing(project: Project) -> None:
    """`stop` gives an agent the time that it wants, and it says goodbye. The last test: it takes the agents away."""
    done = project.compose("stop", "agent")
    assert done.returncode == 0, done.stderr
    # the one that was killed counts with 137
    assert sorted(found["State"]["ExitCode"] for found in project.inspect("agent")) == [0, 137]
    project.until("the agent has left", lambda: not project.sql("select 1 from jobyard.agent_load where state = 'active'"))
    assert [row["state"] for row in project.sql("select state::text from jobyard.agents order by state")] == ["gone", "lost"]
