"""The fields of a job: what may stand in each, and the refusal that names field, value and rule. The same words on every way in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple, Optional

import msgspec

from jobyard.contracts import storable
from jobyard.contracts.hollow import hollow, part_of
from jobyard.contracts.priority import NAMES, PriorityName
from jobyard.contracts.retry import LONGEST_DELAY_S, Retrying

LARGEST_SIZE: Final = 1e12
MOST_ATTEMPTS: Final = 1000
MOST_VERSION: Final = 32_767
LONGEST_TIMEOUT_S: Final = 366 * 86_400.0
"""No attempt may run longer: what is longer is a typing mistake, and its deadline would lie beyond what a table can hold."""
SMALLEST: Final = 1e-300
"""What is nearer to 0 is no size and no time-out: Postgres and Python would not agree on it."""
_SHOWN: Final = 60


class Problem(msgspec.Struct, frozen=True):
    """Why a job is refused. `code`: the SQLSTATE of the same mistake in SQL."""

    code: str
    field: str
    message: str
    hint: str = ""


class FieldRule(NamedTuple):
    """What may stand in a field: its type in JSON, and the rest in words. `code`: the SQLSTATE of what breaks it."""

    code: str
    type: Any
    must: str
    hint: str


_DELAY: Final = f"0 to {LONGEST_DELAY_S:.0f}"
_RETRY: Final = f'must be {{"backoff": exponential|linear|constant, "base_s": {_DELAY}, "cap_s": {_DELAY}, "jitter": 0 to 1}}'
_TAGS: Final = (
    "must be an object of at most 50 strings: names of 1 to 100 characters without control characters, values of at most 500 without NUL"
)
FIELDS: Final[Mapping[str, FieldRule]] = {
    "kind": FieldRule("JY001", str, "must be 1 to 200 printable ASCII characters without spaces", "It is the name of a handler."),
    "args": FieldRule("JY002", msgspec.Raw, "must be a JSON object", "They are the keyword arguments of the handler."),
    "id": FieldRule("JY004", str | None, "must be a UUIDv7 in lower case with hyphens", "Leave it out to have one made."),
    "lane": FieldRule("JY006", str | None, "must be the name of a lane", 'Add it with "jobyard lane add".'),
    "priority": FieldRule(
        "JY002", PriorityName | None, f"is unknown: it must be one of {', '.join(NAMES)}", "Leave it out for that of the kind."
    ),
    "size": FieldRule(
        "JY002",
        float | None,
        f"must be a number above 0, at most {LARGEST_SIZE:g}",
        "A cheap estimate of what the job costs, in any unit; leave it out for that of the kind.",
    ),
    "run_at": FieldRule(
        "JY002",
        Optional[Annotated[datetime, msgspec.Meta(tz=True)]],  # noqa: UP045 - as a value it is no type that takes |
        "must be a moment with its offset, between the years 1970 and 2200",
        "For example 2030-01-31T08:00:00Z. Leave it out for now.",
    ),
    "timeout_s": FieldRule(
        "JY002",
        float | None,
        f"must be a number of seconds above 0, at most {LONGEST_TIMEOUT_S:.0f}",
        "Leave it out for the time-out of the kind, or none.",
    ),
    "max_attempts": FieldRule(
        "JY002", int | None, f"must be a whole number between 1 and {MOST_ATTEMPTS}", "1: the job is never started twice."
    ),
    "retry": FieldRule("JY002", Retrying | None, _RETRY, "Each of them can be left out."),
    "version": FieldRule(
        "JY002",
        int | None,
        f"must be a whole number between 1 and {MOST_VERSION}",
        "The job goes only to agents whose handler has at least this version.",
    ),
    "submitter": FieldRule(
        "JY002", str | None, "must be 1 to 200 characters, none of them a control character", "Leave it out for your role."
    ),
    "tags": FieldRule("JY002", dict[str, str] | None, _TAGS, 'For example {"customer": "7"}.'),
    "parent": FieldRule(
        "JY002", str | None, "must be the id of a job, a UUIDv7 in lower case with hyphens", "The job that submits this one."
    ),
    "traceparent": FieldRule("JY002", str | None, "must be 1 to 128 printable ASCII characters", "As W3C Trace Context says."),
}
_SEE: Final = 'See "A job as JSON" in the documentation.'
_decoders: Final[Mapping[str, "msgspec.json.Decoder[object]"]] = {name: msgspec.json.Decoder(rule.type) for name, rule in FIELDS.items()}
_open: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any: Final = msgspec.json.Decoder(msgspec.Raw)
_text: Final = msgspec.json.Decoder(str)
_WRONG: Final = (msgspec.MsgspecError, RecursionError, ValueError)


def shown(value: str) -> str:
    """A value in an error message: quoted, escaped, at most 60 characters of it."""
    return ascii(value if len(value) <= _SHOWN else value[: _SHOWN - 3] + "...")


def shown_value(value: object) -> str:
    """Any value in an error message: numbers as they are, the rest as its quoted repr."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a huge {type(value).__name__}"  # a whole number of more digits than Python writes, or one that holds itself
    return text if isinstance(value, int | float) and len(text) <= _SHOWN else shown(text)


