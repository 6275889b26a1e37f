"""A6: a jump of the wall clock beyond the lease ends it, too."""

from jobyard.agent.core.lease import Lease
from jobyard.process.lease_clock import LeaseClock


class Hands:
    """Two clocks to set by hand."""

    def __init__(self) -> None:
        self.monotonic = 10.0
        self.wall = 1_000.0

    def clock(self) -> LeaseClock:
        return LeaseClock(lambda: self.monotonic, lambda: self.wall)


def test_A6_a_forward_jump_of_the_wall_clock_ends_the_lease() -> None:
    hands = Hands()
    clock = hands.clock()
    lease = Lease()
    lease.grant(clock.now(), 15.0, 1.0)
    hands.monotonic += 1.0
    hands.wall += 1.0
    assert lease.holds(clock.now())
    hands.wall += 60.0  # frozen: the monotonic clock stood still
    assert not lease.holds(clock.now())
    assert clock.now() == 71.0  # and counted once


def test_small_adjustments_and_steps_back_change_nothing() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.wall += 0.4
    assert clock.now() == 10.0
    hands.wall -= 3_600.0
    assert clock.now() == 10.0
    hands.monotonic += 2.0
    hands.wall += 2.0
    assert clock.now() == 12.0


def test_A6_the_lease_of_an_incarnation_that_is_over_never_comes_back() -> None:
    lease = Lease()
    lease.grant(100.0, 15.0, 1.0)
    assert lease.holds(113.9)
    assert not lease.holds(114.0)
    lease.grant(90.0, 15.0, 1.0)  # an older stamp shortens nothing
    assert lease.until == 114.0
    lease.end()
    lease.grant(200.0, 15.0, 1.0)
    assert not lease.holds(0.0)
