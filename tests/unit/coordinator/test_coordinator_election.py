"""The election, the housekeeper and caution: one lane's trouble is its own, and nobody is blamed without proof."""

import threading
from collections.abc import Callable

import pytest
from leadership import Leadership, until

from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.contracts.rules import RULES
from jobyard.coordinator.caution import Caution
from jobyard.coordinator.election import Election
from jobyard.coordinator.housekeeper import Housekeeper
from jobyard.coordinator.leader import Leader


class FakeLanes:
    """Lanes by name; `silent`: the database does not answer."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.silent = False

    def all(self) -> list[str]:
        if self.silent:
            raise ServiceUnavailable("the database is away")
        return self.names

    def free(self) -> list[str]:
        return self.all()


class Electing:
    """An election in a thread, with a lane in memory behind each leader."""

    def __init__(self, lanes: FakeLanes, *wanted: str) -> None:
        self.made: dict[str, Leadership] = {}
        self.stop = threading.Event()
        self._election = Election(lanes, wanted, self._make, RULES)
        self.thread = threading.Thread(target=lambda: self._election.run(self.stop), daemon=True)
        self.thread.start()

    def _make(self, lane: str) -> Leader:
        made = self.made[lane] = Leadership()
        if lane == "broken":

            def wrong() -> None:
                raise ConfigurationError("its topics are wrong")

            made.make_topics = wrong
        return made.leader

    def end(self) -> None:
        self.stop.set()
        self.thread.join(10)
        assert not self.thread.is_alive()


def _leads(electing: Electing, lane: str) -> Callable[[], bool]:
    return lambda: lane in electing.made and "write" in electing.made[lane].script.happened


def test_every_free_lane_is_led_though_one_has_wrong_topics_and_all_are_released_at_the_end() -> None:
    electing = Electing(FakeLanes("broken", "one", "two"))
    until(_leads(electing, "one"))
    until(_leads(electing, "two"))
    electing.end()
    assert electing.made["one"].script.happened[-1] == "release"
    assert electing.made["two"].script.happened[-1] == "release"


def test_only_wanted_lanes_are_led() -> None:
    electing = Electing(FakeLanes("one", "two"), "two", "not there")
    until(_leads(electing, "two"))
    electing.end()
    assert list(electing.made) == ["two"]


def test_a_database_that_is_away_is_asked_again() -> None:
    lanes = FakeLanes("one")
    lanes.silent = True
    electing = Electing(lanes)
    assert not electing.stop.wait(0.1)
    lanes.silent = False
    until(_leads(electing, "one"))
    electing.end()


def test_each_time_that_the_database_is_away_is_told_once_also_while_all_lanes_are_led(caplog: pytest.LogCaptureFixture) -> None:
    lanes = FakeLanes("one")
    stop = _StopAfter(lanes, silent=[False, False, True, True, False, True])
    Election(lanes, (), lambda _: _Led(), RULES).run(stop)
    assert [line for line in caplog.messages if "cannot look at the leases" in line] == [
        "cannot look at the leases: the database is away"
    ] * 2


class _StopAfter(threading.Event):
    """Waits for nothing: before each look it sets whether the database answers, and after the last it stops."""

    def __init__(self, lanes: FakeLanes, silent: list[bool]) -> None:
        super().__init__()
        self._lanes, self._silent = lanes, silent

    def wait(self, timeout: float | None = None) -> bool:
        if not self._silent:
            return True
        self._lanes.silent = self._silent.pop(0)
        return False


class _Led(Leader):
    """Leads, and does nothing else."""

    lane = "one"

    def __init__(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout_s: float) -> bool:
        return True

    @property
    def alive(self) -> bool:
        return True


@pytest.mark.parametrize("error", [ServiceUnavailable("away"), KeyError("a bug")])
def test_the_housekeeper_survives_what_it_meets(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobyard.coordinator.housekeeper._AGAIN_S", 0.01)
    rounds: list[int] = []

    def keep() -> bool:
        rounds.append(1)
        if len(rounds) < 3:
            raise error
        return False

    housekeeper = Housekeeper(keep)
    housekeeper.start()
    until(lambda: len(rounds) == 3)
    housekeeper.stop()


def test_L18_one_message_is_guilty_only_when_a_tick_without_it_went_through_just_before() -> None:
    caution = Caution()
    caution.refused([("in", 1)])
    assert caution.messages == 0
    caution.refused([])
    assert not caution.poison
    caution.succeeded()
    assert caution.messages == 1
    caution.refused([("in", 1)])
    assert caution.poison == {("in", 1)}


def test_L18_messages_are_halved_and_grow_again() -> None:
    caution = Caution()
    assert caution.messages is None
    caution.refused([("in", n) for n in range(100)])
    caution.succeeded()
    assert caution.messages == 50
    caution.succeeded()
    assert caution.messages == 100
    caution.succeeded()
    assert caution.messages is None


def test_a_tick_that_was_too_much_at_once_is_halved_and_blames_nobody() -> None:
    caution = Caution()
    caution.exhausted([("in", 1)])
    assert caution.messages is None
    caution.exhausted([("in", 1), ("in", 2)])
    caution.succeeded()
    assert caution.messages == 1
    caution.exhausted([("in", 1)])
    assert not caution.poison
