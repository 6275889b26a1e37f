"""The law of the take-over: a lane loaded from the tables equals the lane that wrote them, after any history."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from jobyard.contracts.moments import Instant
from jobyard.contracts.rules import Rules
from jobyard.contracts.topics import LaneTopics
from jobyard.coordinator.core.events import Event
from jobyard.coordinator.core.lane import Lane
from jobyard.coordinator.simulation.broker import Broker
from jobyard.coordinator.simulation.database import Database, SimulatedStore
from jobyard.coordinator.simulation.violation import Violation

_Waits: TypeAlias = list[tuple[int, str, int, Instant]]
"""Of a picture: priorities, kinds and flows of which jobs wait, with the earliest run_at, or one that is no more."""


class Knowledge:
    """`every`: so many commits are between two looks. `lane_of`: the lane of a session's leader; None: it is still taking over."""

    def __init__(
        self,
        database: Database,
        broker: Broker,
        topics: LaneTopics,
        lane: str,
        rules: Rules,
        lane_of: Callable[[SimulatedStore], Lane | None],
        every: int,
    ) -> None:
        self._db = database
        self._broker = broker
        self._topics = topics
        self._lane = lane
        self._rules = rules
        self._lane_of = lane_of
        self._every = every
        self._commits = 0
        self.checked = 0

    def committed(
        self, store: SimulatedStore, events: Sequence[Event], offsets: dict[str, tuple[str, int]], fence: int, epoch: int
    ) -> None:
        """Compare now and then."""
        self._commits += 1
        lane = self._lane_of(store)
        if lane is None or self._commits % self._every:
            return
        self.checked += 1
        loaded = Lane.load(
            store.picture(),
            lane=self._lane,
            rules=self._rules,
            epoch=epoch,
            now=self._db.now(),
            topic_ids={topic.name: offsets[topic.name][0] for topic in self._topics.all()},
            topics=self._topics,
        )
        mine, found = lane.picture(), loaded.picture()
        tables = self._db.tables
        silent = {"paused", "drained", "kinds", "fair_share"} if any(row.answer is None for row in tables.commands.values()) else set[str]()
        waits, would_wait = (cast("_Waits", picture.pop("waiting")) for picture in (mine, found))
        if not tables.submitted or tables.submitted[-1].seq <= store.looked:
            self._waiting(waits, would_wait)
        for name, value in mine.items():
            if name not in silent and value != found[name]:
                lost, extra = _part(value, found[name]), _part(found[name], value)
                raise Violation("T2", f"{name}: the leader knows {lost}, a take-over would know {extra}")

    @staticmethod
    def _waiting(waits: _Waits, would_wait: _Waits) -> None:
        """What a take-over would read first, its leader must know; a row that it expects may be gone (cancelled before it was read): it looks in vain."""
        known = {(priority, kind, flow): at for priority, kind, flow, at in waits}
        for priority, kind, flow, at in would_wait:
            mine = known.get((priority, kind, flow))
            if mine is None or mine > at:
                raise Violation("T2", f"jobs of priority {priority} and kind {kind} wait since {at}; the leader knows of {mine}")


def _part(value: object, other: object) -> object:
    """What is different, of lists."""
    found, known = _listed(value), _listed(other)
    return value if found is None or known is None else [one for one in found if one not in known][:5]


def _listed(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None
