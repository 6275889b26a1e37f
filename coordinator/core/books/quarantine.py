"""What could not be understood, or was forged: kept for people, but never more than a table and a tick can take."""

from dataclasses import dataclass

from jobyard.contracts import storable
from jobyard.contracts.moments import Instant
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.batch import BadMessage
from jobyard.coordinator.core.events import Event, Quarantined

_REASON_BYTES = 1_000
_LEAST_BYTES = 1_000
"""So much of a body is kept, however little room is left."""
_MOST_PARTS = 10
"""Rows for the parts of one message, of which each may be wrong."""


@dataclass(slots=True)
class _Counted:
    """Messages of one topic that got no row of their own."""

    count: int
    first: int
    last: int
    reason: str
    since: Instant


@dataclass(slots=True)
class _Room:
    """What one topic may still put here: `rows`, `size` in bytes, as of `at`. `last`, `parts`: its last message, and how many parts of it came."""

    rows: float
    size: float
    at: Instant
    last: int = -1
    parts: int = 0
    counted: _Counted | None = None


class Quarantine:
    """One row a message, as long as there are few: of each topic at most `quarantine_rows` at once, and one more each `quarantine_row_every_s`. Beyond
    that they are counted, and one row tells how many. Bodies are kept whole while they fit into `quarantine_bytes`, which fill up again by
    `quarantine_bytes_s`; then their beginning is. Each topic has room of its own, so a flood in one hides nothing in another.

    Not remembered over a take-over: it begins with all its room, and forgets what was counted and not told.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._rooms: dict[tuple[str, int], _Room] = {}

    def put(self, message: BadMessage, events: list[Event], now: Instant) -> None:
        """Keep one message, or count it."""
        place = (message.topic, message.partition)
        room = self._rooms.get(place)
        if room is None:
            room = self._rooms[place] = _Room(float(self._rules.quarantine_rows), float(self._rules.quarantine_bytes), now)
        self._refill(room, now)
        room.parts = room.parts + 1 if message.offset == room.last else 1
        room.last = message.offset
        if room.rows >= 1.0 and room.parts <= _MOST_PARTS:
            self._row(room, message, events, now)
        elif room.counted is None:
            room.counted = _Counted(1, message.offset, message.offset, message.reason, now)
        else:
            room.counted.count += 1
            room.counted.last, room.counted.reason = message.offset, message.reason

    def settle(self, events: list[Event], now: Instant) -> None:
        """The end of a tick: what was counted is told by one row, once there is room for it again."""
        for place, room in self._rooms.items():
            more = room.counted
            if more is None or now - more.since < self._rules.quarantine_tell_s:
                continue
            self._refill(room, now)
            if room.rows < 1.0:
                continue
            room.counted = None
            reason = (
                f"{more.count} more of offsets {more.first} to {more.last}, more than are kept one by one; the last: "
                f"{storable.line(more.reason, _REASON_BYTES)}"
            )
            self._row(room, BadMessage(*place, more.last, reason, b""), events, now)

    def _row(self, room: _Room, message: BadMessage, events: list[Event], now: Instant) -> None:
        room.rows -= 1.0
        body, reason = message.body, storable.line(message.reason, _REASON_BYTES)
        most = max(_LEAST_BYTES, int(room.size))
        if len(body) > most:
            reason += f" (the first {most} of {len(body)} bytes are kept)"
            body = body[:most]
        room.size -= len(body)
        events.append(Quarantined(BadMessage(message.topic, message.partition, message.offset, reason, body), now))

    def _refill(self, room: _Room, now: Instant) -> None:
        rules, passed = self._rules, max(0.0, now - room.at)
        room.at = now
        room.rows = min(float(rules.quarantine_rows), room.rows + passed / rules.quarantine_row_every_s)
        room.size = min(float(rules.quarantine_bytes), room.size + passed * rules.quarantine_bytes_s)
