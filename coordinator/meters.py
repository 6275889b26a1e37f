"""What a coordinator counts, for Prometheus: by lane, from the events of committed ticks. Off unless a port is set; then nothing is counted."""

import contextlib
import socket
from collections import Counter as Tally
from collections.abc import Generator, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from jobyard.contracts.errors import ConfigurationError
from jobyard.coordinator.core import events
from jobyard.coordinator.core.events import Event

_TICKS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Meters:
    """All meters of a process. Their names are an interface: renamed never, as columns of views."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        lane = ["lane"]
        self._leads = Gauge("jobyard_lane_led", "1 while this process leads the lane.", lane, registry=self._registry)
        self._ticks = Histogram(
            "jobyard_tick_seconds", "How long ticks take, waiting for work left out.", lane, registry=self._registry, buckets=_TICKS_S
        )
        self._waiting = Gauge("jobyard_jobs_in_memory", "Waiting jobs that the leader holds in memory.", lane, registry=self._registry)
        self._accepted = Counter("jobyard_jobs_accepted", "Jobs taken in from Kafka.", lane, registry=self._registry)
        self._placed = Counter("jobyard_jobs_placed", "Jobs placed, by the rule (S17).", [*lane, "rule"], registry=self._registry)
        self._ended = Counter("jobyard_attempts_ended", "Attempts ended, by outcome.", [*lane, "outcome"], registry=self._registry)
        self._agents = Counter(
            "jobyard_agents_ended", "Agents that are over, by how they ended.", [*lane, "state"], registry=self._registry
        )
        self._repaired = Counter(
            "jobyard_jobs_repaired",
            "Jobs that leader and agent disagreed about, by rule.",
            [*lane, "rule", "action"],
            registry=self._registry,
        )
        self._late = Counter("jobyard_late_reports", "Outcomes that came when the attempt was over.", lane, registry=self._registry)
        self._bad = Counter("jobyard_messages_quarantined", "Messages that could not be read.", lane, registry=self._registry)

    @contextlib.contextmanager
    def leading(self, lane: str) -> Generator[None]:
        """While a lane is led."""
        self._leads.labels(lane).set(1)
        try:
            yield
        finally:
            self._leads.labels(lane).set(0)
            self._waiting.labels(lane).set(0)

    def ticked(self, lane: str, decided: Iterable[Event], took_s: float, in_memory: int) -> None:
        """A tick has been committed."""
        self._ticks.labels(lane).observe(took_s)
        self._waiting.labels(lane).set(in_memory)
        for event in decided:
            match event:
                case events.Accepted():
                    self._accepted.labels(lane).inc(event.jobs)
                case events.Placed():
                    self._placed.labels(lane, event.bundle.reason["rule"]).inc(len(event.bundle.jobs))
                case events.Ended():
                    for outcome, count in Tally(end.outcome.value for end in event.ends).items():
                        self._ended.labels(lane, outcome).inc(count)
                case events.AgentEnded():
                    self._agents.labels(lane, event.state).inc()
                case events.Repaired():
                    self._repaired.labels(lane, event.rule, event.action).inc(len(event.job_ids))
                case events.LateReported():
                    self._late.labels(lane).inc()
                case events.Quarantined():
                    self._bad.labels(lane).inc()
                case _:
                    pass

    @contextlib.contextmanager
    def served(self, address: str, port: int) -> Generator[int]:
        """Answer Prometheus at http://ADDRESS:PORT/metrics, in a thread; the port (0: any that is free). ConfigurationError if it can't be had."""
        try:
            server, thread = start_http_server(port, addr=address, registry=self._registry)
        except (socket.gaierror, UnicodeError) as error:  # the latter: what no name can be, "a..b" for example
            why = error.strerror if isinstance(error, OSError) else "no name of a host can be so"
            raise ConfigurationError(f"JOBYARD_METRICS_ADDRESS={address!r} must be an address of this host: {why}") from error
        except OSError as error:
            raise ConfigurationError(
                f"JOBYARD_METRICS_PORT={port}: {address}:{port} cannot be listened on: {error.strerror or error}; "
                "choose another port, or another JOBYARD_METRICS_ADDRESS"
            ) from error
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
