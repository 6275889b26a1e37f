"""Bytes that no program of Jobyard sends: what somebody with the right to write to a topic, a faulty disk or a version to come may put there."""

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

WILD_NUMBERS: Final = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1",
    "-1e300",
    str(2**63),
    str(2**70),
    "1" * 400,
    "0.5",
    "true",
    '"1"',
    "[]",
    "null",
)
WILD_TEXTS: Final = ('""', json.dumps("x" * 10_000), json.dumps("\x00\x1b[2J\n"), '"\\ud800"', "5", "null", "{}")


_WRONG: Final[tuple[object, ...]] = (None, "", "x" * 10_000, -1, 2**70, 0.5, [], {}, [None], True)


def text(message: Json) -> bytes:
    return json.dumps(message).encode()


def truncated(good: bytes) -> Iterator[bytes]:
    """The message cut behind each of its bytes but the last."""
    return (good[:n] for n in range(len(good)))


def no_message(good: Json) -> Iterator[bytes]:
    """What is no message of this kind, whatever the kind."""
    yield from (
        b"",
        b"\x00",
        b"not json",
        b"\xff\xfe" + text(good),
        text(good) + b"}",
        b"[" * 100_000,
        b'{"a":' * 10_000,
        b"null",
        b"[]",
        b"5",
        b'"x"',
    )
    yield text(good).replace(b'"agent"', b'"ag\xffent"')
    for version in (0, 2, -1, 2**70, "1", None, 1.5, [1]):
        yield text(good | {"v": version})
    for name in good:
        yield text({key: value for key, value in good.items() if key != name})
        for wrong in _WRONG:
            if not _fits(good[name], wrong):
                yield text(good | {name: wrong})


def _fits(right: object, wrong: object) -> bool:
    """Whether a wrong value might be right: a text for a text, a number that is no worse than another."""
    if isinstance(right, bool):
        return isinstance(wrong, bool)
    if isinstance(right, str):
        return False
    if isinstance(right, int):
        return False
    return type(right) is type(wrong) or wrong is None


def with_raw(good: Json, path: tuple[str | int, ...], raw: str) -> bytes:
    """The message with this JSON text, which need not be JSON, at a place in it."""
    mark = "\u0001mark\u0001"
    copy: Any = json.loads(json.dumps(good))
    at = copy
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = mark
    return json.dumps(copy).replace(json.dumps(mark), raw).encode()


def parts_of(value: object) -> list[tuple[str | int, object]]:
    """The parts of an object or a list, each with its name or place; none of anything else."""
    if isinstance(value, dict):
        return list(cast("Json", value).items())
    if isinstance(value, list):
        return list(enumerate(cast("list[object]", value)))
    return []


def paths_of(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a message."""
    for name, part in parts_of(value):
        yield (*path, name)
        yield from paths_of(part, (*path, name))


def numbers_of(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where numbers stand in a message."""
    for name, part in parts_of(value):
        if isinstance(part, (int, float)) and not isinstance(part, bool):
            yield (*path, name)
        yield from numbers_of(part, (*path, name))
