"""One server process of a folder: who started it, whether it runs, how it ends, what its log says."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jobyard.contracts.errors import ConfigurationError, JobyardError, Refused, ServiceUnavailable
from jobyard.embedded.account import Account
from jobyard.embedded.child import Child
from jobyard.embedded.identity import Identity

LOOK_S = 0.03  # between two questions to a server that starts or ends
TAIL_LINES = 15
# programs left running: kept, since Popen warns when it is forgotten before its program has ended
LEFT_RUNNING: "list[subprocess.Popen[bytes]]" = []
LOG_BYTES = 10_000_000  # a longer log is put aside at the next start


class Server:
    """`owned`: ends with this process (see Child); else it is left running and only `stop` ends it.

    What runs is written to `<name>.process` in the folder, with its owner, so that any later process knows it. A record of a
    process that is gone, of this boot or an earlier one, counts as none.
    """

    def __init__(self, name: str, folder: Path, *, owned: bool, stop_signal: signal.Signals, patience_s: float) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._record = folder / f"{name}.process"
        self._owned = owned
        self._stop_signal = stop_signal
        self._patience_s = patience_s
        self._child: Child | None = None
        self._detached: subprocess.Popen[bytes] | None = None

    def attach(self) -> bool:
        """Whether a server of this folder runs that anybody may use. Waits for one whose owner has died to end.

        Raises ConfigurationError if the server belongs to a process that lives.
        """
        server, owner = self._recorded()
        if server is None:
            return False
        if owner is None:
            return True
        if owner.alive():
            raise ConfigurationError(
                f"{self.name} in {self._record.parent} belongs to process {owner.pid}: end that process, or work in another folder"
            )
        if not self._gone(server, self._patience_s):
            self._end(server, signal.SIGKILL)
        return False

    def launch(self, argv: Sequence[str], *, env: Mapping[str, str], folder: Path, account: Account | None = None) -> None:
        """Starts the program. Raises ServiceUnavailable if it cannot be executed."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.old"))
        with self.log.open("a") as log:
            log.write(f"--- started {time.strftime('%Y-%m-%d %H:%M:%S %z')}\n")
        if self._owned:
            self._child = Child(
                argv, stop_signal=self._stop_signal, patience_s=self._patience_s, log=self.log, env=env, folder=folder, account=account
            )
            pid = self._child.pid
        else:
            try:
                with self.log.open("ab") as log_bytes:
                    self._detached = subprocess.Popen(  # noqa: S603  our own program
                        argv,
                        stdin=subprocess.DEVNULL,
                        stdout=log_bytes,
                        stderr=log_bytes,
                        env=env,
                        cwd=folder,
                        user=None if account is None else account.uid,
                        group=None if account is None else account.gid,
                        extra_groups=None if account is None else [],
                        start_new_session=True,
                    )
            except (OSError, subprocess.SubprocessError) as error:
                raise ServiceUnavailable(f"{argv[0]} cannot be started: {error}") from error
            LEFT_RUNNING.append(self._detached)
            pid = self._detached.pid
        server = Identity.of(pid)
        if server is not None:
            owner = Identity.here() if self._owned else None
            self._record.write_text(json.dumps({"server": _plain(server), "owner": _plain(owner)}) + "\n")

    def pid(self) -> int | None:
        """The number of the running process; None if none runs."""
        server, _ = self._recorded()
        return None if server is None else server.pid

    def ready_when(self, answers: Callable[[], bool], within_s: float, explain: Callable[[str], JobyardError | None]) -> None:
        """Asks until it answers. If the process ends before, or time runs out, raises what `explain` makes of the end of the log,
        or else ServiceUnavailable with that end."""
        deadline = time.monotonic() + within_s
        while not answers():
            running = self.pid() is not None
            if running and time.monotonic() < deadline:
                time.sleep(LOOK_S)
                continue
            tail = self.tail()
            what = f"did not answer within {within_s:.0f} s" if running else "ended while it started"
            raise (
                explain(tail)
                or _disk_full(tail, self.log)
                or ServiceUnavailable(f"{self.name} {what}; the end of its log, {self.log}:\n{tail}")
            )

    def kill(self, what: signal.Signals) -> None:
        """Sends the signal and waits until the process has ended; one that takes more than its patience is killed."""
        server, _ = self._recorded()
        if server is not None:
            self._end(server, what)
        self._forget()

    def stop(self) -> None:
        """Ends the process in its clean way and waits for that; an owner ends only what it started. Nothing happens if nothing runs.

        Raises Refused if it belongs to another process that lives.
        """
        if self._owned and self._child is None:
            return
        server, owner = self._recorded()
        if server is not None and owner is not None and owner != Identity.here() and owner.alive():
            raise Refused(f"{self.name} in {self._record.parent} belongs to process {owner.pid}: end that process, and it ends, too")
        self.kill(self._stop_signal)

    def tail(self) -> str:
        """The last lines of what the process wrote since its last start."""
        try:
            text = self.log.read_text(errors="replace")
        except FileNotFoundError:
            return "(nothing)"
        return "\n".join(text.rpartition("--- started")[2].splitlines()[1:][-TAIL_LINES:]) or "(nothing)"

    def _recorded(self) -> tuple[Identity | None, Identity | None]:
        """The server, if it lives, and its owner, dead or alive; None: left running by nobody."""
        try:
            record = json.loads(self._record.read_text())
            server = Identity(record["server"]["pid"], record["server"]["began"])
            owner = None if record["owner"] is None else Identity(record["owner"]["pid"], record["owner"]["began"])
        except (OSError, ValueError, LookupError, TypeError):  # none, or half written when the machine stopped
            return None, None
        return (server, owner) if server.alive() else (None, None)

    def _end(self, server: Identity, what: signal.Signals) -> None:
        for signum in (what, signal.SIGKILL):
            try:
                os.kill(server.pid, signum)
            except ProcessLookupError:
                return
            if self._gone(server, self._patience_s):
                return
        raise ServiceUnavailable(f"{self.name} (process {server.pid}) does not end, not even by SIGKILL: see what the machine does with it")

    def _gone(self, server: Identity, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while server.alive():
            if self._detached is not None:
                self._detached.poll()
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_S)
        return True

    def _forget(self) -> None:
        if self._child is not None:
            self._child.stop()
        if self._detached is not None:
            self._detached.wait()
        self._child = self._detached = None
        self._record.unlink(missing_ok=True)


def _plain(process: Identity | None) -> dict[str, object] | None:
    return None if process is None else {"pid": process.pid, "began": process.began}


def _disk_full(tail: str, log: Path) -> JobyardError | None:
    if "No space left on device" not in tail:
        return None
    return ServiceUnavailable(f"the disk is full, so {log.stem} did not start: make room for {log.parent}, then try again")
