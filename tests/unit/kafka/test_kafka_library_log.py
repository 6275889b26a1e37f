"""What the client library says, and what of it is passed on."""

import logging

import pytest

from jobyard.kafka.options import LIBRARY_LOG


def test_what_the_library_tries_again_by_itself_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    retried = (
        "%s [%s] %s",
        "GETPID",
        "jobyard#producer-1",
        "Failed to acquire idempotence PID: Broker: Coordinator load in progress: retrying",
    )
    failed = ("%s [%s] %s", "GETPID", "jobyard#producer-1", "Failed to acquire idempotence PID: Broker: Cluster authorization failed")
    with caplog.at_level(logging.INFO, logger=LIBRARY_LOG.name):
        LIBRARY_LOG.warning(*retried)
        LIBRARY_LOG.warning(*failed)
    assert [(record.levelname, "authorization" in record.getMessage()) for record in caplog.records] == [("WARNING", True)]
