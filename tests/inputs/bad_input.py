"""Jobs that are right and wrong, and messages that are none: what each way in must take, and what it must say of what it refuses."""

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

_LARGE: Final = {"a": "LARGE"}
_RULES: Final = {
    "kind": "1 to 200 printable ASCII characters without spaces",
    "args": "a JSON object|at most [0-9]+ bytes|bytes of JSON are more than|200 levels|308 digits",
    "id": "a UUIDv7 in lower case|7 days|days old; at most 7|in the future; at most 3600",
    "lane": "no lane|the name of a lane|whose intake topic this is|1 to 63 lower-case letters|add it with",
    "priority": "critical, high, medium, low, very_low",
    "size": r"a number above 0, at most 1e\+12",
    "run_at": "a moment with its offset, between the years 1970 and 2200",
    "timeout_s": "a number of seconds above 0, at most 31622400",
    "max_attempts": "a whole number between 1 and 1000",
    "retry": '{"backoff": exponential.linear.constant, "base_s": 0 to 31622400|must lie between 0 and (31622400|1)',
    "version": "a whole number between 1 and 32767",
    "submitter": "1 to 200 characters, none of them a control character",
    "tags": "at most 50 strings: names of 1 to 100 characters without control characters, values of at most 500",
    "parent": "the id of a job, a UUIDv7",
    "traceparent": "1 to 128 printable ASCII characters",
}
_QUOTING: Final = re.compile(r"[\\\s\"']|u00(?=[0-9a-f]{2})|x(?=[0-9a-f]{2})")


class Case(NamedTuple):
    """A job with one mistake. `code`: the SQLSTATE of it."""

    name: str
    job: dict[str, Any]
    code: str
    field: str

    @property
    def written(self) -> dict[str, Any]:
        """The job with its largest argument written out."""
        return self.job | {"args": {"a": "x" * 2_000_000}} if self.job.get("args") == _LARGE else self.job

    def unsaid(self, text: str) -> str:
        """What a refusal does not say, of field, value and rule; empty: it says all, in few printable words."""
        wrong: list[str] = []
        if self.field not in text:
            wrong.append("field")
        if self.code != "JY003":  # an unknown field: whatever stands in it, its name is what is wrong
            if not re.search(_RULES[self.field], text):
                wrong.append("rule")
            if not _shows(self.written.get(self.field), self.field, text):
                wrong.append("value")
        if len(text) > 900 or not text.isprintable():
            wrong.append("few printable words")
        return ", ".join(wrong)


def _shows(value: object, field: str, text: str) -> bool:
    """Whether the beginning of the value is in the text, by whatever rules it is quoted."""
    match value:
        case bool() | None:
            return json.dumps(value) in text
        case int() | float() if abs(value) >= 1e15:
            return "digits" in text or "1e+" in text or str(value)[:20] in text or "1" + "0" * 40 in text
        case int() | float():
            return str(value).removesuffix(".0")[:8] in text
        case _:
            plain = value if isinstance(value, str) else json.dumps(value)
            fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
            if field == "tags" and len(fields) > 50 and f"of {len(fields)}" in text:
                return True
            if field == "retry" and any(f"retry.{name}=" in text for name in fields):
                return True
            if field == "retry" and "e+300" in plain:
                plain = plain.partition("1e")[0]  # jsonb writes it out
            if field == "run_at":
                plain = plain[:10]
            said = _QUOTING.sub("", text)
            return any(_QUOTING.sub("", form)[:15].strip("{}") in said for form in (plain, ascii(plain), plain.replace("\x7f", "\ufffd")))


_CASES: Final[dict[str, list[Any]]] = json.loads((Path(__file__).parent / "cases" / "jobs.json").read_text(encoding="utf-8"))
GOOD: Final[list[dict[str, Any]]] = _CASES["good"]
BAD: Final = [Case(**case) for case in _CASES["bad"]]


class BadMessage(NamedTuple):
    """What stands on the intake topic, and is no message at all. `reason`: what its refusal says."""

    name: str
    body: bytes | None
    reason: str


