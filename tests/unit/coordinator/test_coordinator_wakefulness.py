"""L25 and D8: when a leader looks, and when it holds the lock that tells submitters not to notify."""

import pytest
from shell_fakes import FakeClock, FakeStore

from jobyard.contracts.rules import RULES
from jobyard.coordinator.wakefulness import Wakefulness


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def wakefulness(clock: FakeClock, store: FakeStore) -> Wakefulness:
    return Wakefulness(store, clock, RULES)


def _fall_asleep(wakefulness: Wakefulness, clock: FakeClock) -> None:
    clock.at += RULES.sleep_after_s
    wakefulness.saw(worked=False, settled=True)
    assert not wakefulness.awake


def test_L25_awake_it_looks_in_every_tick_at_least_every_10_ms(wakefulness: Wakefulness) -> None:
    assert wakefulness.wait_s(None) == RULES.tick_wait_s
    assert wakefulness.look(False)
    assert wakefulness.look(False)


def test_L25_without_work_for_a_second_it_gives_up_the_lock(wakefulness: Wakefulness, clock: FakeClock, store: FakeStore) -> None:
    clock.at += RULES.sleep_after_s / 2
    wakefulness.saw(worked=False, settled=True)
    assert not store.asleep
    _fall_asleep(wakefulness, clock)
    assert store.asleep


def test_L25_it_looks_every_50_ms_until_open_transactions_have_ended_then_every_second(wakefulness: Wakefulness, clock: FakeClock) -> None:
    _fall_asleep(wakefulness, clock)
    assert wakefulness.wait_s(None) == RULES.settle_poll_s
    assert wakefulness.look(False)
    wakefulness.saw(worked=False, settled=False)
    assert wakefulness.wait_s(None) == RULES.settle_poll_s
    wakefulness.look(False)
    wakefulness.saw(worked=False, settled=True)
    assert wakefulness.wait_s(None) == RULES.poll_s
    assert not wakefulness.look(False)
    clock.at += RULES.poll_s
    assert wakefulness.look(False)


def test_D8_stirred_it_takes_the_lock_before_it_looks(wakefulness: Wakefulness, clock: FakeClock, store: FakeStore) -> None:
    _fall_asleep(wakefulness, clock)
    assert wakefulness.look(True)
    assert not store.asleep
    assert wakefulness.awake


def test_work_found_by_the_backstop_wakes_it(wakefulness: Wakefulness, clock: FakeClock, store: FakeStore) -> None:
    _fall_asleep(wakefulness, clock)
    wakefulness.saw(worked=True, settled=True)
    assert not store.asleep


def test_it_waits_no_longer_than_until_the_lane_needs_its_next_tick(wakefulness: Wakefulness, clock: FakeClock) -> None:
    _fall_asleep(wakefulness, clock)
    wakefulness.look(False)
    wakefulness.saw(worked=False, settled=True)
    assert wakefulness.wait_s(clock.at + 0.2) == pytest.approx(0.2)
    assert wakefulness.wait_s(clock.at - 5) == 0.0
