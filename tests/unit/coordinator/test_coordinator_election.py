"""The election, the housekeeper and caution: one lane's trouble is its own, and nobody is blamed without proof."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pytest
from leadership import Leadership, until

from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.contracts.rules import RULES, Rules
from jobyard.coordinator.caution import Caution
from jobyard.coordinator.election import Election
from jobyard.coordinator.housekeeper import Housekeeper
from jobyard.coordinator.leader import Leader
from jobyard.coordinator.seams import Peer, Seen

ME, OTHER = "me", "other"


class FakeLanes:
    """Lanes by name, with the coordinator that leads each; `silent`: the database does not answer. `looks`: what was said at each."""

    def __init__(self, *names: str, peers: Sequence[Peer] = (Peer(ME),)) -> None:
        self.led: dict[str, str | None] = dict.fromkeys(names)
        self.peers = list(peers)
        self.silent = False
        self.gone = False
        self.looks: list[tuple[set[str], set[str]]] = []

    def look(self, wanted: Collection[str], unable: Collection[str]) -> Seen:
        if self.silent:
            raise ServiceUnavailable("the database is away")
        self.looks.append((set(wanted), set(unable)))
        return Seen(dict(self.led), list(self.peers))

    def leave(self) -> None:
        self.gone = True


class Electing:
    """An election in a thread, with a lane in memory behind each leader."""

    def __init__(self, lanes: FakeLanes, *wanted: str, rules: Rules = RULES) -> None:
        self.made: dict[str, Leadership] = {}
        self.stop = threading.Event()
        self._election = Election(lanes, ME, wanted, self._make, rules)
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
    Election(lanes, ME, (), lambda _: Leadership().leader, RULES).run(stop)
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


# -- sharing

FAST = replace(RULES, elect_s=0.02)


def test_what_is_another_s_by_the_plan_is_left_to_him_but_taken_if_it_is_free_at_the_next_look_too() -> None:
    lanes = FakeLanes("one", "two", peers=[Peer(ME), Peer(OTHER)])
    lanes.led["one"] = ME
    electing = Electing(lanes, rules=replace(RULES, elect_s=0.3))
    until(_leads(electing, "one"))
    assert "two" not in electing.made
    until(_leads(electing, "two"))
    electing.end()


def test_a_lane_too_many_is_handed_over_in_order_one_at_a_time_and_only_to_one_that_is_settled() -> None:
    lanes = FakeLanes("one", "two", "three", "four")
    electing = Electing(lanes, rules=FAST)
    for lane in list(lanes.led):
        until(_leads(electing, lane))
        lanes.led[lane] = ME
    lanes.peers = [Peer(ME), Peer(OTHER, settled=False)]
    looks = len(lanes.looks)
    until(lambda: len(lanes.looks) > looks + 5)
    assert all(made.leader.alive for made in electing.made.values())
    lanes.peers = [Peer(ME), Peer(OTHER)]
    until(lambda: sum(not made.leader.alive for made in electing.made.values()) == 1)
    (first,) = [lane for lane, made in electing.made.items() if not made.leader.alive]
    assert electing.made[first].script.happened[-1] == "release"
    lanes.led[first] = OTHER
    until(lambda: sum(not made.leader.alive for made in electing.made.values()) == 2)
    (second,) = [lane for lane, made in electing.made.items() if not made.leader.alive and lane != first]
    lanes.led[second] = OTHER
    looks = len(lanes.looks)
    until(lambda: len(lanes.looks) > looks + 10)
    assert sum(made.leader.alive for made in electing.made.values()) == 2
    electing.end()
    assert lanes.gone


def test_who_comes_waits_for_the_lane_that_is_to_be_handed_to_him() -> None:
    lanes = FakeLanes("one", "two", peers=[Peer(ME), Peer(OTHER)])
    lanes.led = dict.fromkeys(lanes.led, OTHER)
    electing = Electing(lanes, rules=FAST)
    until(lambda: electing.made)
    ((lane, made),) = electing.made.items()
    until(lambda: made.script.happened)
    assert lane == "one"
    electing.end()


def test_L24_a_lane_that_could_not_be_led_is_left_to_others_for_some_time() -> None:
    lanes = FakeLanes("one")
    electing = Electing(lanes, rules=FAST)
    until(_leads(electing, "one"))
    electing.made["one"].admin.silent = True
    until(lambda: {"one"} in [unable for _, unable in lanes.looks])
    electing.end()
