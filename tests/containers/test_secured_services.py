"""Jobyard on a Kafka and a Postgres that let in nobody without TLS and a password: each process with its own user, and no right more than it needs."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
import psycopg
import pytest
from promises import mixed_jobs
from psycopg.rows import dict_row
from servers.contained import images, sweep
from servers.secured_kafka import Certificates, KafkaAdministrator, SecuredKafka, User
from servers.secured_postgres import SecuredPostgres, logins, tls

from jobyard import migrations
from jobyard.contracts import codec
from jobyard.contracts.reports import End, Finished, Reports
from jobyard.contracts.rights import Process, rights_of
from jobyard.contracts.states import Outcome
from jobyard.contracts.topics import lane_topics
from jobyard.embedded.child import Child
from jobyard.kafka.producer import open_producer

NAMESPACE: Final = "sec"
TESTS: Final = Path(__file__).parents[1]
PATIENCE_S: Final = 100.0
JOBS: Final = 10
"""By each way."""


class Secured:
    """The services, a user and a login role for each process, and the processes that were started."""

    def __init__(self, folder: Path, certificates: Certificates, kafka: SecuredKafka, postgres: SecuredPostgres) -> None:
        self.folder = folder
        self.certificates = certificates
        self.servers = kafka.bootstrap_servers
        self.url = postgres.url
        migrations.upgrade(self.url)
        self.logins = logins(self.url)
        self.users = {name: User(name) for name in ("agent-a", "agent-b", "shop", "leader")}
        administrator = KafkaAdministrator(self.servers, kafka.admin.options(certificates.ca))
        administrator.add(*self.users.values())
        processes: dict[str, Process] = {"agent-a": "agent", "agent-b": "agent", "shop": "client", "leader": "coordinator"}
        for name, process in processes.items():
            administrator.allow(self.users[name], *rights_of(process, NAMESPACE, "default"))
        self.children: dict[str, Child] = {}

    def options(self, user: str) -> dict[str, str]:
        found: dict[str, str] = self.users[user].options(self.certificates.ca)
        return found

    def environment(self, user: str, login: str | None) -> dict[str, str]:
        """Of one process: its own secrets, in files that only it needs."""
        wanted = {"KAFKA_OPTIONS": json.dumps(self.options(user)), "DATABASE_URL": "" if login is None else self.logins[login]}
        settings = {"JOBYARD_KAFKA_BOOTSTRAP_SERVERS": self.servers, "JOBYARD_NAMESPACE": NAMESPACE, "PYTHONPATH": str(TESTS)}
        for name, content in wanted.items():
            if content:
                file = self.folder / f"{user}.{login}.{name}"
                file.write_text(content)
                file.chmod(0o600)
                settings[f"JOBYARD_{name}_FILE"] = str(file)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("JOBYARD_")}
        return inherited | settings | {mixed_jobs.JOURNAL: str(self.folder / "journal"), "JOBYARD_GRACE_S": "5"}

    def start(self, name: str, user: str, login: str | None, *words: str) -> None:
        self.children[name] = Child(
            [sys.executable, "-m", "jobyard.cli.app", *words],
            stop_signal=signal.SIGTERM,
            patience_s=20.0,
            log=self.folder / f"{name}.log",
            env=self.environment(user, login),
            folder=self.folder,
        )

    def run(self, name: str, user: str, login: str, *words: str) -> str:
        """A command that must succeed; what it said."""
        self.start(name, user, login, *words)
        child = self.children.pop(name)
        assert child.wait(PATIENCE_S)
        said = self.said(name)
        assert child.returncode() == 0, said
        return said

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def rows(self, sql: str, login: str = "auditor") -> list[dict[str, Any]]:
        url = self.url if login == "superuser" else self.logins[login]
        with psycopg.Connection[dict[str, Any]].connect(url, row_factory=dict_row) as connection:
            return connection.execute(sql.encode()).fetchall()

    def until(self, what: str, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            for name, child in self.children.items():
                assert child.alive(), f"{name} ended: {self.said(name)}"
            assert time.monotonic() < deadline, f"{what}: {[self.said(name)[-2000:] for name in self.children]}"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Generator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certificates = Certificates(folder)
    sweep()
    found = images()
    with (
        SecuredKafka(folder, certificates, found["YARD_KAFKA_IMAGE"]) as kafka,
        SecuredPostgres(certificates, found["YARD_POSTGRES_IMAGE"]) as postgres,
    ):
        made = Secured(folder, certificates, kafka, postgres)
        try:
            yield made
        finally:
            for child in made.children.values():
                child.stop()


def test_jobs_run_with_least_rights_and_nothing_is_refused(secured: Secured) -> None:
    secured.run("topics", "leader", "coordinator", "topics", "create", "--lane", "default")
    secured.run("sync", "shop", "operator", "app", "sync", "promises.mixed_jobs:app")
    secured.start("coordinator", "leader", "coordinator", "coordinator", "run")
    for agent in ("agent-a", "agent-b"):
        secured.start(agent, agent, None, "agent", "run", "promises.mixed_jobs:app", "--name", agent)
    lines = secured.folder / "lines"
    for via in ("sql", "kafka"):
        lines.write_text("".join(json.dumps({"kind": "task", "args": {"n": n}}) + "\n" for n in range(JOBS)))
        secured.run(f"submit-{via}", "shop", "client", "job", "submit", "--from", str(lines), "--via", via)
    done = "select count(*) as jobs, array_agg(distinct submitted_via::text) as ways from jobyard.job_status where state = 'succeeded'"
    secured.until("all jobs have succeeded", lambda: secured.rows(done)[0]["jobs"] == 2 * JOBS)
    assert set(secured.rows(done)[0]["ways"]) == {"sql", "kafka"}

    # what a thief of a process' memory, environment or log finds of the others
    for name, child in secured.children.items():
        process = Path("/proc") / str(child.pid)
        environment, words = process.joinpath("environ").read_text(), process.joinpath("cmdline").read_text()
        for secret in [*(user.password for user in secured.users.values()), *secured.logins.values()]:
            assert secret not in environment + words + secured.said(name)
        if name.startswith("agent"):
            assert "DATABASE" not in environment
            assert "5432" not in environment


def test_L14_a_stolen_agents_reports_for_anothers_job_are_quarantined(secured: Secured) -> None:
    args = json.dumps({"n": 7, "first_s": 8.0, "again_s": 0.0})
    secured.run("submit-patient", "shop", "client", "job", "submit", "patient", args)
    held = "select job_id::text, fence, name as agent from jobyard.running join jobyard.agents using (agent_id)"
    secured.until("the job runs", lambda: secured.rows(held, "superuser"))
    (row,) = secured.rows(held, "superuser")
    now = time.time()
    end = End(job=row["job_id"], attempt=1, outcome=Outcome.SUCCEEDED, started_at=now, ended_at=now, result=msgspec.Raw(b'"forged"'))
    forged = Reports(
        v=codec.VERSION,
        agent=row["agent"],
        incarnation=str(uuid4()),
        seq=1,
        reports=[Finished(fence=row["fence"], ends=[end], busy_s=0.0)],
    )
    thief = open_producer(secured.servers, secured.options("agent-b"), timeout_s=20.0)
    thief.produce(lane_topics(NAMESPACE, "default").reports.name, codec.encode(forged))
    assert thief.close(20.0) == 0
    reasons = "select topic, reason from jobyard.quarantine"
    secured.until("it is quarantined", lambda: secured.rows(reasons, "superuser"))
    (quarantined,) = secured.rows(reasons, "superuser")
    assert quarantined["topic"] == f"{NAMESPACE}.default.reports"
    assert f"under fence {row['fence']}: it belongs to " in quarantined["reason"], quarantined
    ended = f"select state::text, result::text from jobyard.job_status where job_id = '{row['job_id']}'"
    secured.until("the job has ended", lambda: secured.rows(ended)[0]["state"] not in ("placed", "running"))
    assert secured.rows(ended) == [{"state": "succeeded", "result": "7"}]


def test_processes_end_in_order_and_none_was_refused_anything(secured: Secured) -> None:
    for name in ("agent-a", "agent-b", "coordinator"):
        child = secured.children.pop(name)
        child.send(signal.SIGTERM)
        assert child.wait(PATIENCE_S)
        assert child.returncode() == 0, secured.said(name)
        for word in ("AUTHORIZATION", "denied", "refused", "may not", "WARNING jobyard.kafka", "ERROR jobyard.kafka"):
            assert word not in secured.said(name), secured.said(name)


@pytest.mark.parametrize("login", ["coordinator", "client", "operator", "auditor"])
def test_each_role_gets_in_by_tls_alone(secured: Secured, login: str) -> None:
    right = secured.logins[login]
    assert secured.rows("select ssl, version from pg_stat_ssl where pid = pg_backend_pid()", login)[0]["ssl"]
    plain = right.partition("?")[0]
    refusals = {
        f"{plain}?sslmode=disable": "no encryption",
        tls(plain, secured.certificates.strange_ca): "certificate verify failed",
        right.replace("@127.0.0.1:", "@localhost:"): "does not match host name",
    }
    for url, said in refusals.items():
        with pytest.raises(psycopg.OperationalError, match=said):
            psycopg.connect(url)


def test_no_role_reaches_further_than_it_must(secured: Secured) -> None:
    submit, look, args = (
        "select jobyard.submit('tiny', '{\"n\": 1}')",
        "select args from jobyard.job_status",
        "select args from jobyard.jobs",
    )
    for login, statements in {
        "client": [look, args, "select * from jobyard.quarantine", "delete from jobyard.jobs", "select jobyard.operate('default', 'sync')"],
        "auditor": [submit, args, "select jobyard.cancel(jobyard.uuidv7(now()))"],
        "coordinator": [submit, "delete from jobyard.leases"],
        "operator": ["delete from jobyard.jobs", "update jobyard.leases set epoch = 1", "select pg_read_file('server.key')"],
    }.items():
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                secured.rows(statement, login)


def test_an_untrusted_server_ends_a_coordinator_instead_of_being_waited_for(secured: Secured) -> None:
    secured.logins["misled"] = tls(secured.logins["coordinator"].partition("?")[0], secured.certificates.strange_ca)
    secured.start("misled", "leader", "misled", "coordinator", "run")
    child = secured.children.pop("misled")
    assert child.wait(PATIENCE_S)
    assert child.returncode() == 2
    assert "sslrootcert" in secured.said("misled")
    assert secured.logins["misled"].split("@")[0].rpartition(":")[2] not in secured.said("misled")
