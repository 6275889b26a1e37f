"""The command line with a coordinator and an agent beside it, each a real process: waiting, results, failures, commands, signals."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from jobyard import settings
from jobyard.cli import app as cli
from jobyard.cli.exits import Exit
from jobyard.contracts.ids import new_job_id
from jobyard.embedded.services import Addresses

Run: TypeAlias = Callable[..., tuple[int, list[dict[str, Any]], str]]
PATIENCE_S = 60.0
SHOP = """
import time
from pathlib import Path

from jobyard import App, RetryPolicy, current_job

app = App()

@app.job
def add(a: int, b: int) -> int:
    return a + b

@app.job(retry=RetryPolicy(max_attempts=1))
def broken(path: str) -> str:
    if not Path(path).exists():
        raise FileNotFoundError(path)
    return "found"

@app.job
def slow() -> None:
    job = current_job()
    while not job.cancel_requested:
        time.sleep(0.01)
    job.raise_if_cancelled()
"""


class Processes:
    """A coordinator and an agent; what they say is in files."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.coordinator = self._start("coordinator", ["coordinator", "run"], environment)
        agents = {name: value for name, value in environment.items() if name != "JOBYARD_DATABASE_URL"}
        self.agent = self._start("agent", ["agent", "run", "liveshop:app", "--name", "live"], agents)

    def _start(self, name: str, arguments: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "jobyard.cli.app", *arguments], cwd=self.folder, env=environment, stdout=log, stderr=log
            )

    def said(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def end(self) -> None:
        for process in (self.agent, self.coordinator):
            process.kill()
            process.wait(PATIENCE_S)


@pytest.fixture
def environment(services: Addresses, database_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOBYARD_DATABASE_URL", database_url)
    monkeypatch.setenv("JOBYARD_KAFKA_BOOTSTRAP_SERVERS", services.kafka_bootstrap_servers)
    monkeypatch.setenv("JOBYARD_NAMESPACE", namespace)
    settings.forget()
    return dict(os.environ)


@pytest.fixture
def run(environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with --json: exit code, objects on stdout, stderr."""

    def run(*arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        code = cli.run([*arguments, "--json"])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return run


@pytest.fixture
def processes(run: Run, environment: dict[str, str], tmp_path: Path) -> Generator[Processes]:
    """Both processes, once the topics are there, what the code declares is synced, and the agent is ready."""
    (tmp_path / "liveshop.py").write_text(SHOP)
    assert run("topics", "create")[0] == 0
    assert run("app", "sync", "liveshop:app")[0] == 0
    with ExitStack() as stack:
        started = Processes(tmp_path, environment)
        stack.callback(started.end)
        until(started, lambda: [agent["state"] for agent in run("agent", "list")[1]] == ["active"])
        yield started


def until(processes: Processes, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, processes.said()
        assert processes.coordinator.poll() is None, processes.said()
        assert processes.agent.poll() is None, processes.said()
        time.sleep(0.1)


def test_jobs_run_fail_are_retried_and_cancelled_by_hand(run: Run, processes: Processes, tmp_path: Path) -> None:
    for via in ("sql", "kafka"):
        code, (ended,), _ = run("job", "submit", "add", '{"a": 1, "b": 2}', "--via", via, "--wait", "--wait-timeout", "60")
        assert (code, ended["state"], ended["result"]) == (0, "succeeded", 3), processes.said()
        assert run("job", "result", ended["job_id"])[:2] == (0, [{"job_id": ended["job_id"], "state": "succeeded", "result": 3}])
        code, (attempt,), _ = run("job", "history", ended["job_id"])
        assert (code, attempt["outcome"], attempt["agent"], attempt["is_final"]) == (0, "succeeded", "live", True)

    wanted = tmp_path / "wanted"
    code, (failed,), _ = run("job", "submit", "broken", json.dumps({"path": str(wanted)}), "--wait", "--wait-timeout", "60")
    assert (code, failed["state"], failed["error_type"]) == (Exit.REFUSED, "failed", "FileNotFoundError")
    code, (count,), _ = run("job", "errors")
    assert (count["kind"], count["error_type"], count["attempts"], count["jobs"]) == ("broken", "FileNotFoundError", 1, 1)
    code, _, err = run("job", "result", failed["job_id"])
    assert code == Exit.REFUSED
    assert "FileNotFoundError" in err
    code, (answer,), err = run("job", "cancel", failed["job_id"])
    assert (code, answer["done"]) == (Exit.REFUSED, False)
    assert "has ended" in err

    wanted.touch()
    code, (answer,), _ = run("job", "retry", "--error-type", "FileNotFoundError", "--reason", "it is there now", "--yes")
    assert (code, answer) == (0, {"job_id": failed["job_id"], "command": "retry", "done": True, "error": None})
    code, (ended,), _ = run("job", "wait", failed["job_id"], "--timeout", "60")
    assert (code, ended["state"], ended["result"]) == (0, "succeeded", "found")
    happened = run("job", "history", failed["job_id"], "--timeline")[1]
    assert [one["detail"]["reason"] for one in happened if one["event"] == "retried"] == ["it is there now"]

    code, (sent,), _ = run("job", "submit", "nobodys")
    until(processes, lambda: "an agent that runs kind nobodys" in run("job", "show", sent["job_id"])[1][0]["waits_for"])

    code, (said,), _ = run("job", "explain", sent["job_id"])
    assert (code, said["why"], said["kind"]) == (0, "no_agent", "nobodys")
    code, (said,), _ = run("job", "explain", failed["job_id"])
    assert (code, said["why"], said["state"], said["ends"]) == (0, "ended", "succeeded", 2)
    code, (answer,), _ = run("job", "reschedule", sent["job_id"], "--run-at", "in 2h", "--priority", "low")
    assert (code, answer["done"]) == (0, True)
    code, (said,), _ = run("job", "explain", sent["job_id"])
    assert (code, said["why"], said["priority"]) == (0, "future", "low")
    assert run("job", "reschedule", failed["job_id"], "--run-at", "now")[0] == Exit.REFUSED
    assert run("job", "explain", new_job_id())[0] == Exit.NOT_FOUND

    code, (sent,), _ = run("job", "submit", "slow")
    until(processes, lambda: run("job", "show", sent["job_id"])[1][0]["state"] == "running")
    code, (said,), _ = run("job", "explain", sent["job_id"])
    assert (code, said["why"], said["agent"], said["rule"]) == (0, "running", "live", "free")
    code, (answer,), _ = run("job", "cancel", sent["job_id"], "--reason", "enough")
    assert (code, answer["done"]) == (0, True)
    code, (ended,), _ = run("job", "wait", sent["job_id"], "--timeout", "60")
    assert (code, ended["state"]) == (Exit.REFUSED, "cancelled")

    code, (answer,), _ = run("job", "cancel", new_job_id())
    assert (code, answer["done"]) == (Exit.NOT_FOUND, False)
    code, lanes, _ = run("lane", "list")
    assert (lanes[0]["lane"], lanes[0]["led"], lanes[0]["leader"] is not None) == ("default", True, True)


def test_the_first_sigterm_ends_both_in_order(run: Run, processes: Processes) -> None:
    processes.agent.send_signal(signal.SIGTERM)
    assert processes.agent.wait(PATIENCE_S) == 0, processes.said()
    deadline = time.monotonic() + PATIENCE_S
    while run("agent", "list")[1]:
        assert time.monotonic() < deadline, processes.said()
        time.sleep(0.1)
    processes.coordinator.send_signal(signal.SIGINT)
    assert processes.coordinator.wait(PATIENCE_S) == 0, processes.said()
    assert "Traceback" not in processes.said()
