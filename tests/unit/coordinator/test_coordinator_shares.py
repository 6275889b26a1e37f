"""Shares of lanes: fair, few moves, the same for all who see the same, and at rest once they are fair."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jobyard.coordinator.seams import Peer, Seen
from jobyard.coordinator.shares import shares

_NAMES = st.sampled_from(["a", "b", "c", "d"])
_LANES = st.sampled_from([f"lane-{n}" for n in range(8)])


def test_free_lanes_are_shared_evenly() -> None:
    plan = shares(Seen(dict.fromkeys("rstuvw"), [Peer("a"), Peer("b"), Peer("c")]))
    assert Counter(plan.values()) == {"a": 2, "b": 2, "c": 2}


def test_one_that_comes_gets_its_share_and_no_more_moves_than_that() -> None:
    led: dict[str, str | None] = {"r": "a", "s": "a", "t": "a", "u": "a", "v": "b"}
    plan = shares(Seen(led, [Peer("a"), Peer("b"), Peer("c")]))
    assert Counter(plan.values()) == {"a": 2, "b": 1, "c": 2} or Counter(plan.values()) == {"a": 2, "b": 2, "c": 1}
    assert sum(plan[lane] != leader for lane, leader in led.items()) == 2


def test_a_difference_of_one_moves_nothing() -> None:
    led: dict[str, str | None] = {"r": "a", "s": "a", "t": "b"}
    assert shares(Seen(led, [Peer("a"), Peer("b")])) == led


def test_nothing_that_is_led_goes_to_one_that_is_not_settled_but_what_is_free_does() -> None:
    led: dict[str, str | None] = {"r": "a", "s": "a", "t": None}
    assert shares(Seen(led, [Peer("a"), Peer("b", settled=False)])) == {"r": "a", "s": "a", "t": "b"}


def test_what_an_unknown_coordinator_leads_stays_its_own() -> None:
    assert shares(Seen({"r": "old", "s": "old", "t": None}, [Peer("a")])) == {"t": "a"}


def test_L24_who_could_not_lead_a_lane_gets_it_only_if_nobody_else_can() -> None:
    unable = Peer("a", unable=frozenset({"r"}))
    assert shares(Seen({"r": None}, [unable, Peer("b")])) == {"r": "b"}
    assert shares(Seen({"r": None}, [unable])) == {"r": "a"}
    assert shares(Seen({"r": "b", "s": "b"}, [unable, Peer("b")])) == {"r": "b", "s": "a"}


@given(
    st.dictionaries(_LANES, st.none() | _NAMES | st.just("unknown"), min_size=1),
    st.dictionaries(_NAMES, st.tuples(st.frozensets(_LANES, max_size=3), st.frozensets(_LANES, max_size=2)), min_size=1),
)
def test_a_plan_that_is_carried_out_is_at_rest(led: dict[str, str | None], found: dict[str, tuple[frozenset[str], frozenset[str]]]) -> None:
    peers = [Peer(name, wanted, unable) for name, (wanted, unable) in found.items()]
    plan = shares(Seen(led, peers))
    assert plan == shares(Seen(led, peers[::-1]))
    for lane, leader in plan.items():
        assert led[lane] == leader or not found[leader][0] or lane in found[leader][0]
    after = shares(Seen({lane: plan.get(lane, leader) for lane, leader in led.items()}, peers))
    assert {lane: after[lane] for lane in plan} == plan


@given(st.dictionaries(_LANES, st.none() | _NAMES, min_size=1), st.sets(_NAMES, min_size=1))
def test_who_may_lead_everything_shares_everything_fairly(led: dict[str, str | None], names: set[str]) -> None:
    known = {lane: leader if leader in names else None for lane, leader in led.items()}
    counts = Counter(shares(Seen(known, [Peer(name) for name in sorted(names)])).values())
    assert sum(counts.values()) == len(led)
    assert max(counts[name] for name in names) - min(counts[name] for name in names) <= 1
