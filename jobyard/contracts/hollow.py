"""JSON that no decoder takes, taken apart by its brackets: so that what is wrong with one element stays with it. Slow; only for what was refused."""

import re
from typing import Final

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def hollow(data: bytes, depth: int, most: int = 1000) -> tuple[bytes, list[bytes]] | None:
    """The text with each array and object at this depth replaced by `{"":n}`, and what stood there as the n-th; None: its brackets
    don't match, or more than `most` stand there.

    What stood there may be anything, if only its own brackets match: NaN, lone surrogates, nested ten thousand levels deep.
    """
    frame: list[bytes] = []
    parts: list[bytes] = []
    level = copied = begin = 0
    for found in _TOKEN.finditer(data):
        token = found[0]
        if token in (b"{", b"["):
            if level == depth:
                begin = found.start()
            level += 1
        elif token in (b"}", b"]"):
            level -= 1
            if level < 0 or len(parts) > most:
                return None
            if level == depth:
                frame += (data[copied:begin], b'{"":%d}' % len(parts))
                parts.append(data[begin : found.end()])
                copied = found.end()
    if level:
        return None
    frame.append(data[copied:])
    return b"".join(frame), parts


def part_of(raw: bytes, parts: list[bytes]) -> bytes:
    """An element of the hollowed text as it stood there."""
    return parts[int(raw[4:-1])] if raw[:1] == b"{" else raw
