"""Rows as the text of COPY, made by str.join. A few rows go as the parameters of an INSERT instead; both are made from the same text.

What agents report is bounded and made storable once more: a forged or faulty report must not stop a tick.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from jobyard.contracts import storable
from jobyard.contracts.ids import id_time
from jobyard.contracts.job import Job
from jobyard.contracts.moments import Instant
from jobyard.contracts.moments import text as at_text
from jobyard.contracts.reports import NO_RESULT, End, Error, Finished
from jobyard.contracts.rules import RULES
from jobyard.contracts.states import State
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.events import LateReported
from jobyard.coordinator.core.places import Bundle, Waiting

NULL: Final = "\\N"
_NO_RESULT: Final = bytes(NO_RESULT)
MOST_TYPE: Final = 400
MOST_MESSAGE: Final = 4_000
MOST_TRACEBACK: Final = 32_000
"""Bytes of an error's type, message and traceback that are kept, whatever was reported."""

_ESCAPED: Final = re.compile(r"\\(.)")
_UNESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
_NUL_IN_JSON: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
# jsonb reads numbers, json does not: what has more digits than it can hold. First a quick look, then one without strings.
_HUGE_NUMBER: Final = re.compile(rb"[0-9][eE][+-]?[0-9]{5}|[0-9]{5001}")
_STRING: Final = re.compile(rb'"(?:[^"\\]+|\\.)*"')
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Table:
    """A table that is written to, and the columns of its rows' text."""

    name: str
    columns: tuple[str, ...]

    @cached_property
    def copy(self) -> bytes:
        """The COPY of many rows."""
        return f"copy jobyard.{self.name} ({', '.join(self._quoted)}) from stdin".encode()

    @cached_property
    def insert(self) -> bytes:
        """The INSERT of one row, with a parameter for each column."""
        numbers = ", ".join(f"${n}" for n in range(1, len(self.columns) + 1))
        return f"insert into jobyard.{self.name} ({', '.join(self._quoted)}) values ({numbers})".encode()  # noqa: S608 - names of this module only

    @cached_property
    def insert_new(self) -> bytes:
        """The INSERT of one row that does nothing, if its key is there."""
        return self.insert + b" on conflict do nothing"

    @property
    def _quoted(self) -> Iterable[str]:
        return (f'"{column}"' for column in self.columns)


def _table(name: str, columns: str) -> Table:
    return Table(name, tuple(columns.split()))


JOBS: Final = _table(
    "jobs",
    "id run_at kind_id priority max_attempts version size args timeout_s retry submitter tags parent_id traceparent lane_id via",
)
PENDING: Final = _table("pending", "id run_at kind_id priority attempt used interruptions why flow lane_id xid")
BUNDLES: Final = _table(
    "bundles",
    "fence placed_at lo hi agent_id bucket kind_id lane_id priority job_ids attempts used interruptions careful bounds reason",
)
ATTEMPTS: Final = _table(
    "attempts",
    "job_id attempt started_at finished_at outcome error_type error_message error_traceback result"
    " final used fence placed_at agent_id bucket kind_id lane_id reason",
)
JOB_EVENTS: Final = _table("job_events", "job_id at kind_id lane_id attempt used event final actor detail")
LATE_REPORTS: Final = _table("late_reports", "job_id fence at agent_id outcome closed_job error_type error_message result")
REOPENED: Final = _table("reopened", "job_id at max_attempts actor")
QUARANTINE: Final = _table("quarantine", "at lane_id topic part offset reason body")


def escape(value: str) -> str:
    """A value as it stands in COPY text. The value must be storable."""
    if "\\" in value:
        value = value.replace("\\", "\\\\")
    if "\n" in value:
        value = value.replace("\n", "\\n")
    if "\t" in value:
        value = value.replace("\t", "\\t")
    if "\r" in value:
        value = value.replace("\r", "\\r")
    return value


def safe(value: str | None, most: int) -> str:
    """Any text as it stands in COPY text: made storable, cut to `most` bytes; None is NULL."""
    return NULL if value is None else escape(storable.text(value, most))


def values(row: str) -> list[str | None]:
    """The columns of one row's text, as parameters."""
    return [None if column == NULL else (_unescape(column) if "\\" in column else column) for column in row.split("\t")]


def _unescape(column: str) -> str:
    return _ESCAPED.sub(lambda match: _UNESCAPES[match[1]], column)


