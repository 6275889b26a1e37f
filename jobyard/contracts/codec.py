"""Bytes to messages and back, strictly typed. What cannot be decoded is Undecodable with its reason, and never a crash.

In a job an unknown field is refused (a typo must not lose a priority); in the messages between leader and agents it is ignored, so that two
versions of the code can work side by side during a deploy.
"""

import re
from typing import Any, Final, TypeVar, cast

import msgspec

from jobyard.contracts import storable
from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.control import ControlMessage
from jobyard.contracts.hollow import hollow, part_of
from jobyard.contracts.ids import is_job_id
from jobyard.contracts.job import NewJob, Problem, RefusedJob, problem_of, problem_of_id, problem_of_kind, shown
from jobyard.contracts.job_fields import fields_of, misfit, shown_json, why_no_json
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import End, Finished, Goodbye, Heartbeat, Hello, LooseFinished, LooseReports, Released, Report, Reports
from jobyard.contracts.rules import Rules

VERSION: Final = 1
MOST_JOBS: Final = 100_000
"""Jobs in one message of the intake topic; clients send far fewer. So what one message costs is bounded, whatever stands in it."""
_PARTS: Final = 9
"""Parts of one message that are told one by one: quarantine has a row for each, and one for the whole message, which tells what more is wrong."""
MOST_REPORTS: Final = 20_000
"""Reports, ends and released jobs in one batch. An agent cuts its batches at `batch_bytes`, so it never says so much at once: it would be one tick's work
that cannot be divided."""
_MOST_WRONG: Final = 1_000
"""Wrong parts of a batch that are looked for one by one. One with more is no agent's, and its right parts are not worth the time."""
_REASON_BYTES: Final = 500
_T = TypeVar("_T")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Undecodable(Exception):
    """The bytes are no message of this kind; `reason` names what is wrong, in one printable line."""

    def __init__(self, reason: str) -> None:
        self.reason = storable.line(reason, _REASON_BYTES)
        super().__init__(self.reason)


class IntakeMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message of the intake topic."""

    v: int
    jobs: list[NewJob]


class _LooseIntake(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    jobs: list[msgspec.Raw]


class Intake(msgspec.Struct):
    """What one intake message holds: jobs that can be accepted, jobs to refuse, and parts that cannot even be named (reason, bytes)."""

    jobs: list[NewJob]
    refused: list[RefusedJob]
    bad: list[tuple[str, bytes]]


_encoder: Final = msgspec.json.Encoder()
_strict: Final = msgspec.json.Decoder(IntakeMessage)
_loose: Final = msgspec.json.Decoder(_LooseIntake)
_one: Final = msgspec.json.Decoder(NewJob)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any: Final = msgspec.json.Decoder(msgspec.Raw)
_text: Final = msgspec.json.Decoder(str)
_whole: Final = msgspec.json.Decoder(int)
_WRONG: Final = (msgspec.MsgspecError, RecursionError, ValueError)  # UnicodeDecodeError is a ValueError, too
_INTAKE: Final = '{"v": 1, "jobs": [job, …]}'
_bundle: Final = msgspec.json.Decoder(BundleMessage)
# msgspec takes unions of tagged structs, for which its stubs have no type
_control: Final = cast("msgspec.json.Decoder[ControlMessage]", msgspec.json.Decoder(cast(Any, ControlMessage)))
_reports: Final = msgspec.json.Decoder(Reports)
_loose_reports: Final = msgspec.json.Decoder(LooseReports)
_report: Final = cast("msgspec.json.Decoder[Report]", msgspec.json.Decoder(cast(Any, Report)))
_finished: Final = msgspec.json.Decoder(LooseFinished)
_end: Final = msgspec.json.Decoder(End)


def encode(message: msgspec.Struct) -> bytes:
    """A message as JSON."""
    return _encoder.encode(message)


def encode_intake(jobs: list[NewJob]) -> bytes:
    """A message for the intake topic."""
    return _encoder.encode({"v": VERSION, "jobs": jobs})


def _decode(decoder: "msgspec.json.Decoder[_T]", data: bytes) -> _T:
    try:
        data.decode()  # msgspec does not look inside what it leaves unopened
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Undecodable(f"{type(error).__name__}: {error}") from None


def _version(v: int) -> None:
    if v != VERSION:
        raise Undecodable(_unknown_version(v))


def _unknown_version(v: int) -> str:
    return f"version {str(v)[:60]} is unknown; v must be {VERSION}, the version that this program speaks"


def decode_bundle(data: bytes) -> BundleMessage:
    """A message of the buckets topic; Undecodable if it is none, its columns do not fit its jobs, or a job in it could not be reported on."""
    message = _decode(_bundle, data)
    _version(message.v)
    n = len(message.jobs)
    if len(message.attempts) != n or len(message.used) != n or len(message.careful) not in (0, n):
        raise Undecodable(f"{n} jobs, but {len(message.attempts)} attempts, {len(message.used)} used and {len(message.careful)} careful")
    seen: set[str] = set()
    for job in message.jobs:
        if not is_job_id(job.id):
            raise Undecodable(f"job id {shown(job.id)} must be a UUIDv7 in lower case with hyphens")
        seen.add(job.id)
    if len(seen) != n:
        raise Undecodable(f"{n} jobs, but {len(seen)} different ids: no job may be named twice")
    return message


def decode_control(data: bytes) -> ControlMessage:
    """A message of the control topic; Undecodable if it is none."""
    message = _decode(_control, data)
    _version(message.v)
    return message


def decode_reports(data: bytes) -> Reports:
    """A message of the reports topic; Undecodable if it is none, or its incarnation is no UUID."""
    message = _decode(_reports, data)
    _check_head(message)
    _check_batch(message)
    return message


def sort_reports(data: bytes) -> tuple[Reports, list[tuple[str, bytes]]]:
    """As decode_reports, but a report that is none takes no other with it, and an end of a bundle no other end: it may be of a newer agent. The message
    with what is right, and what is not, reason and bytes. Undecodable if nothing is right."""
    try:
        return decode_reports(data), []
    except Undecodable as error:
        wrong = error
    frame, raws = _raw_reports(data, wrong)
    message = Reports(v=frame.v, agent=frame.agent, incarnation=frame.incarnation, seq=frame.seq, reports=[])
    _check_head(message)
    bad: list[tuple[str, bytes]] = []
    for raw in raws:
        try:
            message.reports.append(_decode(_report, raw))
        except Undecodable as error:
            found = _sort_ends(raw, bad)
            if found is None:
                bad.append((error.reason, raw))
            else:
                message.reports.append(found)
            if len(bad) > _MOST_WRONG:
                raise wrong from None
    if not message.reports:
        raise wrong
    _check_batch(message)
    if len(bad) > _PARTS:
        more = len(bad) - _PARTS
        bad[_PARTS:] = [(f"{more} more reports of this message are wrong, {bad[_PARTS][0]}"[:_REASON_BYTES], data)]
    return message, bad


def _raw_reports(data: bytes, wrong: Undecodable) -> tuple[LooseReports, list[bytes]]:
    """A batch and its reports, unopened; `wrong` if it is no batch at all."""
    try:
        data.decode()
        frame = _loose_reports.decode(data)
        return frame, [bytes(raw) for raw in frame.reports]
    except _WRONG:
        hollowed = hollow(data, 2, MOST_REPORTS)
    try:
        if hollowed is None:
            raise wrong
        frame = _decode(_loose_reports, hollowed[0])
    except Undecodable:
        raise wrong from None
    return frame, [part_of(bytes(raw), hollowed[1]) for raw in frame.reports]


def _sort_ends(raw: bytes, bad: list[tuple[str, bytes]]) -> Finished | None:
    """The ends that are right of those reported together; None: there is none."""
    try:
        found = _decode(_finished, raw)
    except Undecodable:
        return None
    ends: list[End] = []
    wrong: list[tuple[str, bytes]] = []
    for one in found.ends:
        try:
            ends.append(_decode(_end, bytes(one)))
        except Undecodable as error:
            wrong.append((error.reason, _encoder.encode(LooseFinished(fence=found.fence, ends=[one]))))
            if len(wrong) > _MOST_WRONG:
                break
    if not ends:
        return None
    bad += wrong
    return Finished(fence=found.fence, ends=ends, busy_s=found.busy_s)


def _check_head(message: Reports) -> None:
    _version(message.v)
    if not _UUID.fullmatch(message.incarnation):
        raise Undecodable(f"incarnation {shown(message.incarnation)} must be a UUID in lower case")
    if not 1 <= len(message.agent) <= 200 or not message.agent.isprintable():
        raise Undecodable(f"agent {shown(message.agent)} must be 1 to 200 printable characters")


def _check_batch(message: Reports) -> None:
    """What no agent does, and what a leader would have to do too much for: one batch is one turn of an agent."""
    count = len(message.reports)
    once: dict[type[object], int] = {}
    for report in message.reports:
        if isinstance(report, Finished):
            count += len(report.ends)
        elif isinstance(report, Released):
            count += len(report.jobs)
        elif isinstance(report, (Hello, Heartbeat, Goodbye)):
            once[type(report)] = once.get(type(report), 0) + 1
    if count > MOST_REPORTS:
        raise Undecodable(f"{count} reports, ends and released jobs are more than the {MOST_REPORTS} that one batch may hold")
    for kind, times in once.items():
        if times > 1:
            raise Undecodable(f"{times} reports of type {kind.__name__.lower()}; one batch may hold one")


def decode_intake(data: bytes, lane: str, received: Instant, rules: Rules) -> Intake:
    """A message of a lane's intake topic, appended by the broker at `received`. One bad job never stops the others of its message."""
    try:
        data.decode()
        strict = _strict.decode(data)
        _version(strict.v)
        _bounded(len(strict.jobs))
        found = Intake(strict.jobs, [], [])
    except _WRONG:
        found = _decode_loosely(data, received, rules)
    jobs: list[NewJob] = []
    for job in found.jobs:
        problem = _problem(job, lane, received, rules)
        if problem is None:
            jobs.append(job)
        elif job.id is None or problem.field in ("id", "kind"):
            found.bad.append((problem.message, _encoder.encode(job)))
        else:
            found.refused.append(RefusedJob(id=job.id, kind=job.kind, problem=problem, submitter=_submitter(job.submitter)))
    found.jobs = jobs
    if len(found.bad) > _PARTS:
        more = len(found.bad) - _PARTS
        found.bad[_PARTS:] = [(f"{more} more jobs of this message are wrong and cannot be named, {found.bad[_PARTS][0]}"[:500], data)]
    return found


