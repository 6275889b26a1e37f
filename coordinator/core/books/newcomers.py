"""How many agents a lane takes in: whoever may report can say hello under ever new names, and each one costs memory, a row and five partitions."""

from jobyard.contracts.codec import encode
from jobyard.contracts.job import shown
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import Hello
from jobyard.contracts.rules import Rules
from jobyard.coordinator.core.batch import BadMessage, ReportsRead
from jobyard.coordinator.core.books.quarantine import Quarantine
from jobyard.coordinator.core.events import Event


class Newcomers:
    """At most `agents_max` at a time; of new incarnations twice as many at once, and `agents_s` more each second, so that all may start again.

    A hello beyond that is not answered but kept in quarantine: an agent repeats it (A10), and joins once there is room. `topic`: that of the reports.
    Not remembered over a take-over: it begins with all its room.
    """

    def __init__(self, rules: Rules, quarantine: Quarantine, topic: str, now: Instant) -> None:
        self._rules = rules
        self._quarantine = quarantine
        self._topic = topic
        self._room = 2.0 * rules.agents_max
        self._at = now

    def admits(self, read: ReportsRead, hello: Hello, *, known: bool, there: int, events: list[Event], now: Instant) -> bool:
        """Whether this new incarnation may join `there` others. `known`: its name is one of theirs, whose place it takes."""
        self._room = min(2.0 * self._rules.agents_max, self._room + max(0.0, now - self._at) * self._rules.agents_s)
        self._at = now
        if not known and there >= self._rules.agents_max:
            why = f"the lane has {there} agents, and takes {self._rules.agents_max} at most (JOBYARD_MAX_AGENTS)"
        elif self._room < 1.0:
            why = f"too many agents have begun anew; {self._rules.agents_s:g} a second are taken in"
        else:
            self._room -= 1.0
            return True
        reason = f"hello of agent {shown(read.message.agent)}, incarnation {read.message.incarnation}, must wait: {why}"
        self._quarantine.put(BadMessage(self._topic, 0, read.offset, reason, encode(hello)), events, now)
        return False
