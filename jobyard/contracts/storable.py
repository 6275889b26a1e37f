"""What Postgres can keep: text without NUL and lone surrogates, bounded in bytes; JSON without escapes that Postgres refuses to read."""

import re
from typing import Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# An escape that is itself not escaped: an even number of backslashes (or none) before \u0000.
_NUL_ESCAPE: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_HIGH_LOW: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_SURROGATE_ESCAPE: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_AS_ARRAYS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
# First a quick look, in linear time. A number can only be far with an exponent of three digits, or with three hundred digits.
_FAR_EXPONENT: Final = re.compile(rb"[eE][+-]?0*+[0-9]{3}")
_MANY_DIGITS: Final = re.compile(rb"(?<![0-9])[0-9]{300}")
_NUMBER: Final = re.compile(rb"(-?[0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_MUCH: Final = 10**9
MOST_DIGITS: Final = 308
MOST_PLACES: Final = 1000
NUMBER_RULE: Final = f"numbers must have at most {MOST_DIGITS} digits before the point and {MOST_PLACES} behind it"
"""So each is finite as a double, and no reader of JSON, Postgres among them, falls over it. Whole numbers within it are kept exactly."""

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
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and nesting_exceeds(raw, DEEPEST):
        return f"is nested deeper than {DEEPEST} levels"
    return None


def nesting_exceeds(raw: bytes, levels: int) -> bool:
    """Whether arrays and objects are nested deeper. Takes away the innermost ones, level by level: no loop over characters, however many there are."""
    left = _STRING.sub(b"", raw).translate(_AS_ARRAYS, _NO_BRACKETS)
    for _ in range(levels):
        if not left:
            return False
        left = left.replace(b"[]", b"")
    return bool(left)


def far_number(raw: bytes) -> str | None:
    """A number in this JSON that not everybody reads as it was meant, as it is written there; None: there is none. The rule: NUMBER_RULE."""
    if not _FAR_EXPONENT.search(raw) and (len(raw) < 300 or not _MANY_DIGITS.search(raw)):
        return None
    for found in _NUMBER.finditer(_STRING.sub(b'""', raw)):
        whole, fraction, exponent = found[1], found[2] or b"", found[3] or b"0"
        shift = int(exponent) if len(exponent) < 10 else (-_MUCH if exponent[:1] == b"-" else _MUCH)
        digits = (whole + fraction).lstrip(b"-0")
        before = len((whole + fraction).lstrip(b"-")) - len(fraction) + shift if digits else 1
        before -= len((whole + fraction).lstrip(b"-")) - len(digits) if digits else 0
        if before > MOST_DIGITS or len(fraction) - shift > MOST_PLACES or len(digits) > MOST_DIGITS + MOST_PLACES:
            return found[0][:200].decode()
    return None
