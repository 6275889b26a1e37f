"""Runs one program and ends it when its owner has gone, however the owner went.

Started by `jobyard.embedded.child` as a file (`python -I -S supervisor.py ORDER`), so it may use the standard library only. ORDER is JSON: `argv`,
`log` (a file to append to; null: the supervisor's own output), `stop_signal`, `patience_s` (from the stop signal to SIGKILL), `folder`, `uid`, `gid`
(null: as we are), `lifeline` and `report` (numbers of open pipes). The program gets the environment of the supervisor, since ORDER is for everybody to see.

The owner holds the other end of `lifeline` and never writes to it: end of file means that the owner closed it or is dead, and works on every Unix. Since a
forked child of the owner may hold a copy of that end, the parent's number is looked at, too. What happens is said in `report`, a line each: `pid N`, or
`failed REASON`. Exit status: the program's, or 128 + the signal that ended it.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType
from typing import Any

LOOK_S = 0.5  # how often the parent's number is looked at


def main(order: dict[str, Any]) -> int:
    owner = os.getppid()
    lifeline: int = order["lifeline"]
    asked: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        asked.append(signum)

    awake, wake = os.pipe()
    os.set_blocking(awake, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, note)

    log = None if order["log"] is None else open(order["log"], "ab", buffering=0)  # noqa: SIM115  open as long as we are
    with os.fdopen(order["report"], "w") as report:
        try:
            program = subprocess.Popen(  # noqa: S603  the argv is our owner's
                order["argv"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=order["folder"],
                user=order["uid"],
                group=order["gid"],
                extra_groups=None if order["uid"] is None else [],
            )
        except (OSError, subprocess.SubprocessError) as error:
            report.write(f"failed {error}\n")
            return 127
        report.write(f"pid {program.pid}\n")

    while program.poll() is None and not asked and os.getppid() == owner:
        readable, _, _ = select.select([lifeline, awake], [], [], LOOK_S)
        if awake in readable:
            os.read(awake, 4096)
        if lifeline in readable and not os.read(lifeline, 1):
            break
    end(program, order["stop_signal"], order["patience_s"])
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


def end(program: "subprocess.Popen[bytes]", stop_signal: int, patience_s: float) -> None:
    """Asks the program to stop, and kills it when its time is up."""
    deadline = time.monotonic() + patience_s
    if program.poll() is None:
        program.send_signal(stop_signal)
    try:
        program.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
