"""Supervised programs and their records: what must hold however a process ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobyard.contracts.errors import ConfigurationError, Refused, ServiceUnavailable
from jobyard.embedded.child import Child
from jobyard.embedded.identity import Identity, command_line
from jobyard.embedded.server import Server

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]
OWNER = """
import sys, time
from pathlib import Path
import os, signal
from jobyard.embedded.child import Child
child = Child([sys.executable, "-c", "import time; time.sleep(60)"], stop_signal=signal.SIGTERM, patience_s=5)
if sys.argv[1] == "fork" and os.fork() == 0:
    time.sleep(20)  # holds a copy of the lifeline
    os._exit(0)
print(child.pid, flush=True)
time.sleep(60)
"""


def eventually(holds: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["plain", "fork"])
def test_a_child_ends_when_its_owner_is_killed(how: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, how], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert owner.stdout is not None
    with owner.stdout:
        child = Identity.of(int(owner.stdout.readline()))
        assert child is not None
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        eventually(lambda: not child.alive())
    if how == "fork":
        os.killpg(owner.pid, signal.SIGKILL)


def test_a_child_that_will_not_end_is_killed_when_its_patience_is_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child(STUBBORN, stop_signal=signal.SIGTERM, patience_s=0.3, log=log)
    eventually(lambda: "deaf" in log.read_text())
    began = time.monotonic()
    child.stop()
    assert 0.3 <= time.monotonic() - began < 5
    assert child.returncode() == 128 + signal.SIGKILL


def test_a_childs_exit_status_is_told() -> None:
    child = Child([sys.executable, "-c", "raise SystemExit(7)"], stop_signal=signal.SIGTERM, patience_s=5)
    assert child.wait(10)
    assert child.returncode() == 7


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable, match="No such file"):
        Child([str(tmp_path / "none")], stop_signal=signal.SIGTERM, patience_s=5)


def test_an_identity_is_of_one_process_only() -> None:
    here = Identity.here()
    assert here.alive()
    assert not Identity(here.pid, "another boot").alive()
    assert "python" in command_line(here.pid)
    done = subprocess.Popen([sys.executable, "-c", ""])
    was = Identity.of(done.pid)
    os.waitid(os.P_PID, done.pid, os.WEXITED | os.WNOWAIT)
    assert Identity.of(done.pid) is None, "only its exit status is left"
    done.wait()
    assert was is None or not was.alive()


def server(folder: Path, owned: bool) -> Server:
    return Server("thing", folder, owned=owned, stop_signal=signal.SIGTERM, patience_s=5)


def test_a_server_left_running_is_found_and_stopped_by_another(tmp_path: Path) -> None:
    server(tmp_path, owned=False).launch(SLEEP, env={}, folder=tmp_path)
    owner = server(tmp_path, owned=True)
    assert owner.attach()
    owner.stop()
    assert owner.pid() is not None, "an owner ends only what it started"
    other = server(tmp_path, owned=False)
    other.stop()
    assert other.pid() is None
    assert not other.attach()


def test_a_server_that_belongs_to_a_living_process_is_left_alone(tmp_path: Path) -> None:
    mine = server(tmp_path, owned=True)
    mine.launch(SLEEP, env={}, folder=tmp_path)
    with pytest.raises(ConfigurationError, match=f"belongs to process {os.getpid()}"):
        server(tmp_path, owned=True).attach()
    record = json.loads((tmp_path / "thing.process").read_text())
    parent = Identity.of(os.getppid())
    assert parent is not None
    record["owner"] = {"pid": parent.pid, "began": parent.began}
    (tmp_path / "thing.process").write_text(json.dumps(record))
    with pytest.raises(Refused, match=f"belongs to process {parent.pid}"):
        server(tmp_path, owned=False).stop()
    assert mine.pid() is not None
    mine.kill(signal.SIGKILL)
    assert mine.pid() is None


@pytest.mark.parametrize("record", ["", "{", "[]", json.dumps({"server": {"pid": 1, "began": "long ago"}, "owner": None})])
def test_a_record_of_a_crashed_machine_counts_as_none(tmp_path: Path, record: str) -> None:
    (tmp_path / "thing.process").write_text(record)
    assert server(tmp_path, owned=True).pid() is None
    assert not server(tmp_path, owned=True).attach()


def test_a_server_that_ends_while_it_starts_shows_the_end_of_its_log(tmp_path: Path) -> None:
    thing = server(tmp_path, owned=True)
    thing.launch([sys.executable, "-c", "print('config is wrong')"], env={}, folder=tmp_path)
    with pytest.raises(ServiceUnavailable, match=r"(?s)thing ended while it started; the end of its log, .*thing\.log:\nconfig is wrong"):
        thing.ready_when(lambda: False, 10, lambda tail: None)
    thing.stop()


def test_a_server_that_does_not_answer_in_time_is_an_error(tmp_path: Path) -> None:
    thing = server(tmp_path, owned=True)
    thing.launch(SLEEP, env={}, folder=tmp_path)
    with pytest.raises(ServiceUnavailable, match="thing did not answer within 0 s"):
        thing.ready_when(lambda: False, 0.1, lambda tail: None)
    thing.stop()


def test_a_full_disk_is_said_in_one_sentence(tmp_path: Path) -> None:
    thing = server(tmp_path, owned=True)
    thing.launch([sys.executable, "-c", "print('FATAL: could not write: No space left on device')"], env={}, folder=tmp_path)
    with pytest.raises(ServiceUnavailable, match=r"^the disk is full, so thing did not start: make room"):
        thing.ready_when(lambda: False, 10, lambda tail: None)
    thing.stop()


def test_the_environment_of_a_child_stands_in_no_command_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = [sys.executable, "-c", "import os, time; print(os.getppid(), os.environ['SECRET'], flush=True); time.sleep(60)"]
    child = Child(program, stop_signal=signal.SIGTERM, patience_s=5, log=log, env={"SECRET": "canary"})
    try:
        eventually(lambda: log.read_text().endswith("\n"))
        supervisor, secret = log.read_text().split()
        assert secret == "canary"
        for pid in (int(supervisor), child.pid):
            assert "python" in command_line(pid)
            assert "canary" not in command_line(pid)
    finally:
        child.stop()
