"""A canary in every place where a password may stand, and every way out looked at: errors and all behind them, texts of objects, logs, commands."""

import asyncio
import dataclasses
import importlib
import io
import json
import logging
import pkgutil
import traceback
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr
from pydantic_settings import BaseSettings

import jobyard
from jobyard import migrations
from jobyard.agent.main import AgentPlan
from jobyard.api.app import App
from jobyard.cli import app as cli
from jobyard.client import address
from jobyard.client.client import Client, Overrides
from jobyard.client.connections import Connections
from jobyard.contracts.errors import ConfigurationError
from jobyard.coordinator.main import CoordinatorPlan
from jobyard.embedded.services import Addresses
from jobyard.kafka.admin import Admin
from jobyard.kafka.consumer import open_consumer
from jobyard.kafka.producer import open_producer
from jobyard.master_db import connection
from jobyard.process import logs
from jobyard.settings import AgentSettings, ClientSettings, CliSettings, CoordinatorSettings, forget

CANARY = "Kanarienvogel"
WRONG = [
    f"postgress://u:{CANARY}@h/db",
    f"postgresql+psycopg://u:{CANARY}@h/db",
    f"u:{CANARY}@h/db",
    f"postgresql://u:1%ZZ{CANARY}@h/db",
    f"postgresql://u:1 {CANARY}@h/db",
    f"postgresql://u:p@{CANARY}@h/db",
    f"postgresql://u:p@x,{CANARY}@h/db",
    f"postgresql://u:{CANARY}/x@h/db",
    f"postgresql://u:5432/{CANARY}@h/db",
    f"postgresql://u:p@h:{CANARY}/db",
    f"postgresql://u:1/2?{CANARY}@h/db",
    f"postgresql://u:p@h/db?{CANARY}=1",
    f"postgresql://u:{CANARY}@[::1/db",
    f"host=h password=1 {CANARY}",
    f"host=h password='{CANARY}",
    f"host=h password={CANARY} nosuch=1",
]
RIGHT = [
    f"postgresql://u:{CANARY}@h:5432/db",
    f"postgresql://h/db?user=u&password={CANARY}&sslpassword={CANARY}",
    f"host=h user=u password = '{CANARY} 2' dbname=db",
]
SECRET_OPTIONS = [
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "sasl.pasword",
]
SECRET_FIELDS = {"database_url", "url", "conninfo", "kafka_options", "options", "env", "password", "secret"}


def all_of(error: BaseException | None) -> str:
    """What anybody could print of an error and of what stands behind it."""
    told: list[str] = []
    while error is not None:
        told += [*traceback.format_exception(error), repr(error), repr(error.__cause__)]
        error = error.__cause__ or error.__context__
    return "\n".join(told)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        call()
    return all_of(caught.value)


@pytest.mark.parametrize("wrong", WRONG)
def test_no_error_about_an_address_shows_it(wrong: str) -> None:
    own = Connections(wrong)
    ways: list[Callable[[], object]] = [
        lambda: address.parameters(wrong),
        lambda: connection.connect(wrong, application_name="test"),
        lambda: own.run(lambda c: c),
        lambda: asyncio.run(own.run_async(lambda c: asyncio.sleep(0))),
        lambda: migrations.current(wrong),
        lambda: migrations.upgrade(wrong),
    ]
    for way in ways:
        told = refused(way)
        assert CANARY not in told
        assert "JOBYARD_DATABASE_URL" in told
        assert "postgresql://user:password@host:port/database" in told


