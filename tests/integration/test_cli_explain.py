"""`jobyard job explain` and learned durations on a real database, without a coordinator: what the tables tell, and what is made of a leader's answer."""

import json
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import psycopg
import pytest
from lane_store_builders import Database, Led, closed, ended

from jobyard import settings
from jobyard.cli import app as cli
from jobyard.cli import job_explaining
from jobyard.cli.exits import Exit
from jobyard.contracts.errors import NotFound, Refused
from jobyard.contracts.states import Outcome, State
from jobyard.coordinator.core.events import Learned, Mean, Started
from jobyard.master_db import connection, operations

Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = Database.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def led(database: Database) -> Led:
    return Led(database)


@pytest.fixture
def run(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOBYARD_DATABASE_URL", database.admin_url)
    settings.forget()

    def run(*arguments: str) -> tuple[int, str, str]:
        code = cli.run(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def facts(run: Run, job: str, code: int = 0) -> dict[str, Any]:
    found, out, err = run("job", "explain", job, "--json")
    assert found == code, err
    said: dict[str, Any] = json.loads(out)
    return said


def submitted(database: Database, more: str = "") -> str:
    return str(database.value(f"select jobyard.submit('k', '{{}}'{more})::text"))


def test_S17_without_a_leader_the_tables_tell_why_a_job_waits(database: Database, run: Run) -> None:
    due, later = submitted(database, ", size => 3"), submitted(database, ", run_at => now() + interval '1 hour'")
    found = facts(run, due)
    assert {name: found[name] for name in ("why", "state", "lane", "kind", "size", "knowing", "agents")} == {
        "why": "no_leader", "state": "pending", "lane": "default", "kind": "k", "size": 3.0, "knowing": 0, "agents": [],
    }  # fmt: skip
    assert (found["lane_paused"], found["kind_paused"]) == (False, False)
    assert facts(run, later)["state"] == "scheduled"
    database.admin.execute("select jobyard.pause_lane('default'), jobyard.pause_kind('k')")
    code, said, _ = run("job", "explain", due.upper())
    assert code == 0
    for words in (
        "Nobody leads lane default",
        "jobyard coordinator run",
        "It has waited",
        "lane resume default",
        "kind resume k",
        "No agent",
    ):
        assert words in said
    assert "It is due at" in run("job", "explain", later)[1]


def test_S17_of_what_is_placed_runs_or_has_ended_the_audit_tells_why_there(
    database: Database, led: Led, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_explaining, "PATIENCE_S", 0.1)
    placed, running, done, young = led.accept(4)
    agent = led.agent("anna")
    led.place([placed], agent)
    held = led.place([running], agent)
    led.write(Started(held, 0, held.placed_at + 1, None))
    over = led.place([done], agent)
    led.write(ended(over, Outcome.FAILED, State.FAILED, used=1), closed(over))
    reasons = '{"rule": "window", "room": 3, "load": 1.25, "next": 1.5}'
    database.admin.execute("update jobyard.bundles set reason = %s::jsonb", [reasons])
    found = facts(run, done.id)  # whether the leader answers or not
    assert (found["why"], found["state"], found["agent"], found["attempt"]) == ("ended", "failed", "anna", 1)
    database.expire()
    found = facts(run, placed.id)
    assert (found["why"], found["state"], found["agent"], found["rule"], found["load"]) == ("no_leader", "placed", "anna", "window", 1.25)
    found = facts(run, running.id)
    assert (found["why"], found["state"], found["next"]) == ("no_leader", "running", 1.5)
    said = run("job", "explain", running.id)[1]
    for words in ("Nobody leads", "running on anna", "no slot was free", "3 agents were in question", "used to 125%"):
        assert words in said
    database.admin.execute(
        "insert into jobyard.job_events (job_id, kind_id, lane_id, at, event, final) values (%s, 1, 1, now(), 'cancelled', 'cancelled')",
        [young.id],
    )
    found = facts(run, young.id)
    assert (found["why"], found["state"], "agent" in found) == ("ended", "cancelled", False)


def test_S17_a_leader_that_does_not_answer_is_no_reason_to_say_nothing(
    database: Database, led: Led, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (waits,) = led.accept(1)
    led.wait([waits])
    monkeypatch.setattr(job_explaining, "PATIENCE_S", 0.1)
    found = facts(run, waits.id, Exit.TIME_OUT)
    assert (found["why"], found["state"]) == ("no_answer", "scheduled")
    assert "has not answered in time" in run("job", "explain", waits.id)[1]


@pytest.mark.parametrize(
    ("answer", "why", "words"),
    [
        ('{"why":"lane_paused","kind":"k","version":1,"priority":"low","size":1.0,"since":1.5}', "lane_paused", "its lane is paused"),
        ('{"why":"no_agent","kind":"k","version":1,"priority":"low","size":1.0,"news":[1]}', "no_agent", "for an agent"),
        ('{"why":"moonlight","kind":"k"}', "moonlight", "another version"),
        ("it is complicated", None, "another version"),
        ("[1]", None, "another version"),
    ],
)
def test_S17_a_leaders_answer_is_told_whatever_its_version(
    database: Database, led: Led, run: Run, answer: str, why: str | None, words: str
) -> None:
    (waits,) = led.accept(1)
    led.wait([waits])
    enough = threading.Event()

    def answers() -> None:
        with psycopg.connect(database.admin_url, autocommit=True) as session:
            while not enough.wait(0.02):
                session.execute("update jobyard.commands set answered_at = now(), answer = %s where answered_at is null", [answer])

    leader = threading.Thread(target=answers)
    leader.start()
    try:
        found = facts(run, waits.id)
        said = run("job", "explain", waits.id)[1]
    finally:
        enough.set()
        leader.join()
    assert (found.get("why"), found["job_id"]) == (why, waits.id)
    assert words in said


def test_S17_the_submitter_and_operators_may_ask_and_nobody_else(database: Database) -> None:
    client = database.client()
    client.autocommit = True
    (own,) = client.execute("select jobyard.submit('k')::text").fetchone() or ("",)
    others = submitted(database, ", submitter => 'somebody'")
    with connection.connect(database.client_url, application_name="test", autocommit=True) as session:
        number = operations.explain(session, str(own))
        assert operations.answer(session, number) is None
        with pytest.raises(Refused, match='was submitted by "somebody"'):
            operations.explain(session, others)
        with pytest.raises(NotFound):
            operations.explain(session, "0190c0de-0000-7000-8000-000000000000")
    with connection.connect(database.admin_url, application_name="test", autocommit=True) as session:
        operations.explain(session, others)
    assert database.value("select count(*) from jobyard.commands where verb = 'explain'") == 2


def test_S17_who_may_not_look_up_asks_the_leader(database: Database, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    client = database.client()
    client.autocommit = True
    (own,) = client.execute("select jobyard.submit('k')::text").fetchone() or ("",)
    monkeypatch.setenv("JOBYARD_DATABASE_URL", database.client_url)
    monkeypatch.setattr(job_explaining, "PATIENCE_S", 0.1)
    settings.forget()
    code, said, err = run("job", "explain", str(own))
    assert (code, said) == (Exit.TIME_OUT, "")
    assert "does a coordinator lead the lane?" in err
    assert database.value("select count(*) from jobyard.commands where verb = 'explain' and job_id = %s::uuid", own) == 1


def test_S17_an_auditor_is_told_what_the_audit_says(database: Database, led: Led, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (done,) = led.accept(1)
    held = led.place([done], led.agent("anna"))
    led.write(ended(held, Outcome.FAILED, State.FAILED, used=1), closed(held))
    role = urlsplit(database.client_url).username
    database.admin.execute(f"revoke jobyard_client from {role}; grant jobyard_auditor to {role}".encode())
    monkeypatch.setenv("JOBYARD_DATABASE_URL", database.client_url)
    settings.forget()
    assert facts(run, done.id)["agent"] == "anna"
    code, _, err = run("job", "explain", submitted(database))
    assert code == Exit.USAGE
    assert "lacks a right" in err


def test_S17_a_job_that_nobody_knows(run: Run) -> None:
    assert run("job", "explain", "0190c0de-0000-7000-8000-000000000000")[0] == Exit.NOT_FOUND
    assert run("job", "explain", "x")[0] == Exit.USAGE


def test_S16_what_a_leader_has_learned_the_next_one_knows(database: Database, led: Led, run: Run) -> None:
    led.meet("k", "other")
    database.add_lane("reports")
    means = [Mean("k", 0, 5, 0.25), Mean("k", 3, 20, 60.0), Mean("other", -2, 1, 0.001)]
    led.write(Learned(means))
    led.write(Learned([Mean("k", 0, 9, 0.5)]))
    Led(database, "reports").write()
    database.expire()
    again = Led(database)
    known = sorted(again.store.snapshot().durations, key=lambda mean: (mean.kind, mean.size_class))
    assert known == [Mean("k", 0, 9, 0.5), Mean("k", 3, 20, 60.0), Mean("other", -2, 1, 0.001)]
    shown = json.loads(run("kind", "show", "k", "--json")[1])
    assert shown["durations"] == [
        {"lane": "default", "size_up_to": 1.0, "mean_s": 0.5, "ends": 9},
        {"lane": "default", "size_up_to": 8.0, "mean_s": 60.0, "ends": 20},
    ]
    assert shown["run_by"] == []
    again.agent("anna")
    text = run("kind", "show", "k")[1]
    assert "anna (lane default, active)" in text
    assert "size_up_to" in text


def test_S16_learning_costs_a_leader_a_few_milliseconds_every_few_seconds(led: Led) -> None:
    names = [f"kind-{n}" for n in range(200)]
    led.meet(*names)
    took: list[float] = []
    for ends in range(1, 6):
        at = time.perf_counter()
        led.write(Learned([Mean(name, size, ends, 0.1 * ends) for name in names for size in range(5)]))
        took.append(time.perf_counter() - at)
    assert min(took) < 0.5  # of a thousand means; a tick without any is a few milliseconds