def shown_json(raw: bytes | msgspec.Raw) -> str:
    """A value that came as JSON, in an error message: as it came, a text or what is long as by `shown`."""
    data = bytes(raw)
    if data[:1] == b'"':
        try:
            return shown(_text.decode(data))
        except _WRONG:
            pass  # shown as it came
    text = data[: 4 * _SHOWN].decode(errors="replace")
    return text if len(text) <= _SHOWN and text.isascii() and text.isprintable() and text[:1] not in "{[" else shown(text)


def broken(field: str, value: str, why: str = "") -> Problem:
    """The refusal of a field's value (as shown). `why`: more than the rule says."""
    rule = FIELDS[field]
    return Problem(rule.code, field, f"{field} {value} {rule.must}{f' ({why})' if why else ''}", rule.hint)


def fields_of(raw: bytes) -> dict[str, bytes] | None:
    """The fields of a job as they came, each of which may be no JSON; None: this is no object."""
    hollowed = hollow(raw, 1)
    if hollowed is None:
        return None
    frame, parts = hollowed
    try:
        frame.decode()
        return {name: part_of(bytes(value), parts) for name, value in _open.decode(frame).items()}
    except _WRONG:
        return None


def misfit(raw: bytes, fields: dict[str, bytes] | None) -> Problem:
    """Why this, which could not be decoded as a job, is none. `fields`: by `fields_of`."""
    if fields is None:
        try:
            raw.decode()
            _any.decode(raw)
        except _WRONG as error:
            return Problem("JY002", "job", f"job {shown_json(raw)} is no JSON in UTF-8: {why_no_json(raw, error)}", _SEE)
        return Problem("JY002", "job", f"job {shown_json(raw)} must be a JSON object", _SEE)
    for name, value in fields.items():
        rule = FIELDS.get(name)
        if rule is None:
            return Problem("JY003", name if len(name) <= _SHOWN and name.isprintable() else "", f"unknown field {shown(name)}", _SEE)
        try:
            value.decode()
            _decoders[name].decode(value)
        except _WRONG as error:
            return broken(name, shown_json(value), "" if isinstance(error, msgspec.ValidationError) else why_no_json(value, error))
    if "kind" not in fields:
        return broken("kind", "null")
    return Problem("JY002", "job", f"job {shown_json(raw)} holds a field twice, and once it is wrong", _SEE)


def why_no_json(raw: bytes, error: Exception) -> str:
    """Why a decoder took this for no JSON: on one line, bounded and printable."""
    found = storable.problem_of_json(raw, len(raw))
    if found:
        return found
    text = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:300]
    return text.encode("ascii", "backslashreplace").decode().replace("\n", "\\n").replace("\r", "\\r")
