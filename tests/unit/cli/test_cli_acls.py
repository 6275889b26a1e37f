"""`jobyard topics acls`: what it prints needs no service."""

import json
import os
from pathlib import Path

import pytest

from jobyard import settings
from jobyard.cli import app as cli


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("JOBYARD_"):
            monkeypatch.delenv(name)
    settings.forget()


def test_it_prints_calls_of_kafkas_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topics", "acls", "--lane", "one", "--lane", "two", "--client", "shop"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "kafka-acls --bootstrap-server HOST:PORT --command-config admin.properties --add --allow-principal User:shop "
        f"--operation Describe --operation Write --topic jobyard.{lane}.intake"
        for lane in ("one", "two")
    ]


def test_it_prints_an_object_a_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topics", "acls", "--agent", "a", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == [
        "jobyard.default.reports",
        "jobyard.default.control",
        "jobyard.default.buckets",
        "jobyard.assigned",
    ]
    assert {row["principal"] for row in rows} == {"User:a"}


@pytest.mark.parametrize(
    ("words", "said"), [([], "for whom?"), (["--agent", "*"], "not everybody"), (["--agent", "a", "--lane", "*"], "lane '*'")]
)
def test_what_can_not_be_meant_is_wrong_usage(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topics", "acls", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
