"""What Postgres can keep: text without NUL and lone surrogates, bounded in bytes; JSON without escapes that Postgres refuses to read."""

import re
from typing import Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# An escape that is itself not escaped: an even number of backslashes (or none) before \u0000.
_NUL_ESCAPE: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_HIGH_LOW: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_SURROGATE_ESCAPE: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

DEEPEST = 200
"""Levels of arrays and objects in arguments and results: far more than people mean, far less than parsers fall over at."""


def text(value: str, most: int) -> str:
    """The text with NUL and lone surrogates replaced by U+FFFD, cut to `most` bytes of UTF-8, never inside a character."""
    if len(value) > most:
        value = value[: most + 1]  # each character has a byte at least: what lies behind is cut anyway, and may be very long
    if "\x00" in value:
        value = value.replace("\x00", "\ufffd")
    if not value.isascii() and _SURROGATE.search(value):
        value = _SURROGATE.sub("\ufffd", value)
    if len(value) * 4 <= most:
        return value
    data = value.encode()
    if len(data) <= most:
        return value
    return data[: max(0, most - 3)].decode(errors="ignore") + "…"


def line(value: str, most: int) -> str:
    """The text as one printable line of at most `most` bytes: what is no printable character is escaped as in Python (`\\n`, `\\x00`, `\\ud800`)."""
    if len(value) > most:
        value = value[: most + 1]
    if not value.isprintable():
        value = "".join([c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in value])
    return text(value, most)


def problem_of_json(raw: bytes, most: int) -> str | None:
    """Why these bytes (syntactically valid JSON in UTF-8) cannot be kept or read back; None: they can."""
    if len(raw) > most:
        return f"{len(raw)} bytes of JSON are more than the {most} that are allowed"
    if b"\\u" in raw:
        if _NUL_ESCAPE.search(raw):
            return "holds the character NUL (\\u0000), which Postgres cannot keep"
        if _SURROGATE_ESCAPE.search(_HIGH_LOW.sub(rb"\1", raw)):
            return "holds a lone surrogate (\\ud800 to \\udfff), which is no character"
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _depth(raw) > DEEPEST:
        return f"is nested deeper than {DEEPEST} levels"
    return None


def _depth(raw: bytes) -> int:
    deepest = depth = 0
    quoted = False
    previous = 0
    for byte in raw:
        if quoted:
            if byte == 0x5C and previous == 0x5C:
                previous = 0
                continue
            if byte == 0x22 and previous != 0x5C:
                quoted = False
        elif byte == 0x22:
            quoted = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
        previous = byte
    return deepest
