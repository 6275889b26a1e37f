"""Which of Postgres' errors are which of ours."""

import psycopg
import pytest
from psycopg import errors

from jobyard.client.refusals import by_code, meaning, translated
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


@pytest.mark.parametrize("role", ["jobyard_client", "jobyard_auditor", "jobyard_operator", "jobyard_coordinator"])
def test_who_lacks_a_right_is_told_which_role_gives_it_or_what_each_gives(role: str) -> None:
    error = errors.InsufficientPrivilege("permission denied")
    assert f"Grant it {role}, which" in str(translated(error, role))
    assert role in str(translated(error))


def test_who_would_need_a_role_of_the_installations_own_is_told_so() -> None:
    assert str(meaning(errors.InsufficientPrivilege("no"), "the owner")).endswith("Use the owner")
    assert meaning(ValueError("no error of the database")) is None


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        (
            'connection failed: connection to server at "h", port 1 failed: FATAL:  password authentication failed for user "u"',
            ConfigurationError,
        ),
        ('connection failed: connection to server at "h", port 1 failed: FATAL:  database "x" does not exist', ConfigurationError),
        ('connection failed: connection to server at "h", port 1 failed: Connection refused\n\tIs the server running?', ServiceUnavailable),
    ],
)
def test_a_connection_that_comes_to_nothing_is_told_in_one_line_with_its_mend(text: str, sort: type[JobyardError]) -> None:
    for found in (translated(psycopg.OperationalError(text)), meaning(psycopg.OperationalError(text))):
        assert type(found) is sort
        assert "JOBYARD_DATABASE_URL" in str(found)
        assert "\n" not in str(found)


@pytest.mark.parametrize(
    "text",
    [
        "SSL error: certificate verify failed",
        'server certificate for "127.0.0.1" (and 1 other name) does not match host name "localhost"',
        'root certificate file "/nonexist" does not exist Either provide the file, or change sslmode',
        "server does not support SSL, but SSL was required",
    ],
)
def test_a_server_that_is_not_trusted_is_a_wrong_setting_not_one_that_is_away(text: str) -> None:
    error = psycopg.OperationalError(f'connection failed: connection to server at "h", port 5432 failed: {text}')
    for found in (translated(error), meaning(error)):
        assert isinstance(found, ConfigurationError)
        assert "sslrootcert" in str(found)
