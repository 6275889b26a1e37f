"""The command line without services: parsing, exit codes, what is said."""

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from jobyard import settings
from jobyard.cli import app as cli
from jobyard.cli import job_reasons, known_lanes, output
from jobyard.cli.exits import Exit, Several, code_of
from jobyard.contracts.errors import ConfigurationError, InvalidJob, JobFailed, NotFound, Refused, ServiceUnavailable, WaitTimeout

if TYPE_CHECKING:
    from jobyard.master_db.audit import AgentLoad, JobStatus, LaneSummary

AN_ID = "01999999-9999-7999-8999-999999999999"


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and no settings."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("JOBYARD_"):
            monkeypatch.delenv(name)
    settings.forget()


def every_command() -> list[list[str]]:
    import typer.main

    # a group of groups; whose class depends on the version of typer
    group: Any = typer.main.get_command(cli.app)
    verbs = {noun: list(getattr(part, "commands", ())) for noun, part in group.commands.items()}  # `run` is a verb without a noun
    return [[noun, verb] for noun, found in verbs.items() for verb in found] + [[verb] for verb, found in verbs.items() if not found]


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_every_command_has_help_with_an_example(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*command, "--help"]) == Exit.DONE
    shown = capsys.readouterr().out
    assert f"Example: jobyard {' '.join(command)}" in shown or f"jobyard {' '.join(command)}" in shown.split("Example:")[1]


@pytest.mark.parametrize("command", [found for found in every_command() if found[-1] != "run"], ids=" ".join)
def test_every_command_that_answers_has_json(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cli.run([*command, "--help"])
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("no"), 1),
        (InvalidJob("no"), 1),
        (JobFailed("id", "ValueError", "x"), 1),
        (ConfigurationError("no"), 2),
        (NotFound("no"), 3),
        (ServiceUnavailable("no"), 4),
        (WaitTimeout("no"), 5),
    ],
)
def test_errors_have_their_exit_codes(error: Exception, code: int) -> None:
    assert code_of(error) == code  # type: ignore[arg-type]  # all of them are JobyardErrors


