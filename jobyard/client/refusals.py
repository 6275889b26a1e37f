"""Errors of Postgres as the errors that users know. One place sorts them."""

import re

import psycopg

from jobyard.contracts.errors import ConfigurationError, InvalidJob, JobyardError, NotFound, Refused, ServiceUnavailable

NO_SUCH_JOB = "JY007"
_REFUSED = ("JY008", "JY009")
# The database is there, but its schema or the role's rights are not as they must be.
_NOT_INSTALLED = ("3F000", "42883", "42P01", "42703")
_NO_RIGHT = "42501"
# What each role gives, for who lacks a right.
_GIVES = {
    "jobyard_client": "submits jobs, and cancels, retries and reschedules its own",
    "jobyard_auditor": "looks up",
    "jobyard_operator": "does both for everybody, and declares lanes and kinds",
    "jobyard_coordinator": "leads lanes and prunes the history",
}
# Over, or about to be: too many connections, shutting down, starting up, crashed; read-only after a fail-over; a time-out.
_UNAVAILABLE = ("53300", "57P01", "57P02", "57P03", "25006", "57014")
# The same of a session that is wholly ours: the connection, the server's state, its resources, a time-out, a conflict of transactions.
_PASSING = ("08", "53", "57", "58", "40", "55P03", "25P03", "25P04", "25006", "XX000")
_CONNECTING = ("28", "3D")
_DISK_FULL = "53100"
_REJECTED = re.compile(r'FATAL: +(password authentication failed|(role|database) ".*" does not exist|no pg_hba.conf entry)')
# The server is there; what does not fit is the trust: never a reason to go on without it, or to wait.
_UNTRUSTED = re.compile(
    r"certificate verify failed|server certificate for .* does not match host name|root certificate file|could not get server's host name|"
    r"server does not support SSL|could not read root certificate|certificate file .* does not exist|private key file"
)
_NO_CONNECTION = ("connection failed:", "connection timeout", "[Errno")
_HISTORY = "JY090"


def translated(error: psycopg.Error, needs: str | None = None) -> JobyardError | None:
    """The error to raise in place of this one; None: it is none of ours, let it through. `needs`: the role that gives the right for it, if one does."""
    state = error.sqlstate or ""
    message = error.diag.message_primary or str(error).strip()
    if state.startswith("22"):  # a value that Postgres could not even read
        return InvalidJob(f"the Master DB cannot read a value: {message}", code=state)
    if state.startswith("JY"):
        return by_code(state, message, error.diag.message_hint or "")
    if state in _NOT_INSTALLED:
        return ConfigurationError(f"the database has no Jobyard schema that fits this version ({message}). Run `jobyard db upgrade` on it")
    if state == _NO_RIGHT:
        return ConfigurationError(f"the database role lacks a right ({message}). {_mend(needs)}")
    if state == _DISK_FULL:
        return _disk_full(message)
    of_connection = state in _UNAVAILABLE or state.startswith("08") or not state
    if of_connection and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return _of_connection(" ".join(message.split()) or type(error).__name__)
    return None


def _disk_full(text: str) -> JobyardError:
    return ServiceUnavailable(f"Postgres: its disk is full, nothing was written: make room there, then it goes on by itself ({text})")


def _of_connection(text: str) -> JobyardError:
    """libpq gives no SQLSTATE for a connection that came to nothing, so the server's words must tell."""
    if _REJECTED.search(text):
        return ConfigurationError(f"the Master DB refuses the connection: {text}. JOBYARD_DATABASE_URL says who connects, and where")
    if _UNTRUSTED.search(text):
        return ConfigurationError(
            f"Postgres is not trusted: {text}. In JOBYARD_DATABASE_URL sslrootcert must be the authority of the server's certificate, the host one "
            "that the certificate is made for, and sslmode what the server offers"
        )
    if text.startswith(_NO_CONNECTION):
        return ServiceUnavailable(f"Postgres: {text} Start it (`jobyard dev up` for development), or mend JOBYARD_DATABASE_URL")
    return ServiceUnavailable(f"Postgres: {text}")


def meaning(error: BaseException | None, needs: str | None = None) -> JobyardError | None:
    """What an error of the database means for who asked in a session of Jobyard's own; None: a bug, or no error of the database."""
    if not isinstance(error, psycopg.Error):
        return None
    code = error.sqlstate or ""
    text = (error.diag.message_primary or str(error)).strip()
    if code == _DISK_FULL:
        return _disk_full(text)
    if code.startswith(_PASSING):
        return ServiceUnavailable(f"Postgres: {text}")
    if code.startswith(_CONNECTING):
        return ConfigurationError(f"the Master DB refuses the connection: {text}")
    if code == _HISTORY:
        return Refused(text, code=code)
    return translated(error, needs)


def _mend(needs: str | None) -> str:
    if needs is None:
        return f"Grant it what it needs: {'; '.join(f'{role} {gives}' for role, gives in _GIVES.items())}"
    if needs in _GIVES:
        return f"Grant it {needs}, which {_GIVES[needs]}"
    return f"Use {needs}"


def by_code(code: str, message: str, hint: str = "") -> JobyardError:
    """The error of a JY code, from a function or from the answer to a command."""
    if code == NO_SUCH_JOB:
        return NotFound(message)
    if code in _REFUSED:
        return Refused(message, code=code)
    return InvalidJob(message, code=code, hint=hint)
