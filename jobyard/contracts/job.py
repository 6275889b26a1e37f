"""The job: as people write it in JSON (NewJob, strict) and as leader and agents hold it (Job). What is wrong with one is told by `problem_of`."""

import re
from datetime import datetime
from typing import Annotated, Final, cast

import msgspec

from jobyard.contracts import moments, priority, storable
from jobyard.contracts.ids import derived_job_id, id_time, is_job_id
from jobyard.contracts.moments import Instant
from jobyard.contracts.priority import PriorityName
from jobyard.contracts.retry import Retrying
from jobyard.contracts.retry import problem_of as problem_of_retrying
from jobyard.contracts.rules import Rules

NO_ARGS: Final = msgspec.Raw(b"{}")
LARGEST_SIZE: Final = 1e12
MOST_ATTEMPTS: Final = 1000
LONGEST_TIMEOUT_S: Final = 366 * 86_400.0
"""No attempt may run longer: what is longer is a typing mistake, and its deadline would lie beyond what a table can hold."""
_KIND: Final = re.compile(r"[!-~]{1,200}")
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}")
_TRACEPARENT: Final = re.compile(r"[!-~]{1,128}")


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job as submitted: "A job as JSON" in the documentation. What is None comes from its kind, or the general defaults."""

    kind: str
    args: msgspec.Raw = NO_ARGS
    id: str | None = None
    lane: str | None = None
    priority: PriorityName | None = None
    size: float | None = None
    run_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    timeout_s: float | None = None
    max_attempts: int | None = None
    retry: Retrying | None = None
    version: int | None = None
    submitter: str | None = None
    tags: dict[str, str] | None = None
    parent: str | None = None
    traceparent: str | None = None


class Job(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An accepted job with everything decided. Immutable but for priority and run_at while it waits. `args` is an unopened JSON object.

    The bounds are looked at where a job is read from a bundle: whoever runs it computes with these numbers.
    """

    id: str
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    args: msgspec.Raw = NO_ARGS
    run_at: Instant = 0.0
    priority: Annotated[int, msgspec.Meta(ge=0, le=4)] = 2
    size: Annotated[float, msgspec.Meta(gt=0, le=LARGEST_SIZE)] = 1.0
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=32_767)] = 5
    version: Annotated[int, msgspec.Meta(ge=1, le=32_767)] = 1
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_TIMEOUT_S)] | None = None
    retry: Retrying | None = None
    submitter: str | None = None
    tags: dict[str, str] | None = None
    parent: str | None = None
    traceparent: str | None = None


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What a job of this kind gets for what it leaves out, as last synced; these defaults are those of a kind that never was.

    `size_arg`: the dotted path of the argument that tells the size (`"minutes"`, `"order.items"`); None: `size` does.
    """

    priority: int = 2
    size: float = 1.0
    size_arg: str | None = None
    max_attempts: int = 5
    version: int = 1
    timeout_s: float | None = None
    retry: Retrying | None = None
    tags: dict[str, str] | None = None


class Problem(msgspec.Struct, frozen=True):
    """Why a job is refused. `code`: the SQLSTATE of the same mistake in SQL."""

    code: str
    field: str
    message: str
    hint: str = ""


class RefusedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job from the intake topic that can be named (id and kind can be stored), but not run."""

    id: str
    kind: str
    problem: Problem
    submitter: str | None = None


def problem_of_kind(kind: str) -> Problem | None:
    """What is wrong with a kind's name; None: nothing."""
    if _KIND.fullmatch(kind):
        return None
    return Problem(
        "JY001", "kind", f"kind {shown(kind)} must be 1 to 200 printable ASCII characters without spaces", "It is the name of a handler."
    )


def problem_of_id(job_id: str, received: Instant, rules: Rules) -> Problem | None:
    """What is wrong with an id that arrived at `received` (L19); None: nothing."""
    if not is_job_id(job_id):
        return Problem("JY004", "id", f"id {shown(job_id)} must be a UUIDv7 in lower case with hyphens", "Leave it out to have one made.")
    age = received - id_time(job_id)
    if age > rules.id_max_age_s:
        return Problem(
            "JY005",
            "id",
            f"id {job_id} is {age / 86_400:.1f} days old; at most {rules.id_max_age_s / 86_400:g} are allowed",
            "Make a new id.",
        )
    if -age > rules.id_ahead_s:
        return Problem(
            "JY005", "id", f"id {job_id} lies {-age:.0f} s in the future; at most {rules.id_ahead_s:g} are allowed", "Is a clock wrong?"
        )
    return None


def problem_of(new: NewJob, rules: Rules) -> Problem | None:
    """The first thing that is wrong with a job, but for its id's time and its lane; None: it can be accepted.

    Cheap for a plain job: what is None is not looked at.
    """
    problem = problem_of_kind(new.kind)
    if problem:
        return problem
    raw = bytes(new.args)
    if raw != b"{}":
        if raw[:1] != b"{":
            return Problem(
                "JY002",
                "args",
                f"args {shown(raw.decode(errors='replace'))} must be a JSON object",
                "They are the keyword arguments of the handler.",
            )
        what = storable.problem_of_json(raw, rules.max_args_bytes)
        if what:
            return Problem(
                "JY010" if "bytes" in what else "JY002", "args", f"args {what}", "Put large data elsewhere and pass its address."
            )
    return _problem_of_number(new) or _problem_of_text(new)


