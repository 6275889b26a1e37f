import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.embedded import foreground
from jobyard.embedded.foreground import Foreground, Program

# writes its name when it is asked to end
POLITE = """
import signal, sys, time
def end(signum, frame):
    open(sys.argv[1], "a").write(sys.argv[2] + "\\n")
    raise SystemExit(0)
signal.signal(signal.SIGTERM, end)
open(sys.argv[3], "w").close()
time.sleep(60)
"""


def program(tmp_path: Path, name: str, rank: int) -> Program:
    argv = [sys.executable, "-c", POLITE, str(tmp_path / "ends"), name, str(tmp_path / f"{name}.ready")]
    return Program(name, rank, argv, {}, 10)


def test_a_signal_ends_all_the_higher_ranks_first(tmp_path: Path) -> None:
    told: list[str] = []
    interrupted: list[bool] = []

    def ended() -> str | None:
        if not interrupted and (tmp_path / "coordinator.ready").exists() and (tmp_path / "agent.ready").exists():
            interrupted.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return None

    before = signal.getsignal(signal.SIGINT)
    Foreground([program(tmp_path, "coordinator", 0), program(tmp_path, "agent", 1)], tmp_path, told.append, ended).run()
    assert (tmp_path / "ends").read_text().split() == ["agent", "coordinator"]
    assert [line for line in told if line.startswith("ending")] == ["ending agent", "ending coordinator"]
    assert signal.getsignal(signal.SIGINT) is before


def test_all_end_when_one_ends_by_itself(tmp_path: Path) -> None:
    waiting = threading.Event()
    script = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'coordinator.ready')!r}): time.sleep(0.01)\nraise SystemExit(3)"
    agent = Program("agent", 1, [sys.executable, "-c", script], {}, 10)
    with pytest.raises(ServiceUnavailable, match=r"^agent ended by itself \(exit status 3: something was not found\)"):
        Foreground([program(tmp_path, "coordinator", 0), agent], tmp_path, lambda line: waiting.set(), lambda: None).run()
    assert (tmp_path / "ends").read_text().split() == ["coordinator"]


def test_all_end_when_a_service_has_ended(tmp_path: Path) -> None:
    def ended() -> str | None:
        return "kafka" if (tmp_path / "coordinator.ready").exists() else None

    with pytest.raises(ServiceUnavailable, match=r"^kafka ended by itself"):
        Foreground([program(tmp_path, "coordinator", 0)], tmp_path, lambda line: None, ended).run()
    assert (tmp_path / "ends").read_text().split() == ["coordinator"]


def test_a_program_that_restarts_is_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    told: list[str] = []
    once = f"import os, pathlib, time\nmark = pathlib.Path({str(tmp_path / 'once')!r})\nif not mark.exists():\n    mark.touch()\n    os.abort()\n"
    agent = Program("agent", 1, [sys.executable, "-c", once + "time.sleep(60)"], {}, 10, restarts=True)

    def ready() -> bool:
        return len([line for line in told if line.startswith("agent runs")]) == 2

    def tell(line: str) -> None:
        told.append(line)
        if line == "hello":
            os.kill(os.getpid(), signal.SIGTERM)

    Foreground([program(tmp_path, "coordinator", 0), agent], tmp_path, tell, lambda: None, ready, "hello").run()
    assert [line for line in told if "by itself" in line] == [
        "agent ended by itself (killed by SIGABRT); it is started again in 0.5 s, the others go on"
    ]
    assert (tmp_path / "ends").read_text().split() == ["coordinator"]


def test_a_program_that_ends_three_times_at_once_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "BACK_OFF_S", 0.01)
    told: list[str] = []
    agent = Program("agent", 1, [sys.executable, "-c", "raise SystemExit(2)"], {}, 10, restarts=True)
    with pytest.raises(ServiceUnavailable, match=r"^agent ended by itself \(exit status 2: wrong usage or settings\), 3 times in a row"):
        Foreground([agent], tmp_path, told.append, lambda: None).run()
    assert len([line for line in told if line.startswith("agent runs")]) == 3
    assert told[-1].endswith("ending everything")
