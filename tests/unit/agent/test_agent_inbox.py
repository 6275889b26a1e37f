"""Where the agent's threads meet, and what it logs of the core's actions."""

import logging
import threading

import pytest

from jobyard.agent.core.actions import Leave, Note, Say
from jobyard.agent.inbox import MOST_BUNDLES, Inbox
from jobyard.agent.telemetry import Telemetry
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.reports import End, Error, Finished
from jobyard.contracts.states import Outcome

PATIENCE_S = 10.0


def bundles(count: int) -> list[BundleMessage]:
    return [BundleMessage(v=1, epoch=1, fence=n, agent="a", incarnation="i", bucket=0, jobs=[], attempts=[], used=[]) for n in range(count)]


def test_what_comes_in_wakes_the_turn() -> None:
    inbox = Inbox()
    waker = threading.Timer(0.02, inbox.signalled)
    waker.start()
    assert inbox.take(PATIENCE_S).signals == 1
    assert inbox.take(0.0).signals == 0


def test_a_full_inbox_makes_the_reader_wait_and_drops_nothing() -> None:
    inbox = Inbox()
    inbox.read([], bundles(MOST_BUNDLES))
    done = threading.Event()

    def read() -> None:
        inbox.read([], bundles(1))
        done.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert not done.wait(0.05)
    assert len(inbox.take(0.0).bundles) == MOST_BUNDLES
    assert done.wait(PATIENCE_S)
    assert len(inbox.take(0.0).bundles) == 1


def test_bundles_stay_while_none_are_wanted() -> None:
    inbox = Inbox()
    inbox.read([], bundles(2))
    assert inbox.take(0.0, bundles=False).bundles == []
    assert len(inbox.take(0.0).bundles) == 2


def test_an_inbox_that_is_closed_lets_the_reader_go() -> None:
    inbox = Inbox()
    inbox.read([], bundles(MOST_BUNDLES))
    reader = threading.Thread(target=inbox.read, args=([], bundles(1)), daemon=True)
    reader.start()
    inbox.close()
    reader.join(PATIENCE_S)
    assert not reader.is_alive()


def test_what_went_well_is_not_logged_and_what_failed_is(caplog: pytest.LogCaptureFixture) -> None:
    good = End("job-1", 1, Outcome.SUCCEEDED, 1.0, 2.0)
    bad = End("job-2", 3, Outcome.FAILED, 1.0, 2.0, error=Error("ValueError", "no"))
    with caplog.at_level(logging.INFO, "jobyard.agent"):
        Telemetry("agent-1").saw([Say("i", Finished(fence=1, ends=[good, bad])), Note("suspended"), Leave(1, "replaced")])
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "attempt ended job_id=job-2 attempt=3 outcome=failed error_type=ValueError error_message=no"),
        ("WARNING", "suspended"),
        ("ERROR", "left code=1 reason=replaced"),
    ]
    assert caplog.records[0].__dict__["agent"] == "agent-1"
