"""Settings: where they come from, what is refused, what stays hidden."""

import os
from pathlib import Path

import pytest

from jobyard import settings
from jobyard.contracts.errors import ConfigurationError
from jobyard.settings import AgentSettings, ClientSettings, CliSettings, CoordinatorSettings, WrongSettings, read


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, no settings in the environment, nothing remembered."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("JOBYARD_"):
            monkeypatch.delenv(name)
    settings.forget()


def said(kind: type[ClientSettings | AgentSettings | CoordinatorSettings]) -> list[str]:
    with pytest.raises(WrongSettings) as caught:
        read(kind)
    return str(caught.value).splitlines()


def test_defaults_need_nothing_in_the_environment() -> None:
    client, agent, coordinator = read(ClientSettings), read(AgentSettings), read(CoordinatorSettings)
    assert (client.namespace, client.lane, client.submit_via, client.database_url) == ("jobyard", "default", "sql", None)
    assert agent.grace_s == 25.0
    assert (coordinator.retention_days, coordinator.days_of_partition()) == (90, 3)


def test_environment_wins_over_env_file_and_that_over_toml(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("jobyard.toml").write_text('lane = "from-toml"\nnamespace = "from-toml"\nsubmitter = "from-toml"\n')
    Path(".env").write_text("JOBYARD_LANE=from-file\nJOBYARD_NAMESPACE=from-file\nOTHER=ignored\n")
    monkeypatch.setenv("JOBYARD_LANE", "from-environment")
    found = read(ClientSettings)
    assert (found.lane, found.namespace, found.submitter) == ("from-environment", "from-file", "from-toml")


@pytest.mark.parametrize(("name", "nearest"), [("JOBYARD_LOST_AFTR_S", "JOBYARD_LOST_AFTER_S"), ("JOBYARD_LANES", "JOBYARD_LANE")])
def test_unknown_name_in_the_environment_names_the_nearest(name: str, nearest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert said(AgentSettings) == [f"{name} in the environment is no setting of Jobyard; did you mean {nearest}?"]


def test_unknown_names_in_the_files_are_refused_together() -> None:
    Path("jobyard.toml").write_text("colour = 1\n")
    Path(".env").write_text("JOBYARD_LAN=x\n")
    lines = said(ClientSettings)
    assert lines[0].startswith("JOBYARD_LAN in .env is no setting of Jobyard; did you mean JOBYARD_LANE?")
    assert lines[1].startswith("colour in jobyard.toml is no setting")


@pytest.mark.parametrize("name", ["JOBYARD_SERVICE_HOST", "JOBYARD_PORT_5432_TCP", "JOBYARD_PORT", "JOBYARD_CACHE_DIR"])
def test_what_kubernetes_and_the_embedded_services_use_is_let_through(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:5432")
    assert read(ClientSettings).lane == "default"


def test_every_mistake_is_one_line_with_name_and_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_LANE", "Bad Lane")
    monkeypatch.setenv("JOBYARD_LOST_AFTER_S", "soon")
    monkeypatch.setenv("JOBYARD_RETENTION_DAYS", "3")
    lines = said(CoordinatorSettings)
    assert [line.split(":")[0] for line in lines] == [
        "JOBYARD_LANE='Bad Lane'",
        "JOBYARD_LOST_AFTER_S='soon'",
        "JOBYARD_RETENTION_DAYS='3'",
    ]
    assert "7" in lines[2]


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1"])
def test_time_outs_are_finite_and_positive(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_LOST_AFTER_S", value)
    assert said(CoordinatorSettings)[0].startswith(f"JOBYARD_LOST_AFTER_S='{value}'")


def test_time_outs_that_contradict_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_LOST_AFTER_S", "4")
    assert said(CoordinatorSettings) == ["settings do not fit together: unreachable_after_s=5.0 must be shorter than lost_after_s=4.0"]
    monkeypatch.setenv("JOBYARD_RELEASE_AFTER_S", "1")
    assert "release_after_s=1.0" in said(AgentSettings)[0]


def test_time_outs_reach_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_LOST_AFTER_S", "30")
    monkeypatch.setenv("JOBYARD_MAX_ARGS_BYTES", "2048")
    monkeypatch.setenv("JOBYARD_RELEASE_AFTER_S", "8")
    assert (read(CoordinatorSettings).rules().lost_after_s, read(CoordinatorSettings).rules().max_args_bytes) == (30.0, 2048)
    assert read(AgentSettings).rules().release_after_s == 8.0


def test_kafka_options_take_numbers_and_truth_values_as_librdkafka_spells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "JOBYARD_KAFKA_OPTIONS", '{"security.protocol": "SSL", "socket.keepalive.enable": true, "statistics.interval.ms": 5}'
    )
    assert read(AgentSettings).kafka_options == {
        "security.protocol": "SSL",
        "socket.keepalive.enable": "true",
        "statistics.interval.ms": "5",
    }


@pytest.mark.parametrize("value", ["{bad", "[1]", '"text"'])
def test_kafka_options_that_are_no_object_are_refused_without_showing_them(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_KAFKA_OPTIONS", value)
    assert said(AgentSettings) == ['JOBYARD_KAFKA_OPTIONS must be a JSON object, {"security.protocol": "SSL"} for example']


def test_agents_do_not_even_read_the_database_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", "postgresql://u:geheim@h/d")
    assert "database_url" not in AgentSettings.model_fields
    assert "geheim" not in repr(read(AgentSettings))


def test_secrets_are_not_in_the_text_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", "postgresql://u:geheim@h/d")
    monkeypatch.setenv("JOBYARD_KAFKA_OPTIONS", '{"sasl.password": "geheim"}')
    found = read(CliSettings)
    assert "geheim" not in repr(found)
    assert "geheim" not in str(found)
    assert found.database() == "postgresql://u:geheim@h/d"


def test_what_is_missing_is_said_when_it_is_needed() -> None:
    found = read(CliSettings)
    with pytest.raises(ConfigurationError, match="JOBYARD_DATABASE_URL is not set"):
        found.database()
    with pytest.raises(ConfigurationError, match="JOBYARD_KAFKA_BOOTSTRAP_SERVERS is not set"):
        found.kafka()


def test_empty_means_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", "")
    assert read(ClientSettings).database_url is None


def test_settings_are_read_once_until_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    first = settings.client_settings()
    monkeypatch.setenv("JOBYARD_LANE", "other")
    assert settings.client_settings() is first
    settings.forget()
    assert settings.client_settings().lane == "other"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read(ClientSettings).lane = "x"
    assert read(ClientSettings).lane == "default"


def test_broken_toml_is_one_sentence() -> None:
    Path("jobyard.toml").write_text("lane = \n")
    (line,) = said(ClientSettings)
    assert line.startswith("jobyard.toml can't be read:")


@pytest.mark.parametrize("newline", ["", "\n", "\r\n"])
def test_secrets_may_stand_in_files(monkeypatch: pytest.MonkeyPatch, newline: str) -> None:
    Path("url").write_bytes(f"postgresql://u:secret@h/db{newline}".encode())
    Path("options").write_bytes(f'{{"sasl.password": "secret", "linger": 5}}{newline}'.encode())
    monkeypatch.setenv("JOBYARD_DATABASE_URL_FILE", "url")
    monkeypatch.setenv("JOBYARD_KAFKA_OPTIONS_FILE", str(Path("options").absolute()))
    found = read(CoordinatorSettings)
    assert found.database() == "postgresql://u:secret@h/db"
    assert found.kafka_options == {"sasl.password": "secret", "linger": "5"}
    assert settings.origin("database_url") == "JOBYARD_DATABASE_URL_FILE"
    assert read(AgentSettings).kafka_options == found.kafka_options


def test_an_agent_reads_no_file_with_a_databases_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL_FILE", "absent")
    assert read(AgentSettings).lane == "default"


def test_a_file_in_the_environment_wins_over_a_value_in_env_file() -> None:
    Path("url").write_text("postgresql://of-file/db")
    Path(".env").write_text("JOBYARD_DATABASE_URL_FILE=url\nJOBYARD_DATABASE_URL=postgresql://of-env/db\n")
    assert read(ClientSettings).database() == "postgresql://of-file/db"


@pytest.mark.parametrize(
    ("content", "said_then"),
    [
        (None, "No such file"),
        (b"\n", "it is empty"),
        (b"\xff", "no UTF-8"),
        (b"{secret", "must be a JSON object"),
        (b'"secret"', "must be a JSON object"),
        (b"secret" * 200_000, "it is longer than 1048576 characters"),
    ],
)
def test_a_file_that_can_not_be_meant_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None, said_then: str
) -> None:
    if content is not None:
        Path("options").write_bytes(content)
    monkeypatch.setenv("JOBYARD_KAFKA_OPTIONS_FILE", "options")
    (line,) = said(AgentSettings)
    assert said_then in line
    assert "secret" not in line


def test_a_secret_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", "postgresql://u:secret@h/db")
    monkeypatch.setenv("JOBYARD_DATABASE_URL_FILE", "url")
    assert said(ClientSettings) == ["JOBYARD_DATABASE_URL and JOBYARD_DATABASE_URL_FILE are both set: leave one out"]
