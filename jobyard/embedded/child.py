"""A program that ends with this process: when it is stopped, when the process ends, and when the process is killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobyard.contracts.errors import ServiceUnavailable
from jobyard.embedded import supervisor
from jobyard.embedded.account import Account


class Child:
    """Started at once, in a session of its own (a Ctrl-C in the terminal reaches only us), under a supervisor that holds a pipe to this process.

    `log` is a file to append to; without it the program writes where this process writes. `account` is who runs it; None: as we are.
    `stop_signal` asks it to end, SIGKILL follows after `patience_s` seconds. Raises ServiceUnavailable if the program cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        stop_signal: signal.Signals,
        patience_s: float,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        account: Account | None = None,
    ) -> None:
        held, self._lifeline = os.pipe()
        told, report = os.pipe()
        order = {
            "argv": list(argv),
            "log": None if log is None else str(log),
            "stop_signal": int(stop_signal),
            "patience_s": patience_s,
            "folder": None if folder is None else str(folder),
            "uid": None if account is None else account.uid,
            "gid": None if account is None else account.gid,
            "lifeline": held,
            "report": report,
        }
        try:
            self._supervisor = subprocess.Popen(  # noqa: S603  our own interpreter and file
                [sys.executable, "-I", "-S", str(Path(supervisor.__file__)), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                env=env,  # not in the order: every user of the machine sees command lines, and it may hold passwords
                start_new_session=True,
                pass_fds=(held, report),
            )
        except OSError:
            os.close(self._lifeline)
            os.close(told)
            raise
        finally:
            os.close(held)
            os.close(report)
        with os.fdopen(told) as lines:
            word, _, rest = lines.readline().strip().partition(" ")
        if word != "pid":
            self.ask_to_stop()
            self._supervisor.wait()
            raise ServiceUnavailable(f"{argv[0]} cannot be started: {rest or 'its supervisor ended'}")
        self.pid = int(rest)

    def alive(self) -> bool:
        return self._supervisor.poll() is None

    def returncode(self) -> int | None:
        """The program's exit status, 128 + N if signal N ended it; None while it runs."""
        return self._supervisor.poll()

    def send(self, what: signal.Signals) -> None:
        """Sends a signal to the program; nothing happens if it has ended."""
        if self.alive():
            try:
                os.kill(self.pid, what)
            except ProcessLookupError:
                return

    def ask_to_stop(self) -> None:
        """Lets go of the program: its supervisor ends it. Returns at once; may be called twice."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the program has ended; False if it has not in `timeout_s`. None: as long as it takes."""
        try:
            self._supervisor.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self.ask_to_stop()
        return True

    def stop(self) -> None:
        """Ends the program and waits until it has ended."""
        self.ask_to_stop()
        self._supervisor.wait()
