"""Metrics of a coordinator that runs: what Prometheus is told, and by nobody else than who set the port."""

import socket
import urllib.request

import pytest
from worlds.world import MakeWorld

pytestmark = pytest.mark.timeout(300)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_coordinator_tells_what_it_has_done(make_world: MakeWorld) -> None:
    world, port = make_world(), _free_port()
    world.around["one"] = {"JOBYARD_METRICS_PORT": str(port)}
    world.coordinator("one")
    world.agent("anna")
    world.until_active("anna")
    world.submit_mixed(50, by_cli=0)
    world.check()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        found = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    attempts = world.number("select count(*) from jobyard.attempts")
    ended = sum(float(value) for name, value in found.items() if name.startswith("jobyard_attempts_ended_total"))
    placed = sum(float(value) for name, value in found.items() if name.startswith("jobyard_jobs_placed_total"))
    assert ended == placed == attempts >= 50
    assert found['jobyard_lane_led{lane="default"}'] == "1.0"
    assert float(found['jobyard_tick_seconds_count{lane="default"}']) > 0
