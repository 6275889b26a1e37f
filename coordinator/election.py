"""Which lanes this process leads: looks at the leases by the database's clock, and starts a leader for each lane that nobody leads."""

import logging
import threading
from collections.abc import Callable

from jobyard.contracts.errors import JobyardError
from jobyard.contracts.rules import Rules
from jobyard.coordinator.leader import Leader
from jobyard.coordinator.seams import Lanes

_log = logging.getLogger(__name__)

_END_S = 30.0
"""How long an orderly end waits for each leader: longer than a statement's time-out would be pointless."""
_QUIET_TIMES = 10
"""Looks are this many times rarer while this process leads every lane that it may lead: only a new lane could be free."""


class Election:
    """The coordinator's main loop. `wanted`: the only lanes that it may lead; empty: all."""

    def __init__(self, lanes: Lanes, wanted: tuple[str, ...], make_leader: Callable[[str], Leader], rules: Rules) -> None:
        self._lanes = lanes
        self._wanted = frozenset(wanted)
        self._make_leader = make_leader
        self._rules = rules
        self._leaders: dict[str, Leader] = {}
        self._failing = False
        self._told: frozenset[str] = frozenset()

    def run(self, stop: threading.Event) -> None:
        """Look and lead until `stop` is set; then end all leaderships in order."""
        wait_s = 0.0
        try:
            while not stop.wait(wait_s):
                wait_s = self._look()
        finally:
            for leader in self._leaders.values():
                leader.stop()
            for leader in self._leaders.values():
                if not leader.join(_END_S):
                    _log.error("the leader of lane %s did not end within %g s; its lease runs out by itself", leader.lane, _END_S)

    def _look(self) -> float:
        """One look; seconds until the next."""
        self._leaders = {lane: leader for lane, leader in self._leaders.items() if leader.alive}
        try:
            lanes = [lane for lane in self._lanes.all() if not self._wanted or lane in self._wanted]
            self._tell_missing(lanes)
            quiet = bool(lanes) and all(lane in self._leaders for lane in lanes)
            for lane in [] if quiet else self._lanes.free():
                if lane in lanes and lane not in self._leaders:
                    leader = self._leaders[lane] = self._make_leader(lane)
                    leader.start()
            self._failing = False
            return self._rules.elect_s * (_QUIET_TIMES if quiet else 1)
        except JobyardError as error:
            if not self._failing:
                _log.warning("cannot look at the leases: %s", error)
            self._failing = True
        return self._rules.elect_s

    def _tell_missing(self, lanes: list[str]) -> None:
        """Once for each lane that was wanted and is not there."""
        missing = self._wanted - set(lanes)
        for lane in sorted(missing - self._told):
            _log.warning('there is no lane %r; it is led once it was added: "jobyard lane add %s"', lane, lane)
        self._told = missing