def json_of(value: object) -> str:
    """A value as JSON in COPY text, fit for jsonb: NUL, which Postgres cannot keep, is replaced by U+FFFD."""
    raw = _encode(value)
    if b"\\u0000" in raw:
        raw = _NUL_IN_JSON.sub(rb"\1\\ufffd", raw)
    return escape(raw.decode())


def _problem_of_jsonb(raw: bytes) -> str | None:
    """Why a JSON that somebody has reported cannot be kept as jsonb; None: it can."""
    problem = storable.problem_of_json(raw, RULES.max_result_bytes)
    if problem is None and _HUGE_NUMBER.search(raw) and _HUGE_NUMBER.search(_STRING.sub(b'""', raw)):
        return "holds a number with more digits than Postgres can keep"
    return problem


def _fit(detail: Mapping[str, object]) -> dict[str, object]:
    """A detail without what was reported and cannot be kept: a note says so."""
    fit: dict[str, object] = {}
    notes: list[str] = []
    for name, value in detail.items():
        problem = _problem_of_jsonb(bytes(value)) if isinstance(value, msgspec.Raw) else None
        if problem is None:
            fit[name] = value
        else:
            notes.append(f"the {name} {problem}; it was not kept here")
    return fit | {"note": "; ".join(notes)} if notes else fit


def array(of: Iterable[str]) -> str:
    """Ids or ctids as the text of an array: a parameter that the server reads at once, where a list would be cast element by element."""
    return '{"' + '","'.join(of) + '"}'


def moment(at: Instant | None) -> str:
    """An instant in COPY text; None is NULL."""
    return NULL if at is None else at_text(at)


_PLAIN_TAIL: Final = "\t".join([NULL] * 6)


def jobs(of: Iterable[Job], kind_ids: Mapping[str, int], lane_id: int) -> list[str]:
    """Rows of `jobs`, in order."""
    rows: list[str] = []
    at, due = -1.0, ""
    end = f"\t{lane_id}\tk"
    plain = f"\t{_PLAIN_TAIL}{end}"
    for job in of:
        if job.run_at != at:
            at = job.run_at
            due = at_text(at)
        args = bytes(job.args).decode()
        if "\\" in args or "\n" in args or "\t" in args or "\r" in args:
            args = escape(args)
        common = job.timeout_s is None and job.retry is None and job.submitter is None and job.tags is None
        tail = plain if common and job.parent is None and job.traceparent is None else f"\t{_rare(job)}{end}"
        rows.append(f"{job.id}\t{due}\t{kind_ids[job.kind]}\t{job.priority}\t{job.max_attempts}\t{job.version}\t{job.size}\t{args}{tail}")
    return rows


def _rare(job: Job) -> str:
    """What most jobs leave out: timeout_s, retry, submitter, tags, parent, traceparent."""
    return "\t".join(
        (
            NULL if job.timeout_s is None else repr(job.timeout_s),
            NULL if job.retry is None else json_of(job.retry),
            NULL if job.submitter is None else escape(job.submitter),
            NULL if job.tags is None else json_of(job.tags),
            NULL if job.parent is None else job.parent,
            NULL if job.traceparent is None else escape(job.traceparent),
        )
    )


def refused_job(job_id: str, kind_id: int, submitter: str | None, lane_id: int) -> str:
    """The row of `jobs` of one that is refused: its arguments may be what is wrong, so they are not kept."""
    at = id_time(job_id)
    rare = [NULL] * 6
    rare[2] = safe(submitter, 800)
    return "\t".join((job_id, at_text(at), str(kind_id), "2", "1", "1", "1", "{}", *rare, str(lane_id), "k"))


def pending(of: Sequence[Waiting], kind_ids: Mapping[str, int], lane_id: int) -> list[str]:
    """Rows of `pending`. Their xid is 0: what the leader itself puts there is never new to it (L23)."""
    end = f"\t{lane_id}\t0"
    rows: list[str] = []
    at, due = -1.0, ""
    for one in of:
        job = one.job
        if job.run_at != at:
            at = job.run_at
            due = at_text(at)
        rows.append(
            f"{job.id}\t{due}\t{kind_ids[job.kind]}\t{job.priority}\t{one.attempt}\t{one.used}\t{one.interruptions}\t{one.why}\t{one.flow}{end}"
        )
    return rows


