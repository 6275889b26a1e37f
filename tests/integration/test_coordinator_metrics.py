"""What a coordinator counts, as Prometheus gets it."""

import re
import urllib.request

import pytest

from jobyard.contracts.errors import ConfigurationError
from jobyard.contracts.job import Job
from jobyard.contracts.reports import End
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core import events
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.places import Bundle
from jobyard.coordinator.meters import Meters
from jobyard.coordinator.telemetry import Telemetry


def job(number: int) -> Job:
    return Job(id=f"018f0000-0000-7000-8000-{number:012x}", kind="k")


def scraped(port: int) -> set[str]:
    """The lines that Prometheus would get."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return set(answer.read().decode().splitlines())


def test_what_is_counted_is_served_to_prometheus() -> None:
    meters = Meters()
    placed = Bundle(7, 1, "i", 3, "k", 2, 1.0, {"rule": "window"}, [job(1), job(2)], [1, 1], [0, 0], [0, 0], [5, 5], [False, False])
    ends = [End(job(1).id, 1, Outcome.SUCCEEDED, 1.0, 2.0), End(job(2).id, 1, Outcome.FAILED, 1.0, 2.0)]
    decided: list[Event] = [
        events.Accepted(2, 0, 0),
        events.Placed(placed),
        events.Ended(placed, ends, None, [1, 1], [State.SUCCEEDED, None], []),
        events.AgentEnded(1, "anna", "i", "lost", 1.0),
        events.Repaired("L12", "sent_again", 7, ["one", "two"], "anna", 1.0),
        events.Repaired("L12", "sent_again", 8, ["three"], "anna", 1.0),
        events.LateReported(job(1).id, 7, 1.0, 1, Outcome.SUCCEEDED, False, None, None),
        events.Quarantined(BadMessage("t", 0, 7, "not JSON", b""), 1.0),
    ]
    with meters.leading("default"), meters.served("127.0.0.1", 0) as port:
        Telemetry("default", meters).saw(decided, 0.004, 17)
        found = scraped(port)
        with pytest.raises(ConfigurationError, match=f"JOBYARD_METRICS_PORT={port}"), Meters().served("127.0.0.1", port):
            pass
    assert {line for line in found if "created" not in line and "tick" not in line and not line.startswith("#")} == {
        'jobyard_lane_led{lane="default"} 1.0',
        'jobyard_jobs_in_memory{lane="default"} 17.0',
        'jobyard_jobs_accepted_total{lane="default"} 2.0',
        'jobyard_jobs_placed_total{lane="default",rule="window"} 2.0',
        'jobyard_attempts_ended_total{lane="default",outcome="succeeded"} 1.0',
        'jobyard_attempts_ended_total{lane="default",outcome="failed"} 1.0',
        'jobyard_agents_ended_total{lane="default",state="lost"} 1.0',
        'jobyard_jobs_repaired_total{action="sent_again",lane="default",rule="L12"} 3.0',
        'jobyard_late_reports_total{lane="default"} 1.0',
        'jobyard_messages_quarantined_total{lane="default"} 1.0',
    }
    assert 'jobyard_tick_seconds_bucket{lane="default",le="0.005"} 1.0' in found
    with meters.served("127.0.0.1", 0) as port:
        assert 'jobyard_lane_led{lane="default"} 0.0' in scraped(port)


@pytest.mark.parametrize("address", ["a..b", "a" * 64, "\udcff", "a\x1b[31m", "none.invalid"])
def test_an_address_that_cannot_be_is_named_not_the_port(address: str) -> None:
    named = re.escape(f"JOBYARD_METRICS_ADDRESS={address!r} must be an address of this host")
    with pytest.raises(ConfigurationError, match=named), Meters().served(address, 0):
        pass
