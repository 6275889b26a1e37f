"""Errors of Postgres as the errors that users know. One place sorts them."""

import psycopg

from jobyard.contracts.errors import ConfigurationError, InvalidJob, JobyardError, NotFound, Refused, ServiceUnavailable

NO_SUCH_JOB = "JY007"
_REFUSED = ("JY008", "JY009")
# The database is there, but its schema or the role's rights are not as they must be.
_NOT_INSTALLED = ("3F000", "42883", "42P01", "42703")
_NO_RIGHT = "42501"
# Over, or about to be: too many connections, shutting down, starting up, crashed; read-only after a fail-over; a time-out.
_UNAVAILABLE = ("53300", "57P01", "57P02", "57P03", "25006", "57014")


def translated(error: psycopg.Error) -> JobyardError | None:
    """The error to raise in place of this one; None: it is none of ours, let it through."""
    state = error.sqlstate or ""
    message = error.diag.message_primary or str(error).strip()
    if state.startswith("JY"):
        return by_code(state, message, error.diag.message_hint or "")
    if state in _NOT_INSTALLED:
        return ConfigurationError(f"the database has no Jobyard schema that fits this version ({message}). Run `jobyard db upgrade` on it")
    if state == _NO_RIGHT:
        return ConfigurationError(
            f"the database role lacks a right ({message}). Grant it jobyard_client; for look-ups jobyard_auditor, too"
        )
    of_connection = state in _UNAVAILABLE or state.startswith("08") or not state
    if of_connection and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return ServiceUnavailable(f"Postgres: {message or type(error).__name__}")
    return None


def by_code(code: str, message: str, hint: str = "") -> JobyardError:
    """The error of a JY code, from a function or from the answer to a command."""
    if code == NO_SUCH_JOB:
        return NotFound(message)
    if code in _REFUSED:
        return Refused(message, code=code)
    return InvalidJob(message, code=code, hint=hint)