def bundle(of: Bundle, kind_id: int, lane_id: int) -> str:
    """A row of `bundles`."""
    ids = [job.id for job in of.jobs]
    careful = "t" if True not in of.careful else None
    marks = ",".join(["f"] * len(ids)) if careful else ",".join(["t" if one else "f" for one in of.careful])
    return (
        f"{of.fence}\t{at_text(of.placed_at)}\t{min(ids)}\t{max(ids)}\t{of.agent_id}\t{of.bucket}\t{kind_id}\t{lane_id}\t{of.priority}"
        f"\t{{{','.join(ids)}}}\t{_numbers(of.attempts)}\t{_numbers(of.used)}\t{_numbers(of.interruptions)}\t{{{marks}}}\t{_numbers(of.bounds)}"
        f"\t{json_of(of.reason)}"
    )


def _numbers(of: Sequence[int]) -> str:
    return f"{{{','.join(map(str, of))}}}"


def prepare(finished: Finished) -> list[str]:
    """The store's text of each end of a report; `attempts` completes it with what the leader knows. Called by the reader's thread."""
    return [end(one) for one in finished.ends]


def end(of: End) -> str:
    """The part of a row of `attempts` that its end tells. A result that can't be kept is replaced by an error that says so."""
    started = NULL if of.started_at is None else at_text(of.started_at)
    result, error = NULL, of.error
    raw = bytes(of.result)
    if raw != _NO_RESULT:
        problem = storable.problem_of_json(raw, RULES.max_result_bytes)
        if problem is None:
            result = escape(raw.decode())
        elif error is None:
            error = Error("InvalidResult", f"the result {problem}; it was not kept")
    if error is None:
        return f"{of.job}\t{of.attempt}\t{started}\t{at_text(of.ended_at)}\t{of.outcome.value}\t{NULL}\t{NULL}\t{NULL}\t{result}"
    told = f"{safe(error.type, MOST_TYPE)}\t{safe(error.message, MOST_MESSAGE)}\t{safe(error.traceback or None, MOST_TRACEBACK)}"
    return f"{of.job}\t{of.attempt}\t{started}\t{at_text(of.ended_at)}\t{of.outcome.value}\t{told}\t{result}"


def attempts(of: Bundle, ends: Sequence[str], used: Sequence[int], finals: Sequence[State | None], kind_id: int, lane_id: int) -> str:
    """Rows of `attempts`, one a line, from the prepared text of their ends (at least one): each is completed by one constant of the bundle."""
    constant = f"{of.fence}\t{at_text(of.placed_at)}\t{of.agent_id}\t{of.bucket}\t{kind_id}\t{lane_id}\t{json_of(of.reason)}"
    if used.count(used[0]) == len(used) and finals.count(finals[0]) == len(finals):
        tail = f"\t{_final(finals[0])}\t{used[0]}\t{constant}"
        return f"{tail}\n".join(ends) + tail
    return "\n".join([f"{row}\t{_final(final)}\t{n}\t{constant}" for row, final, n in zip(ends, finals, used, strict=True)])


def _final(state: State | None) -> str:
    return NULL if state is None else state.value


def event(
    job_id: str,
    at: Instant,
    kind_id: int,
    lane_id: int,
    name: str,
    *,
    final: State | None,
    attempt: int | None,
    used: int,
    actor: str | None,
    detail: Mapping[str, object] | None,
) -> str:
    """A row of `job_events`."""
    number = NULL if attempt is None else str(attempt)
    told = NULL if detail is None else json_of(_fit(detail))
    return "\t".join(
        (job_id, at_text(at), str(kind_id), str(lane_id), number, str(used), escape(name), _final(final), safe(actor, 800), told)
    )


def late_report(of: LateReported) -> str:
    """A row of `late_reports`."""
    result, error = NULL, of.error
    if of.result is not None:
        problem = storable.problem_of_json(of.result, RULES.max_result_bytes)
        if problem is None:
            result = escape(of.result.decode())
        elif error is None:
            error = Error("InvalidResult", f"the result {problem}; it was not kept")
    told = (NULL, NULL) if error is None else (safe(error.type, MOST_TYPE), safe(error.message, MOST_MESSAGE))
    return "\t".join(
        (of.job_id, str(of.fence), at_text(of.at), str(of.agent_id), of.outcome.value, "t" if of.closed_job else "f", *told, result)
    )


def quarantined(of: BadMessage, at: Instant, lane_id: int) -> str:
    """A row of `quarantine`: the bytes as they came."""
    return "\t".join(
        (at_text(at), str(lane_id), safe(of.topic, 500), str(of.partition), str(of.offset), safe(of.reason, 4000), f"\\\\x{of.body.hex()}")
    )
