"""The command line on real services, without a coordinator: schema, topics, lanes, submitting, looking."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from jobyard import settings
from jobyard.cli import app as cli
from jobyard.cli.exits import Exit
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.topics import lane_topics
from jobyard.embedded.services import Addresses
from jobyard.kafka.admin import Admin

Run: TypeAlias = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def run(
    services: Addresses,
    database_url: str,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs a command with --json: exit code, objects on stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOBYARD_DATABASE_URL", database_url)
    monkeypatch.setenv("JOBYARD_KAFKA_BOOTSTRAP_SERVERS", services.kafka_bootstrap_servers)
    monkeypatch.setenv("JOBYARD_NAMESPACE", namespace)
    settings.forget()

    def run(*arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        code = cli.run([*arguments, "--json"])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    return run


def test_schema_is_upgraded_and_checked(run: Run, empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", empty_database_url)
    settings.forget()
    code, (found,), _ = run("db", "current")
    assert (code, found["revision"]) == (0, None)
    code, findings, _ = run("db", "check")
    assert code == Exit.REFUSED
    assert any("jobyard db upgrade" in finding["mend"] for finding in findings)
    code, _, err = run("job", "list")
    assert code == Exit.USAGE
    assert "jobyard db upgrade" in err
    code, (upgraded,), _ = run("db", "upgrade")
    assert (code, upgraded["before"], upgraded["revision"]) == (0, None, found["head"])
    code, findings, _ = run("db", "check")
    assert [finding for finding in findings if finding["fatal"]] == []
    assert run("db", "prune", "--dry-run")[:2] == (0, [])


def test_topics_are_made_checked_and_their_mend_named(run: Run, services: Addresses, namespace: str) -> None:
    code, (found,), _ = run("topics", "check")
    assert code == Exit.REFUSED
    assert len(found["problems"]) == 4
    assert "jobyard topics create --lane default" in found["problems"][0]
    code, (found,), _ = run("topics", "create", "--lane", "default")
    assert (code, len(found["created"])) == (0, 4)
    code, (found,), _ = run("topics", "check")
    assert (code, found["problems"]) == (0, [])
    admin = Admin(services.kafka_bootstrap_servers, {})
    admin.add_partitions(lane_topics(namespace, "default").intake.name, 2)
    code, (found,), _ = run("topics", "check")
    assert code == Exit.REFUSED
    assert "must have exactly 1" in found["problems"][0]
    code, _, err = run("topics", "create")
    assert code == Exit.USAGE
    assert "must have exactly 1" in err
    admin.close()


def test_a_lane_is_added_with_its_topics(run: Run, services: Addresses, namespace: str) -> None:
    code, (found,), _ = run("lane", "add", "reports")
    assert (code, found["added"], len(found["topics"])) == (0, True, 4)
    code, (found,), _ = run("lane", "add", "reports")
    assert (code, found["added"], found["topics"]) == (0, False, [])
    code, lanes, _ = run("lane", "list")
    assert code == 0
    assert [lane["lane"] for lane in lanes] == ["default", "reports"]
    code, (found,), _ = run("lane", "show", "reports")
    assert (code, found["pending"], found["led"], found["leader"]) == (0, 0, False, None)
    assert run("lane", "show", "absent")[0] == Exit.NOT_FOUND
    assert run("lane", "add", "Bad")[0] == Exit.USAGE
    assert run("topics", "check", "--all")[0] == Exit.REFUSED  # default's were never made
    admin = Admin(services.kafka_bootstrap_servers, {})
    assert None not in admin.topic_ids([topic.name for topic in lane_topics(namespace, "reports").all()]).values()
    admin.close()


def test_one_job_is_submitted_found_and_shown(run: Run) -> None:
    code, (sent,), _ = run(
        "job", "submit", "mail", '{"to": "jo"}', "--priority", "high", "--size", "2.5", "--tag", "customer=42", "--submitter", "shop",
        "--max-attempts", "2", "--timeout", "5m", "--delay", "1h",
    )  # fmt: skip
    assert (code, sent["duplicate"]) == (0, False)
    code, (found,), _ = run("job", "show", sent["job_id"])
    assert code == 0
    assert {name: found[name] for name in ("kind", "args", "priority", "size", "tags", "submitter", "max_attempts", "state")} == {
        "kind": "mail",
        "args": {"to": "jo"},
        "priority": "high",
        "size": 2.5,
        "tags": {"customer": "42"},
        "submitter": "shop",
        "max_attempts": 2,
        "state": "scheduled",
    }
    for matching in (
        ["--tag", "customer=42"],
        ["--state", "scheduled"],
        ["--kind", "mail"],
        ["--submitter", "shop"],
        ["--since", "1h ago"],
    ):
        code, listed, _ = run("job", "list", *matching)
        assert (code, [one["job_id"] for one in listed]) == (0, [sent["job_id"]])
    for other in (["--tag", "customer=43"], ["--state", "failed"], ["--kind", "x"], ["--until", "1h ago"], ["--error-type", "E"]):
        assert run("job", "list", *other)[:2] == (0, [])
    assert run("job", "history", sent["job_id"])[:2] == (0, [])
    code, happened, _ = run("job", "history", sent["job_id"], "--timeline")
    assert code == 0
    assert happened[0]["job_id"] == sent["job_id"]
    assert happened[0]["detail"]["via"] == "sql"
    assert run("job", "list", "--stuck")[:2] == (0, [])
    code, _, err = run("job", "result", sent["job_id"])
    assert code == Exit.REFUSED
    assert "no result yet" in err
    code, _, err = run("job", "wait", sent["job_id"], "--timeout", "0.2")
    assert code == Exit.TIME_OUT
    assert "it goes on" in err


def test_the_same_id_twice_is_one_job(run: Run) -> None:
    job_id = new_job_id()
    assert run("job", "submit", "mail", "--id", job_id)[1] == [{"job_id": job_id, "duplicate": False}]
    assert run("job", "submit", "mail", "--id", job_id)[:2] == (0, [{"job_id": job_id, "duplicate": True}])


def test_a_job_that_is_not_there_is_3(run: Run) -> None:
    job_id = new_job_id()
    for verb in ("show", "history", "result"):
        code, found, err = run("job", verb, job_id)
        assert (code, found) == (Exit.NOT_FOUND, [])
        assert job_id in err
    assert run("agent", "show", "nobody")[0] == Exit.NOT_FOUND


@pytest.mark.parametrize("via", ["sql", "kafka"])
def test_wrong_lines_are_named_and_the_others_go(via: str, run: Run) -> None:
    if via == "kafka":
        run("topics", "create")
    same = new_job_id()
    lines = [
        '{"kind": "mail", "args": {"n": 1}}',
        "",
        '{"kind": "mail", "prioritty": "high"}',
        "no json",
        f'{{"kind": "mail", "id": "{same}"}}',
        f'{{"kind": "mail", "id": "{same}"}}',
        '{"kind": "mail", "size": -1}',
        '{"kind": "mail", "args": [1]}',
        '{"kind": "mail", "run_at": "2026-12-01T08:00:00"}',
        '{"kind": "mail", "tags": {"a": "b"}}',
        '{"kind": "mail", "lane": "absent"}',
    ]
    Path("jobs.jsonl").write_text("\n".join(lines))
    code, found, err = run("job", "submit", "--from", "jobs.jsonl", "--via", via)
    assert code == Exit.REFUSED
    assert [line["line"] for line in found if "error" in line] == [3, 4, 7, 8, 9, 11]
    assert [line["line"] for line in found if "job_id" in line] == [1, 5, 6, 10]
    assert [line["duplicate"] for line in found if "job_id" in line] == (
        [False, False, True, False] if via == "sql" else [None, None, True, None]
    )
    assert "line 11" in err
    assert "absent" in err
    assert "line 3: unknown field 'prioritty'" in err
    if via == "sql":
        assert len(run("job", "list")[1]) == 3


def test_many_lines_without_a_mistake_are_done(run: Run) -> None:
    Path("jobs.jsonl").write_text('{"kind": "mail"}\n' * 2500)
    code, found, err = run("job", "submit", "--from", "jobs.jsonl", "--submitter", "bulk")
    assert (code, len({line["job_id"] for line in found}), {line["duplicate"] for line in found}, err) == (0, 2500, {False}, "")
    assert [line["line"] for line in found] == list(range(1, 2501))
    assert len(run("job", "list", "--limit", "10000")[1]) == 2500
    assert len(run("job", "list", "--limit", "1500", "--submitter", "bulk")[1]) == 1500
    code, matched, _ = run("job", "cancel", "--kind", "mail", "--dry-run")
    assert (code, len(matched)) == (0, 2500)
    assert run("job", "cancel", "--kind", "absent", "--yes")[:2] == (0, [])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bulk_commands_ask_and_without_a_terminal_need_yes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("job", "submit", "mail")
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    code, found, err = run("job", "cancel", "--kind", "mail")
    assert (code, found) == (Exit.REFUSED, [])
    assert "Cancel 1 jobs? [y/N]" in err
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, found, err = run("job", "cancel", "--kind", "mail")
    assert (code, found) == (Exit.USAGE, [])
    assert "--yes" in err
    assert run("job", "list", "--state", "pending")[1] != []


def test_a_lane_that_is_not_there_is_said_everywhere_in_the_same_words(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (Path("shoplane.py")).write_text("from jobyard import App\napp = App()\n@app.job\ndef mail() -> None: ...\n")
    for arguments in (
        ["job", "submit", "mail", "--lane", "absent"],
        ["job", "submit", "mail", "--lane", "absent", "--via", "kafka"],
        ["agent", "run", "shoplane:app", "--lane", "absent"],
        ["coordinator", "run", "--lane", "absent"],
        ["lane", "set", "absent", "--fair-share"],
        ["lane", "pause", "absent"],
        ["lane", "resume", "absent"],
    ):
        code = cli.run(arguments)
        err = capsys.readouterr().err
        assert (code, err) == (
            Exit.NOT_FOUND,
            "error: there is no lane 'absent': add it with `jobyard lane add absent`, or see `jobyard lane list`\n",
        )


def test_kafka_that_is_not_there_is_said_soon_and_nothing_is_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    settings.forget()
    code, _, err = run("job", "submit", "mail", "--via", "kafka")
    assert code == Exit.UNAVAILABLE
    assert "127.0.0.1:1" in err
    assert "nothing was begun" in err


def test_a_wrong_password_is_a_wrong_setting(run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user, _, place = database_url.partition("://")[2].rpartition("@")
    monkeypatch.setenv("JOBYARD_DATABASE_URL", f"postgresql://{user.partition(':')[0]}:geheim@{place}")
    settings.forget()
    for arguments in (["job", "list"], ["job", "submit", "mail"]):
        code, _, err = run(*arguments)
        assert code == Exit.USAGE, err
        assert len(err.splitlines()) == 1
        assert "geheim" not in err


def test_services_that_are_not_there_are_4(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBYARD_DATABASE_URL", "postgresql://nobody:geheim@127.0.0.1:1/x")
    settings.forget()
    for arguments in (["job", "list"], ["job", "submit", "mail"], ["lane", "list"], ["db", "current"], ["db", "upgrade"]):
        code, _, err = run(*arguments)
        assert code == Exit.UNAVAILABLE, err
        assert len(err.splitlines()) == 1
        assert "127.0.0.1" in err
        assert "jobyard dev up" in err
        assert "geheim" not in err


def test_what_the_code_declares_is_synced(run: Run, tmp_path: Path) -> None:
    module = tmp_path / "shopsync.py"
    module.write_text(
        "from jobyard import App, RetryPolicy\napp = App()\n"
        "@app.job(retry=RetryPolicy(max_attempts=3), priority='low', tags={'team': 'a'})\ndef transcribe(path: str) -> int:\n    return 1\n"
    )
    code, (found,), _ = run("app", "sync", "shopsync:app", "--dry-run")
    assert (code, found["added"]) == (0, ["transcribe"])
    code, (found,), _ = run("app", "sync", "shopsync:app")
    assert (code, found["added"], found["dropped"]) == (0, ["transcribe"], [])
    code, (found,), _ = run("app", "sync", "shopsync:app")
    assert (code, found["added"], found["unchanged"]) == (0, [], ["transcribe"])
    code, (sent,), _ = run("job", "submit", "transcribe", '{"path": "a"}')
    shown = run("job", "show", sent["job_id"])[1][0]
    assert (shown["max_attempts"], shown["priority"], shown["tags"]) == (3, "low", {"team": "a"})
