"""Jobyard as its users run it: embedded services, a coordinator and agents as processes of their own."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

FOLDER = Path(".jobyard") / "bench"


@dataclass
class Product:
    """A running installation. `processes`: by name."""

    database_url: str
    kafka: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])

    def command(self, *arguments: str) -> None:
        """A command of the CLI that must succeed."""
        subprocess.run([sys.executable, "-m", "jobyard.cli.app", *arguments], check=True, stdout=subprocess.DEVNULL)

    def start(self, name: str, *arguments: str) -> None:
        """Start a process of the CLI; its log goes to the bench's folder."""
        with (FOLDER / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen([sys.executable, "-m", "jobyard.cli.app", *arguments], stdout=log, stderr=log)

    def cpu_s(self, name: str) -> float:
        """CPU seconds that a process has used so far (Linux)."""
        fields = Path(f"/proc/{self.processes[name].pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def await_agents(self, count: int) -> None:
        """Wait until so many agents were heard from by the leader."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                row = connection.execute("select count(*) from jobyard.agent_load where state = 'active'").fetchone()
                if row is not None and row[0] >= count:
                    return
                time.sleep(0.05)
        raise SystemExit(f"{count} agents did not join within 60 s; logs are in {FOLDER}")

    def stop(self) -> None:
        """SIGTERM to all, agents first."""
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        self.processes.clear()


@contextmanager
def product() -> Generator[Product]:
    """An installation on embedded services of the bench's own, or on those that the environment names."""
    from jobyard.embedded.services import Services

    shutil.rmtree(FOLDER, ignore_errors=True)  # each figure starts with an empty database
    FOLDER.mkdir(parents=True)
    with Services(FOLDER, owned=True) as services:
        os.environ["JOBYARD_DATABASE_URL"] = services.database_url
        os.environ["JOBYARD_KAFKA_BOOTSTRAP_SERVERS"] = services.kafka_bootstrap_servers
        made = Product(services.database_url, services.kafka_bootstrap_servers)
        made.command("db", "upgrade")
        made.command("topics", "create")
        made.command("app", "sync", "bench.jobs:app")
        try:
            yield made
        finally:
            made.stop()