@pytest.mark.parametrize("wrong", WRONG)
def test_no_command_shows_a_wrong_address(wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", wrong)
    monkeypatch.setenv("JOBYARD_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    job = "01900000-0000-7000-8000-000000000000"
    forget()
    try:
        for command in (["db", "current"], ["db", "upgrade"], ["lane", "list"], ["job", "show", job], ["job", "cancel", job]):
            assert cli.run(command) == 2, command
        for command in (["config", "show"], ["config", "show", "--json"]):
            assert cli.run(command) == 0
    finally:
        forget()
    shown = capsys.readouterr()
    assert "JOBYARD_DATABASE_URL" in shown.out + shown.err
    assert CANARY not in shown.out + shown.err


@pytest.mark.parametrize("right", RIGHT)
def test_an_address_is_shown_without_its_secrets(right: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert address.parameters(right)["host"] == "h"
    assert CANARY not in address.shown(right)
    assert "u" in address.shown(right)
    assert CANARY not in logs.masked(right)
    monkeypatch.setenv("JOBYARD_DATABASE_URL", right)
    assert cli.run(["config", "show"]) == 0
    assert CANARY not in capsys.readouterr().out


@pytest.mark.parametrize(
    "given", ["postgresql://u@h1:1,h2/db?sslmode=require", "postgresql:///db?host=/run/pg", "service=shop", "host=@x", ""]
)
def test_all_that_libpq_knows_goes_on_working(given: str) -> None:
    expected = {name: value for name, value in conninfo_to_dict(given).items() if value is not None}
    assert address.parameters(given) == expected


def test_a_bug_and_its_traceback_show_no_password(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ZeroDivisionError(f"at postgresql://u:{CANARY}/x@h/db")

    monkeypatch.setattr("jobyard.cli.services.cli_settings", broken)
    assert cli.run(["lane", "list"]) == 70
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told
    assert CANARY not in told


@pytest.mark.parametrize("name", SECRET_OPTIONS)
def test_no_error_or_log_about_a_kafka_option_shows_its_value(name: str, caplog: pytest.LogCaptureFixture) -> None:
    options = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", name: CANARY}
    with caplog.at_level(logging.DEBUG):
        for way in (
            lambda: Admin("127.0.0.1:1", options),
            lambda: open_producer("127.0.0.1:1", options),
            lambda: open_consumer("127.0.0.1:1", options),
        ):
            assert CANARY not in refused(way)
    assert CANARY not in caplog.text


def test_the_texts_of_plans_and_settings_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    url, options = RIGHT[0], {"sasl.password": CANARY}
    monkeypatch.setenv("JOBYARD_DATABASE_URL", url)
    monkeypatch.setenv("JOBYARD_KAFKA_OPTIONS", json.dumps(options))
    forget()
    client = Client(Overrides(database_url=url, kafka_options=options))
    try:
        texts: list[object] = [
            CoordinatorPlan(database_url=url, bootstrap_servers="h:1", kafka_options=options),
            AgentPlan(app=App(database_url=url, kafka_options=options), bootstrap_servers="h:1", kafka_options=options),
            Overrides(database_url=url, kafka_options=options),
            client,
            client.settings,
            Addresses(url, "h:1"),
            Connections(url),
            *(settings() for settings in (AgentSettings, ClientSettings, CliSettings, CoordinatorSettings)),
        ]
    finally:
        forget()
    for text in texts:
        assert CANARY not in f"{text!r} {text}"


def classes() -> Iterator[type]:
    """Every class of the program."""
    for module in pkgutil.walk_packages(jobyard.__path__, "jobyard."):
        if ".migrations.env" in module.name or ".migrations.versions" in module.name:
            continue  # run by alembic only
        for thing in vars(importlib.import_module(module.name)).values():
            if isinstance(thing, type) and thing.__module__.startswith("jobyard."):
                yield thing


def test_no_class_has_a_secret_in_its_text() -> None:
    seen = 0
    for known in set(classes()):
        if dataclasses.is_dataclass(known):
            for field in dataclasses.fields(known):
                if field.name in SECRET_FIELDS:
                    seen += 1
                    assert not field.repr, f"{known.__qualname__}.{field.name} stands in its text: field(repr=False)"
        elif issubclass(known, BaseSettings):
            for name, info in known.model_fields.items():
                if name in SECRET_FIELDS:
                    seen += 1
                    assert not info.repr or SecretStr in cast("tuple[Any, ...]", getattr(info.annotation, "__args__", ())), name
    assert seen >= 12, "the fields that this is about are not found any more"


@pytest.mark.parametrize("text", [*WRONG[:2], *WRONG[7:9], RIGHT[0], f'"sasl.password": "{CANARY}"', f"passphrase={CANARY}"])
@pytest.mark.parametrize("style", ["text", "json"])
def test_no_log_line_shows_a_password(text: str, style: Any) -> None:
    out = io.StringIO()
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    try:
        logs.configure(style, stream=out)
        logging.getLogger("jobyard.test").error("it said %s", text, extra={"facts": {"address": text}})
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logging.captureWarnings(False)
    assert "it said" in out.getvalue()
    assert CANARY not in out.getvalue()
