"""The job: as people write it in JSON (NewJob, strict) and as leader and agents hold it (Job). What is wrong with one is told by `problem_of`."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Final, cast

import msgspec

from jobyard.contracts import moments, priority, storable
from jobyard.contracts.ids import derived_job_id, id_time, is_job_id
from jobyard.contracts.job_fields import LARGEST_SIZE, LONGEST_TIMEOUT_S, MOST_ATTEMPTS, MOST_VERSION, SMALLEST, Problem, broken, shown
from jobyard.contracts.moments import Instant
from jobyard.contracts.priority import PriorityName
from jobyard.contracts.retry import Retrying
from jobyard.contracts.retry import problem_of as problem_of_retrying
from jobyard.contracts.rules import Rules

__all__ = [
    "LARGEST_SIZE", "LONGEST_TIMEOUT_S", "MOST_ATTEMPTS", "NO_ARGS", "Job", "Kind", "NewJob", "Problem", "RefusedJob", "problem_of", "problem_of_id",
    "problem_of_kind", "resolve", "shown", "size_in",
]  # fmt: skip

NO_ARGS: Final = msgspec.Raw(b"{}")
_FARTHEST: Final = timedelta(hours=15, minutes=59)
"""The largest offset that Postgres reads."""
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


class RefusedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job from the intake topic that can be named (id and kind can be stored), but not run."""

    id: str
    kind: str
    problem: Problem
    submitter: str | None = None


def problem_of_kind(kind: str) -> Problem | None:
    """What is wrong with a kind's name; None: nothing."""
    return None if _KIND.fullmatch(kind) else broken("kind", shown(kind))


def problem_of_id(job_id: str, received: Instant, rules: Rules) -> Problem | None:
    """What is wrong with an id that arrived at `received` (L19); None: nothing."""
    if not is_job_id(job_id):
        return broken("id", shown(job_id))
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
        problem = problem_of_args(raw, rules)
        if problem:
            return problem
    return _problem_of_number(new) or _problem_of_text(new)


def problem_of_args(raw: bytes, rules: Rules) -> Problem | None:
    """What is wrong with arguments, syntactically valid JSON; None: nothing."""
    if raw[:1] != b"{":
        return broken("args", shown(raw[:240].decode(errors="replace")))
    what = storable.problem_of_json(raw, rules.max_args_bytes)
    if what is None:
        number = storable.far_number(raw)
        if number is None:
            return None
        return Problem(
            "JY002",
            "args",
            f"args {_excerpt(raw)} hold the number {shown(number)}: {storable.NUMBER_RULE}",
            "Pass such a number as a text.",
        )
    code = "JY010" if len(raw) > rules.max_args_bytes else "JY002"
    return Problem(code, "args", f"args {_excerpt(raw)} {what}", "Put large data elsewhere and pass its address.")


def _excerpt(raw: bytes) -> str:
    return shown(raw[:240].decode(errors="replace"))


def _problem_of_number(new: NewJob) -> Problem | None:
    if new.priority is not None and new.priority not in priority.NUMBERS:
        return broken("priority", shown(new.priority))
    if new.size is not None and not SMALLEST <= new.size <= LARGEST_SIZE:
        return broken("size", str(new.size))
    if new.max_attempts is not None and not 1 <= new.max_attempts <= MOST_ATTEMPTS:
        return broken("max_attempts", _whole(new.max_attempts))
    if new.timeout_s is not None and not SMALLEST <= new.timeout_s <= LONGEST_TIMEOUT_S:
        return broken("timeout_s", str(new.timeout_s))
    if new.version is not None and not 1 <= new.version <= MOST_VERSION:
        return broken("version", _whole(new.version))
    if new.run_at is not None and not _comes(new.run_at):
        return broken("run_at", new.run_at.isoformat())
    if new.retry is not None:
        what = problem_of_retrying(new.retry)
        if what:
            return Problem("JY002", "retry", what, "Each of its fields can be left out.")
    return None


def _whole(number: int) -> str:
    """A whole number of any length in an error message."""
    return str(number) if abs(number) < 10**60 else f"of {int(number.bit_length() * 0.30103) + 1} digits"


def _comes(at: datetime) -> bool:
    """Whether this moment is one that may be waited for."""
    offset = at.utcoffset()
    return offset is not None and abs(offset) <= _FARTHEST and moments.EARLIEST <= at.timestamp() < moments.LATEST


def _problem_of_text(new: NewJob) -> Problem | None:
    if new.submitter is not None and not _PRINTABLE.fullmatch(new.submitter):
        return broken("submitter", shown(new.submitter))
    if new.parent is not None and not is_job_id(new.parent):
        return broken("parent", shown(new.parent))
    if new.traceparent is not None and not _TRACEPARENT.fullmatch(new.traceparent):
        return broken("traceparent", shown(new.traceparent))
    return None if new.tags is None else _problem_of_tags(new.tags)


def _problem_of_tags(tags: dict[str, str]) -> Problem | None:
    if len(tags) > 50:
        return broken("tags", f"of {len(tags)}")
    for key, value in tags.items():
        if not _PRINTABLE.fullmatch(key) or len(key) > 100 or len(value) > 500 or storable.text(value, 4000) != value:
            return broken("tags", f"{shown(key)}: {shown(value)}")
    return None


def resolve(new: NewJob, kind: Kind, received: Instant, key: str, now: Instant | None = None) -> Job | Problem:
    """The job with everything decided: what it leaves out comes from its kind. `key` names the message, for a job without an id.

    A job is due at run_at, but never before it was received: so those read later come later in order. `received` is by the broker's clock: if that is
    ahead of `now`, the leader's, a job is due now (None: it is not looked at). A Problem if the kind takes the size from
    an argument that is no size.
    """
    due = received if now is None else min(received, now)
    if new.run_at is not None:
        due = max(due, new.run_at.timestamp())
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
    try:
        found: object = msgspec.json.decode(args)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None  # accepted by another version, with other rules
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            return None
        found = cast("dict[str, object]", found)[name]
    if isinstance(found, bool) or not isinstance(found, int | float) or not SMALLEST <= found <= LARGEST_SIZE:
        return None
    return float(found)
