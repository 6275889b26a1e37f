"""Log lines of what may come a thousand times."""

import logging

import pytest

from jobyard.process.seldom import Seldom, safely

LOG = logging.getLogger("test.seldom")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_the_first_of_each_kind_is_said_and_then_one_a_minute_with_the_number(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    seldom = Seldom(LOG, 60.0, lambda: now[0])
    for _ in range(5):
        seldom.say(logging.ERROR, "one", "first", where="here")
    seldom.say(logging.ERROR, "other", "second")
    assert lines(caplog) == ["first", "second"]
    assert vars(caplog.records[0])["where"] == "here"
    now[0] += 60.0
    seldom.say(logging.ERROR, "one", "again")
    assert lines(caplog)[2:] == ["again (4 more like it since the last line)"]


def test_kinds_without_end_are_few_lines_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(LOG, 60.0, lambda: 0.0)
    for kind in range(10_000):
        seldom.say(logging.ERROR, str(kind), "text")
    assert len(lines(caplog)) == 50


def test_a_handler_that_raises_harms_nobody() -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("disk full")

    broken = Broken()
    LOG.addHandler(broken)
    try:
        safely(LOG, logging.ERROR, "text", {})
        Seldom(LOG).say(logging.ERROR, "kind", "text")
    finally:
        LOG.removeHandler(broken)
