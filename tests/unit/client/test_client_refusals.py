"""Which of Postgres' errors are which of ours."""

import psycopg
import pytest
from psycopg import errors

from jobyard.client.refusals import by_code, translated
from jobyard.contracts.errors import ConfigurationError, InvalidJob, JobyardError, NotFound, Refused, ServiceUnavailable


@pytest.mark.parametrize(
    ("code", "sort"),
    [("JY007", NotFound), ("JY008", Refused), ("JY009", Refused), ("JY001", InvalidJob), ("JY006", InvalidJob), ("JY010", InvalidJob)],
)
def test_codes(code: str, sort: type[JobyardError]) -> None:
    found = by_code(code, "no", "hint")
    assert type(found) is sort
    assert str(found).startswith("no")
    if isinstance(found, InvalidJob | Refused):
        assert found.code == code


@pytest.mark.parametrize(
    ("error", "sort"),
    [
        (errors.AdminShutdown("terminating"), ServiceUnavailable),
        (errors.CannotConnectNow("starting up"), ServiceUnavailable),
        (errors.ConnectionFailure("gone"), ServiceUnavailable),
        (psycopg.OperationalError("connection refused"), ServiceUnavailable),
        (psycopg.InterfaceError("the connection is closed"), ServiceUnavailable),
        (errors.UndefinedFunction("jobyard.submit"), ConfigurationError),
        (errors.InvalidSchemaName("jobyard"), ConfigurationError),
        (errors.InsufficientPrivilege("permission denied"), ConfigurationError),
        (errors.InFailedSqlTransaction("aborted"), None),
        (errors.UniqueViolation("theirs"), None),
        (psycopg.ProgrammingError("not a query"), None),
    ],
    ids=lambda v: getattr(v, "__name__", type(v).__name__),
)
def test_errors_of_the_database(error: psycopg.Error, sort: type[JobyardError] | None) -> None:
    found = translated(error)
    assert found is None if sort is None else type(found) is sort