_GOOD: Final = b'{"kind":"tiny","args":{"n":1}}'
_BROKEN: Final = "is no JSON in UTF-8: "
MESSAGES: Final = [
    BadMessage("a tombstone", None, "the message is empty; it must be"),
    BadMessage("nothing", b"", "the message is empty; it must be"),
    BadMessage("no JSON", b"hello world", f"message hello world {_BROKEN}JSON is malformed"),
    BadMessage("truncated", b'{"v":1,"jobs":[' + _GOOD, _BROKEN + "Input data was truncated"),
    BadMessage("followed by something", b'{"v":1,"jobs":[' + _GOOD + b"]}x", _BROKEN + "JSON is malformed: trailing characters"),
    BadMessage("two documents", b'{"v":1,"jobs":[]}{"v":1,"jobs":[]}', _BROKEN + "JSON is malformed: trailing characters"),
    BadMessage("a byte order mark", b'\xef\xbb\xbf{"v":1,"jobs":[]}', "begins with a byte order mark; it must be JSON in UTF-8"),
    BadMessage("UTF-16", '{"v":1,"jobs":[]}'.encode("utf-16"), "begins with a byte order mark; it must be JSON in UTF-8"),
    BadMessage("UTF-16 without its mark", '{"v":1,"jobs":[]}'.encode("utf-16-le"), _BROKEN),
    BadMessage("Latin-1", '{"v":1,"jobs":[],"ä":1}'.encode("latin-1"), _BROKEN + "'utf-8' codec can't decode byte 0xe4"),
    BadMessage("null", b"null", 'message null must be {"v": 1, "jobs": [job'),
    BadMessage("an array", b"[" + _GOOD + b"]", 'must be {"v": 1, "jobs": [job'),
    BadMessage("a number", b"17", 'message 17 must be {"v": 1, "jobs": [job'),
    BadMessage("a text", b'"jobs"', 'must be {"v": 1, "jobs": [job'),
    BadMessage("version 2", b'{"v":2,"jobs":[' + _GOOD + b'],"more":1}', "version 2 is unknown; v must be 1"),
    BadMessage("version 0", b'{"v":0,"jobs":[]}', "version 0 is unknown; v must be 1"),
    BadMessage("a version of 4000 digits", b'{"v":1' + b"0" * 4000 + b',"jobs":[]}', f"version 1{'0' * 59} is unknown; v must be 1"),
    BadMessage("a version as text", b'{"v":"1","jobs":[]}', "v '1' must be the number 1"),
    BadMessage("version true", b'{"v":true,"jobs":[]}', "v true must be the number 1"),
    BadMessage("no version", b'{"jobs":[' + _GOOD + b"]}", "v null must be the number 1"),
    BadMessage("an unknown field", b'{"v":1,"jobs":[' + _GOOD + b'],"job":1}', "unknown field 'job'; the message must be"),
    BadMessage("no jobs", b'{"v":1}', "jobs null must be an array of jobs"),
    BadMessage("jobs as an object", b'{"v":1,"jobs":' + _GOOD + b"}", """jobs '{"kind":"tiny","args":{"n":1}}' must be an array of jobs"""),
    BadMessage("more jobs than may be", b'{"v":1,"jobs":[' + b"0," * 100_000 + b"0]}", "jobs of 100001 must be at most 100000"),
    BadMessage("nested without end", b"[" * 1_000_000, 'must be {"v": 1, "jobs": [job'),
    BadMessage(
        "a chain of arrays", b'{"v":1,"jobs":' + b"[" * 10_000 + b"]" * 10_000 + b',"x":1}', _BROKEN + "is nested deeper than 200 levels"
    ),
]
"""By themselves each of them is what a quarantine row is for."""

PIECES: Final = [
    ("NaN", b'"args":{"a":NaN}', "args", """args '{"a":NaN}' must be a JSON object (JSON is malformed"""),
    ("Infinity", b'"args":{"a":-Infinity}', "args", """args '{"a":-Infinity}' must be a JSON object (JSON is malformed"""),
    ("a lone surrogate", b'"args":{"a":"\\ud800"}', "args", "lone surrogate"),
    ("a lone low surrogate", b'"args":{"a":"\\udc00\\ud800"}', "args", "lone surrogate"),
    ("NUL", b'"args":{"a":"\\u0000"}', "args", "holds the character NUL"),
    ("NUL as a name", b'"args":{"\\u0000":1}', "args", "holds the character NUL"),
    ("a raw control character", b'"args":{"a":"\x01"}', "args", "must be a JSON object (JSON is malformed"),
    ("bytes that are no UTF-8", b'"args":{"a":"\xff"}', "args", "must be a JSON object ('utf-8' codec can't decode byte 0xff"),
    ("an overlong form", b'"args":{"a":"\xc0\x80"}', "args", "must be a JSON object ('utf-8' codec can't decode byte 0xc0"),
    ("10,000 levels", b'"args":{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "args", "nested deeper than 200 levels"),
    ("10,000 objects", b'"args":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "args", "nested deeper than 200 levels"),
    ("1e400", b'"args":{"a":1e400}', "args", "hold the number '1e400': numbers must have at most 308 digits before the point"),
    ("1e-99999", b'"args":{"a":1e-99999}', "args", "hold the number '1e-99999': numbers must have at most 308 digits"),
    ("a number of 5000 digits", b'"args":{"a":' + b"7" * 5000 + b"}", "args", "numbers must have at most 308 digits before the point"),
    ("a number with a leading zero", b'"args":{"a":01}', "args", "must be a JSON object (JSON is malformed"),
    ("size NaN", b'"size":NaN', "", "is no JSON in UTF-8"),
    ("size 1e400", b'"size":1e400', "size", "size 1e400 must be a number above 0"),
    ("size -1e400", b'"size":-1e400', "size", "size -1e400 must be a number above 0"),
    ("max_attempts 3.0", b'"max_attempts":3.0', "max_attempts", "max_attempts 3.0 must be a whole number between 1 and 1000"),
    ("max_attempts 3e0", b'"max_attempts":3e0', "max_attempts", "max_attempts 3e0 must be a whole number between 1 and 1000"),
    ("a tag with NUL", b'"tags":{"a":"\\u0000"}', "tags", "tags 'a': '\\x00' must be an object of at most 50 strings"),
    ("a tag with a lone surrogate", b'"tags":{"a":"\\ud800"}', "tags", "must be an object of at most 50 strings"),
    ("a field twice, wrong first", b'"size":"x","size":1', "job", "holds a field twice, and once it is wrong"),
    ("a comment", b'"size":1 // costs', "", "is no JSON in UTF-8"),
]
"""One of a job's fields as text that is no JSON, or is read in more than one way: what is wrong stays with this job. The third: the field that is named;
empty where it cannot even be told what the job's id is."""
