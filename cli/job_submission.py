"""`jobyard job submit`: one job from the command line, or many from lines of JSON."""

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
import typer

from jobyard.cli import known_lanes, output
from jobyard.cli.exits import Exit
from jobyard.contracts.errors import InvalidJob, NotFound, ServiceUnavailable
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import NO_ARGS, NewJob, Problem, problem_of, problem_of_id
from jobyard.contracts.job_fields import broken, fields_of, misfit, shown_json, why_no_json
from jobyard.contracts.retry import Retrying
from jobyard.contracts.topics import MAX_MESSAGE_BYTES, problem_of_name
from jobyard.settings import cli_settings

if TYPE_CHECKING:
    from jobyard.client.bulk import BulkItem
    from jobyard.client.client import Client, Way

_LINE: Final = msgspec.json.Decoder(NewJob)
_JSON: Final = msgspec.json.Decoder(msgspec.Raw)
_WRONG: Final = (msgspec.MsgspecError, RecursionError, ValueError)  # InvalidJob and UnicodeDecodeError are ValueErrors, too
_SHOWN: Final = 100
"""Wrong lines that are told one by one on stderr; the others are counted."""
_AT_ONCE: Final = 1000
_SQL_NO_LANE: Final = '" is no lane. '


def args_of(text: str | None) -> msgspec.Raw:
    """The arguments as given on the command line: a JSON object. Not JSON at all: wrong usage."""
    if text is None:
        return NO_ARGS
    raw = os.fsencode(text.strip())
    try:
        raw.decode()
        return _JSON.decode(raw)  # that it is an object, and can be kept, is a rule of every job
    except _WRONG as error:
        problem = broken("args", shown_json(raw), why_no_json(raw, error))
    raise typer.BadParameter(f'JSON: {problem.message}; write an object, \'{{"path": "a.wav"}}\' for example')


def retry_of(text: str | None) -> Retrying | None:
    """The delays between attempts as given on the command line."""
    if text is None:
        return None
    raw = os.fsencode(text.strip())
    try:
        raw.decode()
        return msgspec.json.decode(raw, type=Retrying)
    except _WRONG as error:
        problem = broken("retry", shown_json(raw), why_no_json(raw, error))
    raise typer.BadParameter(f"--retry: {problem.message}; all or a part of it")


def problem_now(job: NewJob) -> Problem | None:
    """What is wrong with a job that is submitted now; None: nothing."""
    rules = cli_settings().rules()
    lane = None if job.lane is None else problem_of_name("lane", job.lane)
    if lane is not None:
        return Problem(known_lanes.NO_LANE, "lane", lane, "See `jobyard lane list`.")
    if job.id is not None:
        problem = problem_of_id(job.id, datetime.now(UTC).timestamp(), rules)
        if problem:
            return problem
    return problem_of(job, rules)


def checked(job: NewJob) -> NewJob:
    """The job, with an id. Raises InvalidJob."""
    problem = problem_now(job)
    if problem:
        raise InvalidJob(problem.message, field=problem.field, code=problem.code, hint=problem.hint)
    return job if job.id is not None else msgspec.structs.replace(job, id=new_job_id())


def submit_one(client: "Client", job: NewJob, via: "Way | None") -> dict[str, object]:
    """Submit one job; what to print of it. A value that can't be: wrong usage. NotFound for a lane that is not there."""
    try:
        ready = checked(job)
    except InvalidJob as error:
        raise typer.BadParameter(str(error)) from None
    lane = client.lane_of(ready)
    known_lanes.demand_name(lane)
    by_kafka = _by_kafka(client, via)
    if by_kafka:
        _kafka_lanes(client).demand(lane)
    try:
        duplicate = client.submit(ready, via, None)
    except InvalidJob as error:
        if error.code == known_lanes.NO_LANE:
            raise NotFound(known_lanes.absent(lane)) from None
        raise
    except ServiceUnavailable as error:
        if str(error).startswith("Postgres: connection"):
            raise  # nothing was sent
        raise ServiceUnavailable(
            f"{error}\nit would be job {ready.id}: repeat the command with `--id {ready.id}`, and it is one job"
        ) from None
    return {"job_id": ready.id, "duplicate": None if by_kafka else duplicate}


def _by_kafka(client: "Client", via: "Way | None") -> bool:
    """Which way it goes; raises WrongSettings if what it needs is not set."""
    if client.way(via) == "kafka":
        cli_settings().kafka()
        return True
    cli_settings().database()
    return False


def _kafka_lanes(client: "Client") -> known_lanes.KafkaLanes:
    return known_lanes.KafkaLanes(cli_settings().kafka(), client.settings.kafka_options, client.settings.namespace, "client")


