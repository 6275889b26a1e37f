"""What users read of errors: their names, and what they say."""

import pytest
from psycopg.errors import UniqueViolation

import jobyard
from jobyard import Fail, InvalidArgs, JobCancelled, JobFailed
from jobyard.agent.core.verdict import error_of
from jobyard.contracts import endings, errors


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (Fail("no"), "jobyard.Fail"),
        (InvalidArgs("no"), "jobyard.InvalidArgs"),
        (ValueError("no"), "ValueError"),
        (UniqueViolation("no"), "psycopg.errors.UniqueViolation"),
    ],
)
def test_errors_are_named_as_users_import_them(error: BaseException, name: str) -> None:
    assert error_of(error, "").type == name


def test_every_public_error_is_found_under_its_name() -> None:
    for module in (endings, errors):
        for name, found in vars(module).items():
            if not name.startswith("_") and isinstance(found, type) and issubclass(found, Exception):
                assert found.__module__ == "jobyard"
                assert getattr(jobyard, name) is found


def test_failed_and_cancelled_jobs_say_so_in_a_sentence() -> None:
    assert str(JobFailed("7", "ConnectionError", "no route")) == "job 7 failed: ConnectionError: no route"
    assert str(JobCancelled("7", "", "too late")) == "job 7 was cancelled: too late"
    assert str(JobCancelled("7", "cancelled", "")) == "job 7 was cancelled"
