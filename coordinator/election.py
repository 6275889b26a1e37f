"""Which lanes this process leads: its share of them, among all coordinators that are alive. Looks at leases and peers by the database's clock."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from jobyard.contracts.errors import JobyardError
from jobyard.contracts.rules import Rules
from jobyard.coordinator.leader import Leader
from jobyard.coordinator.seams import Lanes, Seen
from jobyard.coordinator.shares import shares

_log = logging.getLogger(__name__)

_END_S = 30.0
"""How long an orderly end waits for each leader: longer than a statement's time-out would be pointless."""
_PATIENCE_S = 5.0
"""How long a leader waits for a lane that somebody is to hand over."""
_SURE = 2
"""A lane is handed over when so many looks in a row say so, and one at a time: what was seen by chance moves nothing."""


class Election:
    """The coordinator's main loop. `me`: its UUID among the peers. `wanted`: the only lanes that it may lead; empty: all."""

    def __init__(self, lanes: Lanes, me: str, wanted: tuple[str, ...], make_leader: Callable[[str], Leader], rules: Rules) -> None:
        self._lanes = lanes
        self._me = me
        self._wanted = frozenset(wanted)
        self._make_leader = make_leader
        self._rules = rules
        self._leaders: dict[str, Leader] = {}
        self._handing: set[str] = set()
        self._failing = False
        self._told: frozenset[str] = frozenset()
        self._unable: dict[str, float] = {}
        self._surplus: dict[str, int] = {}
        self._left_over: frozenset[str] = frozenset()

    def run(self, stop: threading.Event) -> None:
        """Look and lead until `stop` is set; then end all leaderships in order."""
        wait_s = 0.0
        try:
            while not stop.wait(wait_s):
                self._look()
                wait_s = self._rules.elect_s
        finally:
            self._lanes.leave()  # first: the lanes that become free are not meant for us any more
            for leader in self._leaders.values():
                leader.stop()
            for leader in self._leaders.values():
                if not leader.join(_END_S):
                    _log.error("the leader of lane %s did not end within %g s; its lease runs out by itself", leader.lane, _END_S)

    def _look(self) -> None:
        now = time.monotonic()
        for lane, leader in list(self._leaders.items()):
            if leader.unable:
                self._unable[lane] = now + self._rules.unable_s
            if not leader.alive:
                del self._leaders[lane]
                self._handing.discard(lane)
        self._unable = {lane: until for lane, until in self._unable.items() if until > now}
        try:
            seen = self._lanes.look(self._wanted, self._unable)
        except JobyardError as error:
            if not self._failing:
                _log.warning("cannot look at the leases: %s", error)
            self._failing = True
            return
        self._failing = False
        self._tell_missing(seen)
        plan = shares(seen)
        self._take(seen, plan)
        self._hand_over(seen, plan)

    def _take(self, seen: Seen, plan: Mapping[str, str]) -> None:
        """What is ours by the plan; and what is free for the second look though it is another's: he may be unable to say that he can't."""
        free = frozenset(lane for lane, leader in seen.lanes.items() if leader is None and self._may(lane))
        for lane in seen.lanes:
            if lane in self._leaders:
                continue
            ours = plan.get(lane) == self._me and self._may(lane)
            if (lane in free and (ours or lane in self._left_over)) or (ours and lane not in self._unable):
                leader = self._leaders[lane] = self._make_leader(lane)
                leader.start(0.0 if lane in free else _PATIENCE_S)
        self._left_over = free

    def _hand_over(self, seen: Seen, plan: Mapping[str, str]) -> None:
        surplus = [lane for lane, leader in seen.lanes.items() if leader == self._me and plan.get(lane, self._me) != self._me]
        self._surplus = {lane: self._surplus.get(lane, 0) + 1 for lane in surplus}
        if any(lane in self._leaders for lane in self._handing):
            return
        for lane in surplus:
            leader = self._leaders.get(lane)
            if leader is not None and self._surplus[lane] >= _SURE:
                _log.info("hands lane %s over to coordinator %s, whose share is smaller", lane, plan[lane])
                self._handing.add(lane)
                leader.stop()
                return

    def _may(self, lane: str) -> bool:
        return not self._wanted or lane in self._wanted

    def _tell_missing(self, seen: Seen) -> None:
        """Once for each lane that was wanted and is not there."""
        missing = self._wanted - seen.lanes.keys()
        for lane in sorted(missing - self._told):
            _log.warning('there is no lane %r; it is led once it was added: "jobyard lane add %s"', lane, lane)
        self._told = missing
