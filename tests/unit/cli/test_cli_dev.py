import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobyard.cli import dev
from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable

RUNNER = CliRunner()
SECRETLESS = {"JOBYARD_DATABASE_URL": "postgresql://elsewhere/x", "HOME": "/h"}


def test_dev_run_tells_the_database_to_the_coordinator_alone() -> None:
    programs = dev._programs("m:app", ["default"], 2, "postgresql://u:p@h/d", "h:1", SECRETLESS)  # pyright: ignore[reportPrivateUsage]  the plan, without running it
    assert [(program.name, program.rank) for program in programs] == [("coordinator", 0), ("agent-1", 1), ("agent-2", 1)]
    assert programs[0].env["JOBYARD_DATABASE_URL"] == "postgresql://u:p@h/d"
    for agent in programs[1:]:
        assert "JOBYARD_DATABASE_URL" not in agent.env
        assert agent.env["JOBYARD_KAFKA_BOOTSTRAP_SERVERS"] == "h:1"
        assert agent.env["HOME"] == "/h"
        assert agent.argv[-6:] == ["run", "m:app", "--lane", "default", "--name", agent.name]


def test_dev_run_has_agents_for_each_lane_and_only_they_restart() -> None:
    programs = dev._programs("m:app", ["default", "reports"], 1, "postgresql://h/d", "h:1", {})  # pyright: ignore[reportPrivateUsage]  as above
    assert [(program.name, program.restarts) for program in programs] == [
        ("coordinator", False),
        ("agent-1", True),
        ("reports-agent-1", True),
    ]
    assert programs[2].argv[-4:] == ["--lane", "reports", "--name", "reports-agent-1"]


@pytest.mark.parametrize(
    ("target", "says"),
    [("m", "write MODULE:APP"), ("m:", "write MODULE:APP"), (":app", "write MODULE:APP"), ("no_such_shop:app", "no_such_shop")],
)
def test_a_wrong_application_is_told_before_any_server_starts(target: str, says: str, tmp_path: Path) -> None:
    result = RUNNER.invoke(dev.app, ["run", target, "--folder", str(tmp_path / "none")])
    assert isinstance(result.exception, ConfigurationError)
    assert says in str(result.exception)
    assert not (tmp_path / "none").exists()


def test_status_of_a_folder_without_services(tmp_path: Path) -> None:
    result = RUNNER.invoke(dev.app, ["status", "--json", "--folder", str(tmp_path / "none")])
    assert result.exit_code == 4
    assert json.loads(result.stdout)["running"] is False
    assert not (tmp_path / "none").exists(), "asking changes nothing"


def test_env_of_a_folder_without_services_says_what_to_do(tmp_path: Path) -> None:
    result = RUNNER.invoke(dev.app, ["env", "--folder", str(tmp_path)])
    assert isinstance(result.exception, ServiceUnavailable)
    assert "start them with `jobyard dev up`" in str(result.exception)
    assert result.stdout == ""


def test_down_of_nothing_is_done(tmp_path: Path) -> None:
    assert RUNNER.invoke(dev.app, ["down", "--folder", str(tmp_path / "none")]).exit_code == 0


def test_a_missing_extra_ends_up_with_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def free(port: int) -> bool:
        return True

    def missing() -> Path:
        raise ConfigurationError("the embedded services are not installed: pip install 'jobyard[dev]'")

    monkeypatch.setattr("jobyard.embedded.wheels.postgres", missing)
    monkeypatch.setattr("jobyard.embedded.wheels.java", missing)
    monkeypatch.setattr("jobyard.embedded.ports.free", free)
    result = RUNNER.invoke(dev.app, ["up", "--folder", str(tmp_path)])
    assert isinstance(result.exception, ConfigurationError)
    assert result.exception.args == ("the embedded services are not installed: pip install 'jobyard[dev]'",)
