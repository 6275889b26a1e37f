"""Jobs that are right and wrong, and messages that are none: what each way in must take, and what it must say of what it refuses."""

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

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
            if field == "tags" and isinstance(value, dict) and len(value) > 50 and f"of {len(value)}" in text:
                return True
            if field == "retry" and isinstance(value, dict) and any(f"retry.{name}=" in text for name in value):
                return True
            if field == "retry" and "e+300" in plain:
                plain = plain.partition("1e")[0]  # jsonb writes it out
            if field == "run_at":
                plain = plain[:10]
            said = _QUOTING.sub("", text)
            return any(_QUOTING.sub("", form)[:15].strip("{}") in said for form in (plain, ascii(plain)))


_CASES: Final[dict[str, list[Any]]] = json.loads((Path(__file__).parent / "cases" / "jobs.json").read_text(encoding="utf-8"))
GOOD: Final[list[dict[str, Any]]] = _CASES["good"]
BAD: Final = [Case(**case) for case in _CASES["bad"]]
