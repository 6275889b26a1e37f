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


@dataclass(slots=True)
class _Uncounted:
    """Messages of one partition that got no row of their own."""

    count: int
    first: int
    last: int
    reason: str
    since: Instant


class Quarantine:
    """One row a message, as long as there are few: at most `quarantine_rows` at once, and `quarantine_row_every_s` for each further one. Beyond that
    they are counted, and one row tells how many. Bodies are kept whole while they fit into `quarantine_bytes`, which fill up again by
    `quarantine_bytes_s`; then their beginning is.

    Not remembered over a take-over: it begins with an empty quarantine, and forgets what was counted and not told.
    """

    def __init__(self, rules: Rules, now: Instant) -> None:
        self._rules = rules
        self._rows = float(rules.quarantine_rows)
        self._bytes = float(rules.quarantine_bytes)
        self._at = now
        self._uncounted: dict[tuple[str, int], _Uncounted] = {}

    def put(self, message: BadMessage, events: list[Event], now: Instant) -> None:
        """Keep one message, or count it."""
        self._refill(now)
        place = (message.topic, message.partition)
        if self._rows < 1.0 or place in self._uncounted:
            more = self._uncounted.get(place)
            if more is None:
                self._uncounted[place] = _Uncounted(1, message.offset, message.offset, message.reason, now)
            else:
                more.count += 1
                more.last, more.reason = message.offset, message.reason
            return
        self._row(message, events, now)

    def settle(self, events: list[Event], now: Instant) -> None:
        """The end of a tick: what was counted is told by one row, once there is room for it again."""
        if not self._uncounted:
            return
        self._refill(now)
        for place, more in list(self._uncounted.items()):
            if now - more.since < self._rules.quarantine_tell_s or self._rows < 1.0:
                continue
            del self._uncounted[place]
            reason = (
                f"{more.count} more of offsets {more.first} to {more.last}, more than are kept one by one; the last: "
                f"{storable.line(more.reason, _REASON_BYTES)}"
            )
            self._row(BadMessage(*place, more.last, reason, b""), events, now)

    def _row(self, message: BadMessage, events: list[Event], now: Instant) -> None:
        self._rows -= 1.0
        body, reason = message.body, storable.line(message.reason, _REASON_BYTES)
        most = max(_LEAST_BYTES, int(self._bytes))
        if len(body) > most:
            reason += f" (the first {most} of {len(body)} bytes are kept)"
            body = body[:most]
        self._bytes -= len(body)
        events.append(Quarantined(BadMessage(message.topic, message.partition, message.offset, reason, body), now))

    def _refill(self, now: Instant) -> None:
        rules, passed = self._rules, max(0.0, now - self._at)
        self._at = now
        self._rows = min(float(rules.quarantine_rows), self._rows + passed / rules.quarantine_row_every_s)
        self._bytes = min(float(rules.quarantine_bytes), self._bytes + passed * rules.quarantine_bytes_s)
