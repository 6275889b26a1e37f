"""`jobyard dev` on real services."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from jobyard.embedded.identity import Identity
from jobyard.kafka.readiness import brokers

ROOT = Path(__file__).parents[2]
SHOP = """
from jobyard import App, RetryPolicy

app = App()


@app.job(retry=RetryPolicy(max_attempts=1))
def count(up_to: int) -> int:
    return sum(range(up_to))
"""
DEV = [sys.executable, "-m", "jobyard.cli.app", "dev"]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("JOBYARD_") or name == "JOBYARD_CACHE_DIR"}


def dev(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*DEV, *words, "--folder", str(folder)], capture_output=True, text=True, cwd=ROOT, env=environment())


@pytest.fixture
def running(services_folder: Path, tmp_path: Path) -> "Generator[tuple[subprocess.Popen[str], list[Identity], Path]]":
    """`dev run` with two agents, what it has started, and its folder."""
    (tmp_path / "shop.py").write_text(SHOP)
    folder = services_folder / "run"
    command = [*DEV, "run", "shop:app", "--agents", "2", "--folder", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment(), start_new_session=True) as process:
        assert process.stderr is not None
        said: list[str] = []
        started: list[int] = []
        while len(started) < 3:
            line = process.stderr.readline()
            assert line, "it ended before all ran:\n" + "".join(said)
            said.append(line)
            if found := re.match(r"(coordinator|agent-\d) runs \(process (\d+)\)", line):
                started.append(int(found[2]))
        status = json.loads(dev(folder, "status", "--json").stdout)
        pids = [*started, status["kafka"]["pid"], status["postgres"]["pid"]]
        yield process, [known for pid in pids if (known := Identity.of(pid)) is not None], folder
        process.kill()


def gone(processes: list[Identity], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while any(process.alive() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.timeout(240)
def test_a_signal_to_dev_run_ends_all_in_order(running: "tuple[subprocess.Popen[str], list[Identity], Path]") -> None:
    process, started, folder = running
    assert len(started) == 5
    down = dev(folder, "down")
    assert down.returncode == 1
    assert f"belongs to process {process.pid}" in down.stderr
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    ending = [line.split()[1] for line in process.stderr if line.startswith("ending ")]
    assert process.wait() == 0
    assert sorted(ending[:2]) == ["agent-1", "agent-2"]
    assert ending[2:] == ["coordinator"]
    assert gone(started, 0)


@pytest.mark.timeout(240)
def test_dev_run_syncs_says_when_all_is_ready_and_starts_an_agent_again(
    running: "tuple[subprocess.Popen[str], list[Identity], Path]", tmp_path: Path
) -> None:
    process, started, folder = running
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    ready = next(line for line in lines if line.startswith("ready"))
    assert ready == f'ready; in another terminal: eval "$(jobyard dev env --folder {folder})"\n'
    env = json.loads(dev(folder, "env", "--json").stdout)
    with psycopg.connect(env["JOBYARD_DATABASE_URL"]) as connection:
        kinds = connection.execute("select kind, max_attempts from jobyard.kinds where declared").fetchall()
    assert kinds == [("count", 1)]
    os.kill(started[1].pid, signal.SIGKILL)
    ended = next(line for line in lines if "by itself" in line)
    assert ended == "agent-1 ended by itself (killed by SIGKILL); it is started again in 0.5 s, the others go on\n"
    assert next(line for line in lines if line.startswith("agent-1 runs"))
    process.send_signal(signal.SIGINT)
    process.stderr.read()
    assert process.wait() == 0


@pytest.mark.timeout(240)
def test_nothing_is_left_running_when_dev_run_is_killed(running: "tuple[subprocess.Popen[str], list[Identity], Path]") -> None:
    process, started, folder = running
    assert len(started) == 5
    process.kill()
    process.wait()
    assert gone(started, 60)
    assert json.loads(dev(folder, "status", "--json").stdout)["running"] is False


@pytest.mark.timeout(240)
def test_up_leaves_services_running_until_down(services_folder: Path) -> None:
    folder = services_folder / "cli"
    up = dev(folder, "up", "--json")
    assert up.returncode == 0, up.stderr
    try:
        found = json.loads(up.stdout)
        assert found["running"] is True
        env = json.loads(dev(folder, "env", "--json").stdout)
        lines = dict(line.removeprefix("export ").split("=", 1) for line in dev(folder, "env").stdout.splitlines())
        assert set(lines) == set(env) == {"JOBYARD_DATABASE_URL", "JOBYARD_KAFKA_BOOTSTRAP_SERVERS"}
        with psycopg.connect(env["JOBYARD_DATABASE_URL"]) as connection:
            row = connection.execute("select to_regclass('jobyard.jobs') is not null, current_setting('fsync')").fetchone()
        assert row == (True, "on")
        assert brokers(env["JOBYARD_KAFKA_BOOTSTRAP_SERVERS"], timeout_s=10) == 1
        password = (folder / "postgres.password").read_text()
        assert password not in dev(folder, "status").stdout + up.stdout

        again = dev(folder, "up", "--json")
        assert json.loads(again.stdout) == found, "what runs is left alone"

        os.kill(found["kafka"]["pid"], signal.SIGKILL)
        os.kill(found["postgres"]["pid"], signal.SIGKILL)
        assert dev(folder, "status").returncode == 4
        mended = dev(folder, "up", "--json")
        assert mended.returncode == 0, mended.stderr
        assert json.loads(mended.stdout)["kafka"]["address"] == found["kafka"]["address"]
        assert dev(folder, "status").returncode == 0
    finally:
        down = dev(folder, "down", "--json")
    assert down.returncode == 0, down.stderr
    assert json.loads(down.stdout)["running"] is False
    assert dev(folder, "env").returncode == 4
