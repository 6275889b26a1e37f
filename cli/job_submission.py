"""`jobyard job submit`: one job from the command line, or many from lines of JSON."""

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
import typer

from jobyard.cli import output
from jobyard.cli.exits import Exit
from jobyard.contracts.errors import InvalidJob
from jobyard.contracts.ids import new_job_id
from jobyard.contracts.job import NO_ARGS, NewJob, Problem, problem_of, problem_of_id
from jobyard.contracts.topics import MAX_MESSAGE_BYTES
from jobyard.settings import cli_settings

if TYPE_CHECKING:
    from jobyard.client.bulk import BulkItem
    from jobyard.client.client import Client, Way

_LINE: Final = msgspec.json.Decoder(NewJob)
_SHOWN: Final = 100
"""Wrong lines that are told one by one; the others are counted."""


def args_of(text: str | None) -> msgspec.Raw:
    """The arguments as given on the command line: a JSON object. Not JSON at all: wrong usage."""
    if text is None:
        return NO_ARGS
    try:
        decoded: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise typer.BadParameter(f'JSON: {error}; write an object, \'{{"path": "a.wav"}}\' for example') from None
    if not isinstance(decoded, dict):
        raise typer.BadParameter("JSON: must be an object, the keyword arguments of the handler")
    return msgspec.Raw(text.strip().encode())


def problem_now(job: NewJob) -> Problem | None:
    """What is wrong with a job that is submitted now; None: nothing."""
    rules = cli_settings().rules()
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
    """Submit one job; what to print of it."""
    ready = checked(job)
    duplicate = client.submit(ready, via, None)
    return {"job_id": ready.id, "duplicate": duplicate}


class Lines:
    """Jobs from lines of JSON. A wrong line is told by its number, and the others go."""

    def __init__(self, file: BinaryIO, via: "Way | None") -> None:
        self._file = file
        self._via: Way | None = via
        self._progress = output.Progress("lines read")
        self.wrong = 0

    def submit(self, client: "Client", as_json: bool) -> Exit:
        """Submit all; prints the counts, with `as_json` also the wrong lines."""
        from jobyard.client import bulk

        try:
            result = bulk.submit_many(client, self._items(), None, "skip")
        finally:
            self._progress.end()
        invalid = sorted(result.invalid)
        for number, why in invalid[:_SHOWN]:
            output.error(f"line {number}: {why}")
        if len(invalid) > _SHOWN:
            output.error(f"and {len(invalid) - _SHOWN} more wrong lines")
        if as_json:
            wrong = [{"line": number, "error": why} for number, why in invalid]
            output.one({"accepted": result.accepted, "duplicates": result.duplicates, "invalid": wrong}, as_json=True)
        else:
            typer.echo(f"accepted {result.accepted}, duplicates {result.duplicates}, wrong lines {len(invalid)}")
        return Exit.REFUSED if invalid else Exit.DONE

    def _items(self) -> Iterator["BulkItem"]:
        from jobyard.client.bulk import BulkItem

        for number, line in self._numbered():
            self._progress.at(number)
            if isinstance(line, str):
                yield BulkItem(number, None, problem=line)
                continue
            try:
                line.decode()  # msgspec does not look inside what it leaves unopened
                job = checked(_LINE.decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidJob) as error:
                yield BulkItem(number, None, problem=str(error))
                continue
            yield BulkItem(number, job, self._via)

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
                yield number, f"longer than {MAX_MESSAGE_BYTES} bytes"
            elif line.strip():
                yield number, line


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