class Lines:
    """Jobs from lines of JSON. A wrong line is told by its number, and the others go, a thousand at a time."""

    def __init__(self, file: BinaryIO, via: "Way | None") -> None:
        self._file = file
        self._via: Way | None = via
        self._progress = output.Progress("lines read")
        self._lanes: known_lanes.KafkaLanes | None = None
        self._accepted = self._duplicates = self._wrong = self._last = 0

    def submit(self, client: "Client", as_json: bool) -> Exit:
        """Submit all; prints the counts, or with `as_json` an object for each line."""
        if _by_kafka(client, self._via):
            self._lanes = _kafka_lanes(client)
        try:
            for items in _some(self._items(client)):
                self._submit_some(client, items, as_json)
        finally:
            self._progress.end()
        if self._wrong > _SHOWN:
            output.error(f"and {self._wrong - _SHOWN} more wrong lines")
        if not as_json:
            typer.echo(self._counts())
        return Exit.REFUSED if self._wrong else Exit.DONE

    def _submit_some(self, client: "Client", items: "list[BulkItem]", as_json: bool) -> None:
        from jobyard.client import bulk

        same: set[int] = set()
        try:
            result = bulk.submit_many(client, items, None, "skip", same.add)
        except ServiceUnavailable as error:
            before = f"up to line {self._last} all is done: {self._counts()}. " if self._last else ""
            raise ServiceUnavailable(
                f"{error}\n{before}Of lines {items[0].index} to {items[-1].index} it is not known, nothing after them was sent. Send these and "
                "the rest again: a line with an `id` is one job however often it is sent, one without would be a second job"
            ) from None
        lanes = {item.index: client.lane_of(item.job) for item in items if item.job is not None}
        # the Master DB tells it in words of its own
        wrong = {number: known_lanes.absent(lanes[number]) if _SQL_NO_LANE in why else why for number, why in result.invalid}
        for number in sorted(wrong):
            self._wrong += 1
            if self._wrong <= _SHOWN:
                output.error(f"line {number}: {wrong[number]}")
        self._accepted += result.accepted
        self._duplicates += result.duplicates
        self._last = items[-1].index
        if as_json:
            for item in items:
                self._say(item, wrong.get(item.index), item.index in same)

    def _say(self, item: "BulkItem", wrong: str | None, same: bool) -> None:
        if wrong is not None or item.job is None:
            output.one({"line": item.index, "error": wrong}, as_json=True)
            return
        # by Kafka only what stands in the file twice is known
        duplicate = None if self._lanes is not None and not same else same
        output.one({"line": item.index, "job_id": item.job.id, "duplicate": duplicate}, as_json=True)

    def _counts(self) -> str:
        return f"accepted {self._accepted}, duplicates {self._duplicates}, wrong lines {self._wrong}"

    def _items(self, client: "Client") -> Iterator["BulkItem"]:
        from jobyard.client.bulk import BulkItem

        for number, line in self._numbered():
            self._progress.at(number)
            if isinstance(line, str):
                yield BulkItem(number, None, problem=line)
                continue
            try:
                line.decode()  # msgspec does not look inside what it leaves unopened
                job = checked(_LINE.decode(line))
            except InvalidJob as error:
                yield BulkItem(number, None, problem=str(error))
                continue
            except _WRONG:
                problem = misfit(line.strip(), fields_of(line.strip()))
                yield BulkItem(number, None, problem=f"{problem.message}. {problem.hint}")
                continue
            absent = None if self._lanes is None else self._lanes.problem(client.lane_of(job))
            yield BulkItem(number, job, self._via) if absent is None else BulkItem(number, None, problem=absent)

    def _numbered(self) -> Iterator[tuple[int, bytes | str]]:
        """Lines with their numbers; of one that is too long, what is wrong. Blank lines are left out."""
        number = 0
        while True:
            line = self._file.readline(MAX_MESSAGE_BYTES)
            if not line:
                return
            number += 1
            if len(line) == MAX_MESSAGE_BYTES and not line.endswith(b"\n"):
                while (rest := self._file.readline(MAX_MESSAGE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                yield number, f"the line is longer than {MAX_MESSAGE_BYTES} bytes; a job must be at most that, its args much less"
            elif line.strip():
                yield number, line


def _some(items: "Iterator[BulkItem]") -> "Iterator[list[BulkItem]]":
    while some := list(islice(items, _AT_ONCE)):
        yield some


@contextmanager
def opened(path: str) -> Generator[BinaryIO]:
    """The file to read; `-`: standard input. One that can't be read: wrong usage."""
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - it is, below; only opening is to be caught here
    except OSError as error:
        raise typer.BadParameter(f"--from {path}: {error.strerror}") from None
    with file:
        yield file
