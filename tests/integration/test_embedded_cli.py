"""`jobyard dev` on real services."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from jobyard.kafka.readiness import brokers

ROOT = Path(__file__).parents[2]
DEV = [sys.executable, "-c", "from jobyard.cli.dev import app; app()"]


def dev(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if not name.startswith("JOBYARD_") or name == "JOBYARD_CACHE_DIR"}
    return subprocess.run([*DEV, *words, "--folder", str(folder)], capture_output=True, text=True, cwd=ROOT, env=env)


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
