"""What errors of the database mean."""

import psycopg
import pytest
from psycopg import errors as pg

from jobyard.client.refusals import meaning
from jobyard.contracts.errors import ConfigurationError, InvalidJob, JobyardError, NotFound, Refused, ServiceUnavailable
from jobyard.master_db import connection


def refusal(code: str) -> psycopg.Error:
    made = type("Refusal", (psycopg.Error,), {"sqlstate": code})
    error = made("no")
    assert isinstance(error, psycopg.Error)
    return error


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection refused"),
        psycopg.InterfaceError("the connection is closed"),
        pg.AdminShutdown("bye"),
        pg.CannotConnectNow("starting"),
        pg.QueryCanceled("statement timeout"),
        pg.LockNotAvailable("lock timeout"),
        pg.DeadlockDetected("deadlock"),
        pg.SerializationFailure("serialize"),
        pg.IdleInTransactionSessionTimeout("idle"),
        pg.ReadOnlySqlTransaction("a standby"),
        pg.DiskFull("full"),
    ],
)
def test_what_passes_is_service_unavailable(error: psycopg.Error) -> None:
    assert isinstance(meaning(error), ServiceUnavailable)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(f"JY00{n}", InvalidJob) for n in range(1, 7)]
    + [("JY007", NotFound), ("JY008", Refused), ("JY009", Refused), ("JY010", InvalidJob), ("JY090", Refused)],
)
def test_refusals_become_the_errors_of_the_python_side(code: str, kind: type[JobyardError]) -> None:
    assert type(meaning(refusal(code))) is kind


@pytest.mark.parametrize(
    "error",
    [pg.UndefinedTable("t"), pg.InvalidSchemaName("s"), pg.UndefinedFunction("f"), pg.InsufficientPrivilege("p"), pg.InvalidPassword("p")],
)
def test_what_an_administrator_must_mend_is_configuration(error: psycopg.Error) -> None:
    assert isinstance(meaning(error), ConfigurationError)


@pytest.mark.parametrize("error", [pg.UniqueViolation("u"), pg.SyntaxError("s"), pg.CheckViolation("c")])
def test_what_only_a_bug_explains_stays_as_it_is(error: psycopg.Error) -> None:
    assert meaning(error) is None
    with pytest.raises(type(error)), connection.errors():
        raise error


def test_a_url_that_cannot_be_read_is_configuration() -> None:
    with pytest.raises(ConfigurationError, match="it is no URL"):
        connection.connect("not a url", application_name="test")