def _problem(job: NewJob, lane: str, received: Instant, rules: Rules) -> Problem | None:
    if job.id is not None:
        problem = problem_of_id(job.id, received, rules)
        if problem:
            return problem
    if job.lane is not None and job.lane != lane:
        known = problem_of_kind(job.kind)
        return known or Problem(
            "JY006", "lane", f"lane {shown(job.lane)} is not {lane!r}, whose intake topic this is", "Send it to its own lane's topic."
        )
    return problem_of(job, rules)


def _decode_loosely(data: bytes, received: Instant, rules: Rules) -> Intake:
    found = Intake([], [], [])
    for raw in _raw_jobs(data):
        try:
            raw.decode()
            found.jobs.append(_one.decode(raw))
            continue
        except _WRONG:
            pass
        named = _named(raw, received, rules)
        if isinstance(named, RefusedJob):
            found.refused.append(named)
        else:
            found.bad.append((named.message, raw))
    return found


def _raw_jobs(data: bytes) -> list[bytes]:
    """The jobs of a message of which not all are right. Undecodable if it is no message at all."""
    try:
        data.decode()
        loose, parts = _loose.decode(data), None
    except _WRONG as error:
        hollowed = hollow(data, 2, MOST_JOBS)
        if hollowed is None:
            raise Undecodable(_explained(data, error)) from None
        frame, parts = hollowed
        try:
            frame.decode()
            loose = _loose.decode(frame)
        except _WRONG as worse:
            raise Undecodable(_explained(data, worse if parts else error)) from None
    _version(loose.v)
    _bounded(len(loose.jobs))
    return [bytes(raw) if parts is None else part_of(bytes(raw), parts) for raw in loose.jobs]


def _bounded(jobs: int) -> None:
    if jobs > MOST_JOBS:
        raise Undecodable(f"jobs of {jobs} must be at most {MOST_JOBS}: send them in several messages")


def _explained(data: bytes, error: Exception) -> str:
    """Why this is no message of the intake topic: field, value, rule."""
    if not data:
        return "the message is empty; it must be " + _INTAKE
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:3] == b"\xef\xbb\xbf":
        return "the message begins with a byte order mark; it must be JSON in UTF-8 without one"
    try:
        data.decode()
        fields = _fields.decode(data)
    except msgspec.ValidationError:
        return f"message {shown_json(data)} must be {_INTAKE}"
    except _WRONG:
        return f"message {shown_json(data)} is no JSON in UTF-8: {why_no_json(data, error)}"
    try:
        v = None if "v" not in fields else _whole.decode(fields["v"])
    except _WRONG:
        v = None
    if v is None:
        return f"v {shown_json(fields.get('v', b'null'))} must be the number {VERSION}"
    if v != VERSION:
        return _unknown_version(v)
    for name in fields:
        if name not in ("v", "jobs"):
            return f"unknown field {shown(name)}; the message must be {_INTAKE}"
    return f"jobs {shown_json(fields.get('jobs', b'null'))} must be an array of jobs"


def _named(raw: bytes, received: Instant, rules: Rules) -> RefusedJob | Problem:
    """The refused job of a wrong one, if its id and kind can be stored; else what is wrong."""
    fields = fields_of(raw)
    problem = misfit(raw, fields)
    if fields is None:
        return problem
    try:
        job_id = _text.decode(fields["id"])
        kind = _text.decode(fields["kind"])
    except (*_WRONG, KeyError):
        return problem
    if problem_of_id(job_id, received, rules) or problem_of_kind(kind):
        return problem
    try:
        submitter = _text.decode(fields["submitter"]) if "submitter" in fields else None
    except _WRONG:
        submitter = None
    return RefusedJob(id=job_id, kind=kind, problem=problem, submitter=_submitter(submitter))


def _submitter(name: str | None) -> str | None:
    """The submitter of a refused job, if it can be stored."""
    return name if name is not None and 1 <= len(name) <= 200 and name.isprintable() else None
