"""Bad input by SQL, the command line and Python: refused by field, value and rule; and what every way takes comes to the handler as it was."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from inputs.bad_input import BAD, PIECES, Case
from inputs.place import Place
from promises import mixed_jobs
from psycopg.types.json import Jsonb

from jobyard import InvalidJob
from jobyard.cli import app as cli
from jobyard.cli.exits import Exit
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.topics import MAX_MESSAGE_BYTES

pytestmark = pytest.mark.timeout(300)  # a start of all services under load included


def test_by_sql_each_is_an_error_of_its_own_and_aborts_only_its_transaction(place: Place) -> None:
    """All cases by both functions are in test_master_db_submit.py; here: what a caller has of it while the leader works, and what Postgres itself refuses."""
    pieces = {"NaN": "22P02", "NUL": "22P05", "a lone surrogate": "22P02", "1e-99999": "22003", "1e400": "JY002"}
    with psycopg.connect(place.world.addresses.database_url) as connection:
        for case in BAD[::8]:
            with pytest.raises(psycopg.Error) as raised:
                connection.execute("select jobyard.submit_many(%s)", [Jsonb([{"kind": "tiny", "args": {"n": 1}}, case.written])])
            assert raised.value.sqlstate == case.code
            assert raised.value.diag.message_hint
            assert not case.unsaid(str(raised.value.diag.message_primary))
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
            connection.rollback()
        for name, body, _, _ in PIECES:
            if name in pieces:
                with pytest.raises(psycopg.Error) as raised:
                    connection.execute("select jobyard.submit_many(%s::text::jsonb)", [f'[{{"kind": "tiny", {body.decode()}}}]'])
                assert raised.value.sqlstate == pieces[name], name
                connection.rollback()
        nested = f'[{{"kind": "tiny", "args": {{"a": {"[" * 10_000}{"]" * 10_000}}}}}]'
        with pytest.raises(psycopg.Error, match=r"nested at most 200 levels deep|stack depth limit") as raised:
            connection.execute("select jobyard.submit_many(%s::text::jsonb)", [nested])
        assert raised.value.sqlstate in ("JY002", "54001")  # by the server's max_stack_depth it cannot even be read
        connection.rollback()
        with pytest.raises(psycopg.Error, match=r'args "\{.*must be at most 1048576 bytes of JSON') as raised:
            connection.execute("select jobyard.submit('tiny', %s)", [Jsonb({"a": "x" * 10_000_000})])
        assert raised.value.sqlstate == "JY010"
        connection.rollback()
        with connection.transaction(), pytest.raises(psycopg.Error), connection.transaction():  # a savepoint keeps what was done before
            connection.execute("select jobyard.submit('tiny', '{\"n\": 1}', size => 'NaN')")
        row = connection.execute("select jobyard.submit('tiny', '{\"n\": 1}')::text").fetchone()
        assert row is not None
        place.good.append(row[0])


def large_line(n: int) -> str:
    return '{"kind":"tiny","args":{"n":"' + "x" * n + '"}}'


@pytest.mark.parametrize("via", ["sql", "kafka"])
def test_by_the_command_line_wrong_lines_are_named_and_the_others_go(
    via: str, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[bytes] = []
    cases: dict[int, Case] = {}
    pieces: dict[int, str] = {}
    for case in BAD:
        if case.name == "args of two MiB":
            continue  # below, as a line
        lines.append(json.dumps(case.written).encode())
        cases[len(lines)] = case
        if len(lines) % 3 == 0:
            lines.append(place.good_job())
    for _, text, _, said in PIECES:
        lines.append(b'{"kind":"tiny",' + text + b"}")
        pieces[len(lines)] = said
    for raw, said in (
        (b"hello", "is no JSON in UTF-8"),
        (b"\xef\xbb\xbf{}", "is no JSON in UTF-8"),
        (b"[1]", "job '[1]' must be a JSON object"),
        (b"17", "job 17 must be a JSON object"),
        (b'{"kind":"tiny"} {"kind":"tiny"}', "is no JSON in UTF-8: JSON is malformed: trailing characters"),
        (large_line(2_000_000).encode(), "bytes of JSON are more than the 1048576 that are allowed"),
        (large_line(10_000_000).encode(), f"longer than {MAX_MESSAGE_BYTES} bytes"),
    ):
        lines.append(raw)
        pieces[len(lines)] = said
    lines.append(place.good_job())
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(b"\n".join(lines))
    assert cli.run(["job", "submit", "--from", str(file), "--via", via, "--json"]) == Exit.REFUSED
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    told = {one["line"]: one["error"] for one in found if "error" in one}
    assert {one["line"] for one in found if "job_id" in one} == set(range(1, len(lines) + 1)) - cases.keys() - pieces.keys()
    assert told.keys() == cases.keys() | pieces.keys()
    assert [(case.name, told[n]) for n, case in cases.items() if case.unsaid(told[n])] == []
    assert [(said, told[n]) for n, said in pieces.items() if said not in told[n]] == []
    assert "error: line 1: " in captured.err
    assert f"and {len(told) - 100} more wrong lines" in captured.err


OPTIONS: Final = {
    "size": "--size",
    "timeout_s": "--timeout",
    "max_attempts": "--max-attempts",
    "version": "--version",
    "run_at": "--run-at",
    "id": "--id",
    "submitter": "--submitter",
    "lane": "--lane",
    "priority": "--priority",
}
JSON_OPTIONS: Final = {"retry": "--retry", "args": ""}


def test_by_the_command_line_one_wrong_job_is_wrong_usage(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    tried = 0
    before = place.world.number("select count(*) from jobyard.jobs")
    for case in BAD:
        value = case.written.get(case.field)
        if case.field == "kind" and isinstance(value, str) and value:
            given = [value]
        elif case.field in OPTIONS and not isinstance(value, bool | list | dict) and value not in ("", "1", "5", 5.0) and value is not None:
            given = ["tiny", f"{OPTIONS[case.field]}={value}"]
        elif case.field in JSON_OPTIONS and case.name != "args of two MiB":
            given = ["tiny", json.dumps(value)] if case.field == "args" else ["tiny", f"--retry={json.dumps(value)}"]
        else:
            continue
        if value in ("2026-01-01T00:00Z", "2026-01-01T00:00:00+00:60"):
            continue  # people may write a moment in more ways
        tried += 1
        code = cli.run(["job", "submit", *given])
        said = capsys.readouterr()
        assert (code, said.out) == (Exit.NOT_FOUND if case.name == "lane unknown" else Exit.USAGE, ""), (case.name, said.err)
        text = " ".join(said.err.split())
        assert case.field in text or OPTIONS.get(case.field, "?") in text, (case.name, text)
        assert f"{value}"[:20] in text or case.unsaid(text).find("value") < 0 or "1e+" in text, (case.name, text)
        assert "Traceback" not in text
    assert tried > 55
    assert place.world.number("select count(*) from jobyard.jobs") == before


class Subject:
    """Something that no job can hold."""


PYTHON: Final[list[tuple[str, Any]]] = [
    *(("size", value) for value in (0, -1, math.nan, math.inf, 1e13, 10**400, "1", True, None, [1])),
    *(("max_attempts", value) for value in (0, -1, 1001, 10**9, 10**400, 5.0, "5", True, [1])),
    *(("timeout", value) for value in (0, -0.5, math.nan, math.inf, 31622401, 10**400, "5", True, [1], timedelta(days=400))),
    *(("priority", value) for value in ("urgent", "High", 5, ["high"], True)),
    *(("lane", value) for value in ("A B", "x" * 10_000, 5, ["default"], True)),
    *(("id", value) for value in ("x", 5, "01890000-0000-4000-8000-000000000000", "01890000-0000-7000-8000-000000000000", [1])),
    *(("run_at", value) for value in ("now", 5, datetime(2030, 1, 1), datetime(1969, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))),  # noqa: DTZ001
    ("run_at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=15)))),
    ("run_at", datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=18)))),
    *(("delay", value) for value in (-1, math.nan, math.inf, 1e300, 10**400, "5", [1])),
    *(("submitter", value) for value in ("a\x01b", "x" * 201, "\ud800", 5, ["a"], True)),
    *(
        ("tags", value)
        for value in ({"a": 1}, {"": "x"}, {"a": "x" * 501}, {"a": "\x00"}, {1: "a"}, ["a"], "x", 5, dict.fromkeys(map(str, range(51)), ""))
    ),
    *(("retry", value) for value in ("x", 5, {"base_s": 1}, [1])),
    ("via", "pigeon"),
]


@pytest.mark.parametrize("via", ["sql", "kafka"])
def test_by_python_it_is_refused_before_anything_is_sent(via: Any, place: Place) -> None:
    before = place.world.number("select count(*) from jobyard.jobs")
    untold: list[str] = []
    for name, value in PYTHON:
        options: Any = {"via": via, name: value}
        try:
            mixed_jobs.tiny.options(**options).submit(1)
        except InvalidJob as error:
            text = str(error)
            shows = str(value)[:10] in text or repr(value)[:10] in text or "digits" in text or ascii(value)[:6] in text or "1e+" in text
            plain = name in text and (shows or (name in ("tags", "run_at", "timeout") and "must" in text))
            if not plain or len(text) > 700 or not error.field:
                untold.append(f"{name} {ascii(value)[:40]}: {text}")
        else:
            untold.append(f"{name} {ascii(value)[:40]} was taken")
    unfit: list[tuple[Any, str]] = [
        (math.nan, "NaN"),
        ([1, {"a": math.inf}], "infinity"),
        ("a\x00b", "NUL"),
        ("\ud800", "surrogate"),
        (10**400, "308 digits"),
        (10**5000, "digits"),
        (b"\xff" * 3, ""),
        (Subject(), "Subject"),
        ({1, "a"} | {Subject()}, ""),
        ("x" * 2_000_000, "bytes of JSON are more than the 1048576"),
        (deep(300), "200 levels"),
        (deep(100_000), ""),
    ]
    for unfitting, said in unfit:
        try:
            mixed_jobs.echo.options(via=via).submit(unfitting)
        except InvalidJob as error:
            if said not in str(error) or not ("value" in str(error) or "args" in str(error)) or len(str(error)) > 700:
                untold.append(f"argument {said}: {str(error)[:300]}")
        else:
            if unfitting != b"\xff" * 3:  # bytes have a form in JSON
                untold.append(f"argument {said} was taken")
    assert untold == []
    assert place.world.number("select count(*) from jobyard.jobs") - before <= 1


def deep(levels: int) -> object:
    found: object = 1
    for _ in range(levels):
        found = [found]
    return found


NUMBERS: Final = [
    2**53 + 1,
    -(2**63) - 1,
    2**64,
    2**70,
    10**307,
    -(10**308) + 1,
    0.1 + 0.2,
    1e-300,
    5e-324,
    -1.5,
    0,
    -0.0,
]


def test_numbers_come_to_the_handler_as_exact_as_they_were_sent_by_every_way(place: Place, tmp_path: Path) -> None:
    """Python → JSON → Postgres or Kafka → agent → handler → result.

    By SQL jsonb keeps the value of a number, not how it was written: 1E5 is 100000, and so a whole number."""
    expected = [repr(number) for number in NUMBERS]
    handles = [mixed_jobs.echo.options(via=via).submit(NUMBERS) for via in ("sql", "kafka")]
    line_id, sql_id = new_job_id(), new_job_id()
    args = json.dumps({"value": NUMBERS})
    (tmp_path / "one.jsonl").write_text(json.dumps({"kind": "echo", "id": line_id, "args": {"value": NUMBERS}}))
    assert cli.run(["job", "submit", "--from", str(tmp_path / "one.jsonl")]) == Exit.DONE
    place.world.rows("select jobyard.submit('echo', %s::text::jsonb, id => %s::uuid)", args, sql_id)
    handles += [mixed_jobs.echo.handle(line_id), mixed_jobs.echo.handle(sql_id)]
    for n, handle in enumerate(handles):
        shown, came = handle.result(60)
        by_json = n == 1  # by Kafka what was written comes through; by SQL minus zero has no sign
        assert shown.replace("-0.0]", "0.0]") == f"[{', '.join(expected)}]".replace("-0.0]", "0.0]")
        assert [repr(number) for number in came[:-1]] == expected[:-1]
        assert not by_json or shown.endswith("-0.0]")
    written = new_job_id()
    place.send_jobs(b'{"kind":"echo","id":"%s","args":{"value":[1E5,1.50,100000000000000000000000000000000.5]}}' % written.encode())
    assert mixed_jobs.echo.handle(written).result(60)[0] == "[100000.0, 1.5, 1e+32]"
    assert place.world.rows("select args::text from jobyard.job_status where job_id = %s", written)[0]["args"] == (
        '{"value":[1E5,1.50,100000000000000000000000000000000.5]}'
    )


def test_of_a_field_that_stands_twice_the_last_counts(place: Place) -> None:
    job_id, by_sql = new_job_id(), new_job_id()
    place.send_jobs(b'{"kind":"nobody","kind":"echo","id":"%s","args":{"value":1,"value":2}}' % job_id.encode())
    place.world.rows(
        "select jobyard.submit_many(%s::text::jsonb)", f'[{{"kind":"nobody","kind":"echo","id":"{by_sql}","args":{{"value":1,"value":2}}}}]'
    )
    for one in (job_id, by_sql):
        assert mixed_jobs.echo.handle(one).result(60) == ("2", 2)


@pytest.mark.parametrize("via", ["sql", "kafka"])
def test_a_kind_that_no_agent_knows_waits_and_job_show_says_so(via: str, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["job", "submit", "unheard-of", "--via", via]) == Exit.DONE
    job_id = capsys.readouterr().out.strip()
    place.world.until("it is there", lambda: place.world.state(job_id) == "pending")
    place.good.append(str(mixed_jobs.tiny.options(via="sql").submit(1).id))
    place.demand_that_it_led_on()  # its turn has come and gone
    assert cli.run(["job", "show", job_id]) == Exit.DONE
    shown = " ".join(capsys.readouterr().out.split())
    assert "waits_for an agent that runs kind unheard-of: none of lane default does. Kinds that they run: blocking, broken, echo" in shown
    assert cli.run(["job", "list", "--stuck", "--kind", "unheard-of"]) == Exit.DONE