def test_several_end_as_the_gravest_of_them() -> None:
    several = Several()
    assert several.code == Exit.DONE
    for code, then in [(Exit.DONE, 0), (Exit.NOT_FOUND, 3), (Exit.REFUSED, 1), (Exit.DONE, 1), (Exit.TIME_OUT, 5)]:
        several.saw(code)
        assert several.code == then


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["job", "submit"], "KIND is missing"),
        (["job", "submit", "k", "{"], "JSON:"),
        (["job", "submit", "k", "[1]"], "must be a JSON object"),
        (["job", "submit", "k", "--priority", "urgent"], "'--priority': 'urgent' is not one of"),
        (["job", "submit", "k", "--retry", '{"base": 2}'], "unknown field `base`"),
        (["job", "submit", "k", "--version", "0"], "version 0 must be a whole number"),
        (["job", "submit", "--from", "x.jsonl", "--wait"], "jobyard job wait"),
        (["job", "list", "--state", "expired"], "expired"),
        (["job", "list", "--stuck", "--tag", "a=b"], "--stuck goes with"),
        (["job", "submit", "k", "--run-at", "2026-12-01T08:00:00"], "no time zone"),
        (["job", "submit", "k", "--run-at", "soon"], "is no moment"),
        (["job", "submit", "k", "--delay", "5 weeks"], "is no duration"),
        (["job", "submit", "k", "--delay", "5", "--run-at", "2026-12-01T08:00:00Z"], "exclude each other"),
        (["job", "submit", "k", "--tag", "colour"], "must be NAME=VALUE"),
        (["job", "submit", "k", "--wait-timeout", "5"], "needs --wait"),
        (["job", "submit", "k", "--via", "fax"], "fax"),
        (["job", "submit", "k", "--from", "x.jsonl"], "KIND can't go with --from"),
        (["job", "submit", "--from", "absent.jsonl"], "No such file"),
        (["job", "wait"], "ID"),
        (["job", "wait", "7"], "no id of a job"),
        (["job", "show", "7"], "no id of a job"),
        (["job", "cancel"], "which jobs?"),
        (["job", "retry", AN_ID, "--kind", "k"], "either IDs or filters"),
        (["job", "list", "--state", "lost"], "lost"),
        (["job", "list", "--limit", "0"], "--limit"),
        (["db", "prune", "--days", "3"], "greater than or equal to 7"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_2_and_says_what(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == Exit.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in " ".join(captured.err.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["job", "list"],
        ["job", "show", AN_ID],
        ["job", "submit", "k"],
        ["lane", "list"],
        ["agent", "list"],
        ["db", "current"],
        ["topics", "create"],
        ["coordinator", "run"],
        ["agent", "run"],
    ],
    ids=" ".join,
)
def test_what_is_not_set_is_2_and_names_the_setting(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(arguments) == Exit.USAGE
    assert "JOBYARD_" in capsys.readouterr().err


def test_a_wrong_value_on_the_command_line_is_2_and_names_field_and_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/x")
    for arguments, said in [
        (["has space"], "kind 'has space' must be"),
        (["k", "--size", "0"], "size 0.0 must be"),
        (["k", "--max-attempts", "0"], "max_attempts 0 must be a whole number"),
        (["k", "--id", "7"], "id '7' must be a UUIDv7"),
        (["k", "--timeout", "0"], "timeout_s 0.0 must be"),
    ]:
        assert cli.run(["job", "submit", *arguments]) == Exit.USAGE
        assert said in " ".join(capsys.readouterr().err.split())


def test_a_job_that_may_have_got_there_is_named_so_that_it_can_be_sent_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def there(lanes: known_lanes.KafkaLanes, lane: str) -> None:
        return None

    def gone(*_: object) -> bool:
        raise ServiceUnavailable("Kafka, topic t: timed out")

    monkeypatch.setenv("JOBYARD_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setattr(known_lanes.KafkaLanes, "problem", there)
    monkeypatch.setattr("jobyard.client.client.Client.submit", gone)
    assert cli.run(["job", "submit", "k", "--via", "kafka"]) == Exit.UNAVAILABLE
    assert re.search(r"it would be job ([0-9a-f-]{36}): repeat the command with `--id \1`", capsys.readouterr().err)


def test_wrong_settings_are_2_with_a_line_for_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JOBYARD_LAN", "x")
    monkeypatch.setenv("JOBYARD_SUBMIT_VIA", "fax")
    assert cli.run(["config", "show"]) == Exit.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ")[0:2] for line in lines] == [["error:", "JOBYARD_LAN"], ["error:", "JOBYARD_SUBMIT_VIA='fax':"]]


def test_a_bug_is_70_with_its_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("jobyard.cli.lane.cli_settings", broken)
    monkeypatch.setattr("jobyard.cli.services.cli_settings", broken)
    assert cli.run(["lane", "list"]) == Exit.BUG
    captured = capsys.readouterr().err
    assert "Traceback" in captured
    assert "ZeroDivisionError: oops" in captured


def test_config_show_hides_secrets(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", "postgresql://jo:geheim@db/x")
    monkeypatch.setenv("JOBYARD_KAFKA_OPTIONS", '{"sasl.password": "geheim", "security.protocol": "SASL_SSL"}')
    assert cli.run(["config", "show", "--json"]) == Exit.DONE
    shown = capsys.readouterr().out
    assert "geheim" not in shown
    found = {row["name"]: row for row in map(json.loads, shown.splitlines())}
    assert found["JOBYARD_DATABASE_URL"]["value"] == "postgresql://jo:***@db/x"
    assert found["JOBYARD_KAFKA_OPTIONS"]["value"] == {"sasl.password": "***", "security.protocol": "SASL_SSL"}
    assert found["JOBYARD_GRACE_S"]["value"] == 25.0
    assert cli.run(["config", "show"]) == Exit.DONE
    assert "geheim" not in capsys.readouterr().out


def test_config_show_says_where_each_value_comes_from(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path(".env").write_text("JOBYARD_LANE=reports\nJOBYARD_SUBMITTER=file\nJOBYARD_NAMESPACE=\n")
    Path("jobyard.toml").write_text('submitter = "toml"\nsubmit_via = "kafka"\n')
    monkeypatch.setenv("JOBYARD_LANE", "first")
    monkeypatch.setenv("JOBYARD_CACHE_DIR", "/cache")
    assert cli.run(["config", "show", "--json"]) == Exit.DONE
    rows = {row["name"]: (row["value"], row["from"]) for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["JOBYARD_LANE"] == ("first", "environment")
    assert rows["JOBYARD_SUBMITTER"] == ("file", ".env")
    assert rows["JOBYARD_SUBMIT_VIA"] == ("kafka", "jobyard.toml")
    assert rows["JOBYARD_NAMESPACE"] == ("jobyard", "default")
    assert rows["JOBYARD_CACHE_DIR"] == ("/cache", "environment")


APP = """
from jobyard import App, RetryPolicy
app = App()
@app.job(retry=RetryPolicy(max_attempts=3), priority="high", size="minutes")
def transcribe(path: str, minutes: float) -> int:
    return 1
text = "no app"
"""


def application(name: str, text: str) -> None:
    Path(f"{name}.py").write_text(text)


def test_app_check_shows_what_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    application("shopone", APP)
    assert cli.run(["app", "check", "shopone:app", "--json"]) == Exit.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["priority"], found["size"], found["max_attempts"]) == ("transcribe", "high", "minutes", 3)


def test_a_wrong_signature_shows_the_lines_of_the_application_alone(capsys: pytest.CaptureFixture[str]) -> None:
    application("shopz", "from jobyard import App\napp = App()\n@app.job\ndef f(*args: int) -> None: ...\n")
    assert cli.run(["app", "check", "shopz:app"]) == Exit.USAGE
    err = capsys.readouterr().err
    assert "f: *args can't be a handler's argument" in err
    assert "shopz.py" in err
    assert "arguments.py" not in err
    assert "handler.py" not in err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == Exit.DONE
    assert capsys.readouterr().out == f"jobyard {version('jobyard')}\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "a coordinator: none leads lane default"),
        ({"led": True}, "an agent: none of lane default is active"),
        ({"led": True, "kinds": ["mail"]}, "an agent that runs kind k: none of lane default does. Kinds that they run: mail"),
        ({"led": True, "kinds": ["k"], "running": 2}, "a free agent: each of the 1"),
        ({"led": True, "kinds": ["k"], "size": 50.0}, "so it runs alone"),
        ({"led": True, "kinds": ["k"]}, "its turn"),
        ({"state": "running"}, None),
        ({"state": "scheduled"}, "its time, 2026"),
    ],
)
def test_what_a_job_waits_for_is_said(more: dict[str, Any], said: str | None) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    known: dict[str, Any] = {"state": "pending", "size": 1.0} | more
    job = SimpleNamespace(
        job_id=AN_ID, kind="k", lane="default", version=1, agent=None, run_at=now, state=known["state"], size=known["size"]
    )
    agents = [
        SimpleNamespace(
            state="active",
            kinds=known.get("kinds", []),
            running=known.get("running", 0),
            placed=0,
            slots=2,
            capacity=10.0,
            size_running=0.0,
            size_placed=0.0,
        )
    ]
    lane = SimpleNamespace(led=known.get("led", False))
    found = job_reasons.reason(
        cast("JobStatus", job), cast("LaneSummary", lane), cast("list[AgentLoad]", agents if "kinds" in known else [])
    )
    assert found is None if said is None else said in (found or "")


@pytest.mark.parametrize("name", ["", "two words", "x" * 201, "bell\a"])
def test_a_name_that_no_agent_can_have_is_wrong_usage(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOBYARD_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    application("shopy", APP)
    assert cli.run(["agent", "run", "shopy:app", "--name", name]) == Exit.USAGE
    assert "printable ASCII characters without spaces" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("module", "text", "target", "said"),
    [
        ("shopa", APP, "shopa", "names no application"),
        ("shopb", APP, "nowhere.jobs:app", "there is no module 'nowhere'"),
        ("shopc", APP, "shopc:application", "module 'shopc' has no 'application'; did you mean app?"),
        ("shopd", APP, "shopd:text", "shopd:text is a str, not a jobyard.App; did you mean app?"),
        (
            "shope",
            "import no_such_library\n",
            "shope:app",
            "module shope can't be imported: ModuleNotFoundError: No module named 'no_such_library'",
        ),
        ("shopf", "x = 1 / 0\n", "shopf:app", 'shopf.py", line 1'),
        ("shopg", "from jobyard import App\napp = App(imports=['absent_jobs'])\n", "shopg:app", "No module named 'absent_jobs'"),
    ],
)
def test_an_application_that_cannot_be_loaded_says_why(
    module: str, text: str, target: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    application(module, text)
    assert cli.run(["app", "check", target]) == Exit.USAGE
    assert said in capsys.readouterr().err


def test_the_application_may_come_from_the_settings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    application("shoph", APP)
    monkeypatch.setenv("JOBYARD_APP", "shoph:app")
    assert cli.run(["app", "check"]) == Exit.DONE
    assert "transcribe" in capsys.readouterr().out


def test_tables_are_cut_to_the_terminal_only() -> None:
    rows = [["a", "x" * 100], ["bb", "y"]]
    assert output.table(["n", "text"], rows, None)[1] == "a   " + "x" * 100
    assert max(len(line) for line in output.table(["n", "text"], rows, 40)) == 40


def test_the_program_runs_as_a_module_and_ends_with_its_code() -> None:
    done = subprocess.run([sys.executable, "-m", "jobyard.cli.app", "nonsense"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == Exit.USAGE
    assert "nonsense" in done.stderr
