"""A Postgres that answers nobody without TLS: what makes it so are three files and two statements, plain data for any server."""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg import sql
from secured_kafka import Certificates

from jobyard.embedded.account import unprivileged

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


def writer(data: Path) -> Callable[[str, str], None]:
    """For an embedded server."""
    account = unprivileged()

    def write(name: str, content: str) -> None:
        file = data / name
        file.write_text(content)
        file.chmod(0o600)
        if account is not None:
            account.give(file)

    return write


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
