"""A Postgres that answers nobody without TLS: what makes it so are three files and two statements, plain data for any server."""

import secrets
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from servers import contained
from servers.secured_kafka import Certificates

START_S: Final = 90.0
HBA: Final = """\
# TYPE   DATABASE  USER  ADDRESS    METHOD
hostssl  all       all   0.0.0.0/0  scram-sha-256
hostssl  all       all   ::/0       scram-sha-256
"""
STATEMENTS: Final = ("alter system set ssl = on", "alter system set ssl_min_protocol_version = 'TLSv1.2'", "select pg_reload_conf()")
ROLES: Final = ("coordinator", "client", "operator", "auditor")


def files(certificates: Certificates, *hosts: str) -> dict[str, str]:
    """By name, to be put into the server's data folder, readable by nobody else."""
    chain, key = certificates.of("postgres", *hosts)
    return {"server.crt": chain, "server.key": key, "pg_hba.conf": HBA}


def secure(url: str, wanted: Mapping[str, str], write: Callable[[str, str], None]) -> None:
    """Makes a server that runs ask for TLS. `write` puts a file into its data folder."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name, content in wanted.items():
            write(name, content)
        for statement in STATEMENTS:
            connection.execute(statement.encode())


class SecuredPostgres:
    """In a container (the embedded server is built without TLS), ended with the with-block. `url`: the administrator's address."""

    def __init__(self, certificates: Certificates, image: str) -> None:
        self._certificates = certificates
        self._image = image
        self._password = secrets.token_urlsafe(18)
        self._made = ""

    def __enter__(self) -> Self:
        settings = ["--env", "POSTGRES_DB=jobyard", "--env", f"POSTGRES_PASSWORD={self._password}"]
        options = ["--detach", "--label", f"{contained.OWNER}={contained.owner()}", "--publish", f"{contained.HOST}::5432"]
        self._made = contained.docker("run", *options, *settings, self._image, "postgres", "-c", "fsync=off")
        try:
            port = contained.docker("port", self._made, "5432/tcp").splitlines()[0].rpartition(":")[2]
            plain = f"postgresql://postgres:{self._password}@{contained.HOST}:{port}/jobyard"
            self.url = tls(plain, self._certificates.ca)
            self._wait(plain)
            secure(plain, files(self._certificates, contained.HOST), self._write)
            self._wait(self.url)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        contained.docker("rm", "--force", "--volumes", self._made)

    def _write(self, name: str, content: str) -> None:
        words = ["docker", "exec", "--interactive", "--user", "postgres", self._made, "sh", "-c", f'umask 077; cat >"$PGDATA/{name}"']
        subprocess.run(words, input=content, text=True, check=True, timeout=30)

    def _wait(self, url: str) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def tls(url: str, ca: Path) -> str:
    """The same address for a client that wants to be sure whom it speaks to."""
    return f"{url}?sslmode=verify-full&sslrootcert={quote(str(ca))}"


def logins(url: str) -> dict[str, str]:
    """A login role for each of Jobyard's, and their addresses like this one, which is the administrator's."""
    at, _, query = url.rpartition("@")[2].partition("?")
    made: dict[str, str] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ROLES:
            name, password = f"{role}_{secrets.token_hex(4)}", secrets.token_urlsafe(18)
            connection.execute(
                sql.SQL("create role {} login password {} in role {}").format(
                    sql.Identifier(name), sql.Literal(password), sql.Identifier(f"jobyard_{role}")
                )
            )
            made[role] = f"postgresql://{name}:{password}@{at}?{query}"
    return made
