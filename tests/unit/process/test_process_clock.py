"""The clocks."""

import time

import pytest

from jobyard.process import clock
from jobyard.process.clock import DatabaseClock


class Hand:
    """A monotonic clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 100.0
        monkeypatch.setattr(clock, "monotonic", lambda: self.at)


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    return Hand(monkeypatch)


def test_monotonic_counts_sleep_on_linux() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= clock.monotonic() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_database_clock_needs_a_reading() -> None:
    with pytest.raises(RuntimeError, match="not read yet"):
        DatabaseClock().now()


def test_database_clock_is_carried_on_by_the_monotonic_one(hand: Hand) -> None:
    read = DatabaseClock()
    read.heard(5000.0, 99.9, 100.1)
    assert read.now() == pytest.approx(5000.0)
    hand.at += 7.5
    assert read.now() == pytest.approx(5007.5)


def test_a_slow_reading_does_not_replace_a_sure_one_it_agrees_with(hand: Hand) -> None:
    read = DatabaseClock()
    read.heard(5000.0, 100.0, 100.002)
    hand.at = 102.0
    read.heard(5000.2, 100.0, 102.0)  # somewhere in two seconds
    assert read.now() == pytest.approx(5002.0, abs=0.01)


def test_a_reading_that_contradicts_is_believed(hand: Hand) -> None:
    read = DatabaseClock()
    read.heard(5000.0, 100.0, 100.002)
    assert read.heard(9000.0, 100.0, 100.2) == pytest.approx(3999.9, abs=0.01)  # somebody set the database's clock
    assert read.now() == pytest.approx(8999.9, abs=0.01)


def test_now_does_not_go_back_by_a_little_but_follows_a_clock_set_back(hand: Hand) -> None:
    read = DatabaseClock()
    read.heard(5000.0, 100.0, 100.2)
    first = read.now()
    read.heard(4999.9, 100.0, 100.0)
    assert read.now() == first
    hand.at += 0.5
    assert read.now() > first
    read.heard(1000.0, 100.5, 100.5)
    assert read.now() == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("reading", "set_s"), [(5010.0, 0.0), (5010.1, 0.0), (5009.9, 0.0), (5010.4, 0.4), (5009.6, -0.4), (8610.0, 3600.0)]
)
def test_a_clock_that_was_set_is_told_from_one_that_was_adjusted(reading: float, set_s: float, hand: Hand) -> None:
    read = DatabaseClock()
    assert read.heard(5000.0, 100.0, 100.0) == 0.0
    hand.at = 110.0
    assert read.heard(reading, 110.0, 110.0) == pytest.approx(set_s)
    assert read.heard(reading, 110.0, 110.0) == 0.0


def test_a_slow_answer_is_no_clock_that_was_set(hand: Hand) -> None:
    read = DatabaseClock()
    read.heard(5000.0, 100.0, 100.0)
    hand.at = 110.0
    assert read.heard(5000.1, 100.0, 110.0) == 0.0


def test_drift_is_made_up_for(hand: Hand) -> None:
    """A month of two clocks that part by 50 ms a thousand seconds."""
    read = DatabaseClock()
    for _ in range(2_600):
        assert read.heard(hand.at * 1.00005, hand.at, hand.at + 0.001) == 0.0
        hand.at += 1000.0
    assert read.now() == pytest.approx(hand.at * 1.00005, abs=0.2)
