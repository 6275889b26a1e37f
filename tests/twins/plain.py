"""Anything that the core and a store say to each other, as plain values that can be compared; and where two of them differ."""

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias, cast

import msgspec

from jobyard.coordinator.core import events as e
from jobyard.coordinator.core.places import Waiting
from jobyard.coordinator.core.questions import Answers
from jobyard.coordinator.core.snapshot import Snapshot

Plain: TypeAlias = Any
"""Dictionaries, lists, numbers, texts: compared, never looked into."""


class Plainer:
    """Makes values plain. `incarnations`: agents by the number that one store gave them; the other's may be another, and which is nobody's business."""

    def __init__(self) -> None:
        self.incarnations: dict[int, str] = {}

    def plain(self, value: object) -> Plain:
        """`settled` is left out, and the text that the reader has prepared; of a place it counts whether it is known, of a set no order."""
        if isinstance(value, msgspec.Raw):
            return bytes(value).decode()
        if isinstance(value, msgspec.Struct):
            return {name: self.plain(getattr(value, name)) for name in value.__struct_fields__}
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, Mapping):
            return {key: self.plain(one) for key, one in cast("Mapping[Plain, object]", value).items()}
        if isinstance(value, list | tuple):
            return [self.plain(one) for one in cast("list[object]", value)]
        if isinstance(value, set | frozenset):
            return sorted(cast("set[Plain]", value))
        if dataclasses.is_dataclass(value):
            return self._fields(value)
        return value

    def _fields(self, value: object) -> Plain:
        found: dict[str, Plain] = {"": type(value).__name__}
        for field in dataclasses.fields(cast("Any", value)):
            one: object = getattr(value, field.name)
            if field.name == "agent_id":
                found[field.name] = self.incarnations.get(cast("int", one), one)
            elif field.name == "ctid":
                found[field.name] = one is not None
            else:
                found[field.name] = self.plain(one)
        mend = _OWN_WAYS.get(type(value))
        if mend is not None:
            mend(self, value, found)
        return found

    def _answers(self, value: Answers, found: dict[str, Plain]) -> None:
        found["agents"] = sorted(value.agents)
        found["jobs"] = _by(found["jobs"], "id")
        found["problems"] = _by(found["problems"], "id")
        found["fresh"] = _by(found["fresh"], "priority", "kind")
        del found["settled"]

    def _snapshot(self, value: Snapshot, found: dict[str, Plain]) -> None:
        found["kinds"] = dict(sorted(found["kinds"].items()))
        found["backlog"] = _by(found["backlog"], "priority", "kind")
        found["durations"] = _by(found["durations"], "kind", "size_class")

    def _waiting(self, value: e.Waits | e.Left, found: dict[str, Plain]) -> None:
        """They go to the table together: in whatever order."""
        found["waiting"] = [self.plain(one) for one in sorted(value.waiting, key=lambda one: one.job.id)]

    def _heard(self, value: e.AgentsHeard, found: dict[str, Plain]) -> None:
        found["heard"] = {self.incarnations.get(number, number): at for number, at in value.heard.items()}

    def _ended(self, value: e.Ended, found: dict[str, Plain]) -> None:
        del found["rows"]

    def _one_waiting(self, value: Waiting, found: dict[str, Plain]) -> None:
        """A place is known as soon as the row was read; where that is told by the store that read it alone."""
        del found["ctid"]


_OWN_WAYS: dict[type, Callable[[Plainer, Any, dict[str, Plain]], None]] = {
    Answers: Plainer._answers,  # pyright: ignore[reportPrivateUsage]  # a table beside the class that it belongs to
    Snapshot: Plainer._snapshot,  # pyright: ignore[reportPrivateUsage]
    e.Waits: Plainer._waiting,  # pyright: ignore[reportPrivateUsage]
    e.Left: Plainer._waiting,  # pyright: ignore[reportPrivateUsage]
    e.AgentsHeard: Plainer._heard,  # pyright: ignore[reportPrivateUsage]
    e.Ended: Plainer._ended,  # pyright: ignore[reportPrivateUsage]
    Waiting: Plainer._one_waiting,  # pyright: ignore[reportPrivateUsage]
}


def _by(rows: list[dict[str, Plain]], *names: str) -> list[dict[str, Plain]]:
    return sorted(rows, key=lambda row: [row[name] for name in names])


def difference(memory: Plain, postgres: Plain, place: str = "") -> str | None:
    """Where two plain values differ first, and how; None: nowhere."""
    if isinstance(memory, dict) and isinstance(postgres, dict):
        one, other = cast("dict[Plain, object]", memory), cast("dict[Plain, object]", postgres)
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                where, has = ("memory", one) if key in one else ("Postgres", other)
                return f"{place}[{key!r}]: only {where} has {has[key]!r}"
            found = difference(one[key], other[key], f"{place}[{key!r}]")
            if found:
                return found
        return None
    if isinstance(memory, list) and isinstance(postgres, list):
        ours, theirs = cast("list[object]", memory), cast("list[object]", postgres)
        for position, (mine, yours) in enumerate(zip(ours, theirs, strict=False)):
            found = difference(mine, yours, f"{place}[{position}]")
            if found:
                return found
        if len(ours) != len(theirs):
            return (
                f"{place}: memory has {len(ours)}, Postgres {len(theirs)}; the rest: {(ours + theirs)[min(len(ours), len(theirs)) :][:3]!r}"
            )
        return None
    return None if memory == postgres else f"{place}: memory {memory!r}, Postgres {postgres!r}"