def _problem_of_number(new: NewJob) -> Problem | None:
    if new.priority is not None and new.priority not in priority.NUMBERS:
        return Problem("JY002", "priority", f"priority {shown(new.priority)} is unknown", f"Use one of {', '.join(priority.NAMES)}.")
    if new.size is not None and not (0 < new.size <= LARGEST_SIZE):
        return Problem("JY002", "size", f"size {new.size} must be a number above 0, at most {LARGEST_SIZE:g}")
    if new.max_attempts is not None and not 1 <= new.max_attempts <= MOST_ATTEMPTS:
        return Problem("JY002", "max_attempts", f"max_attempts {new.max_attempts} must lie between 1 and {MOST_ATTEMPTS}")
    if new.timeout_s is not None and not (0 < new.timeout_s <= LONGEST_TIMEOUT_S):
        return Problem(
            "JY002", "timeout_s", f"timeout_s {new.timeout_s} must be a number of seconds above 0, at most {LONGEST_TIMEOUT_S:.0f}"
        )
    if new.version is not None and not 1 <= new.version <= 32_767:
        return Problem("JY002", "version", f"version {new.version} must lie between 1 and 32767")
    if new.run_at is not None and not moments.EARLIEST <= new.run_at.timestamp() < moments.LATEST:
        return Problem("JY002", "run_at", f"run_at {new.run_at.isoformat()} must lie between the years 1970 and 2200")
    if new.retry is not None:
        what = problem_of_retrying(new.retry)
        if what:
            return Problem("JY002", "retry", what)
    return None


def _problem_of_text(new: NewJob) -> Problem | None:
    if new.submitter is not None and not _PRINTABLE.fullmatch(new.submitter):
        return Problem(
            "JY002", "submitter", f"submitter {shown(new.submitter)} must be 1 to 200 characters, none of them a control character"
        )
    if new.parent is not None and not is_job_id(new.parent):
        return Problem("JY002", "parent", f"parent {shown(new.parent)} must be the id of a job, a UUIDv7")
    if new.traceparent is not None and not _TRACEPARENT.fullmatch(new.traceparent):
        return Problem("JY002", "traceparent", f"traceparent {shown(new.traceparent)} must be 1 to 128 printable ASCII characters")
    if new.tags is not None:
        if len(new.tags) > 50:
            return Problem("JY002", "tags", f"{len(new.tags)} tags are more than the 50 that are allowed")
        for key, value in new.tags.items():
            if not _PRINTABLE.fullmatch(key) or len(key) > 100:
                return Problem(
                    "JY002", "tags", f"tag {shown(key)} must have a name of 1 to 100 characters, none of them a control character"
                )
            if len(value) > 500 or storable.text(value, 4000) != value:
                return Problem(
                    "JY002", "tags", f"tag {shown(key)} must have a value of at most 500 characters, without NUL or lone surrogates"
                )
    return None


def resolve(new: NewJob, kind: Kind, received: Instant, key: str) -> Job | Problem:
    """The job with everything decided: what it leaves out comes from its kind. `key` names the message, for a job without an id.

    A job is due at run_at, but never before it was received: so those read later come later in order. A Problem if the kind takes the size from
    an argument that is no size.
    """
    due = received if new.run_at is None else max(received, new.run_at.timestamp())
    size = new.size
    if size is None:
        size = kind.size if kind.size_arg is None else size_in(new.args, kind.size_arg)
        if size is None:
            return Problem("JY002", "size", f"argument {kind.size_arg!r} must be a number above 0: it is the size of a {new.kind} job")
    return Job(
        id=new.id or derived_job_id(received, key),
        kind=new.kind,
        args=new.args,
        run_at=due,
        priority=kind.priority if new.priority is None else priority.NUMBERS[new.priority],
        size=size,
        max_attempts=kind.max_attempts if new.max_attempts is None else new.max_attempts,
        version=kind.version if new.version is None else new.version,
        timeout_s=kind.timeout_s if new.timeout_s is None else new.timeout_s,
        retry=new.retry or kind.retry,
        submitter=new.submitter,
        tags=new.tags or kind.tags,
        parent=new.parent,
        traceparent=new.traceparent,
    )


def size_in(args: msgspec.Raw | bytes, path: str) -> float | None:
    """The size that stands in the arguments at a dotted path; None: there is no number above 0, at most LARGEST_SIZE."""
    found: object = msgspec.json.decode(args)
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            return None
        found = cast("dict[str, object]", found)[name]
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found <= LARGEST_SIZE:
        return None
    return float(found)


def shown(value: str) -> str:
    """A value in an error message: quoted, escaped, at most 60 characters of it."""
    return ascii(value if len(value) <= 60 else value[:57] + "...")
