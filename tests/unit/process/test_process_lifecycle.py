"""Threads whose death is seen, and the two signals."""

import os
import signal
import threading

import pytest

from jobyard.process.lifecycle import Supervisor
from jobyard.process.signals import Signals


def test_the_first_death_is_kept_and_wakes_whoever_waits() -> None:
    second = threading.Event()

    def first_body() -> None:
        raise ValueError("lost the thread")

    def second_body() -> None:
        second.wait(10)
        raise KeyError("and another")

    with Signals() as signals:
        supervisor = Supervisor(signals.wake)
        threads = [supervisor.thread("fragile", first_body), supervisor.thread("another", second_body)]
        assert all(thread.daemon for thread in threads)
        assert supervisor.error is None
        for thread in threads:
            thread.start()
        assert signals.wait(10)
        assert str(supervisor.error) == "lost the thread"
        second.set()
        threads[1].join(10)
        assert str(supervisor.error) == "lost the thread"


def test_a_thread_that_ends_in_order_is_no_death() -> None:
    woken: list[bool] = []
    supervisor = Supervisor(lambda: woken.append(True))
    thread = supervisor.thread("quiet", lambda: None)
    thread.start()
    thread.join(10)
    assert supervisor.error is None
    assert woken == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_for_order_and_the_second_for_haste(number: int) -> None:
    with Signals() as signals:
        assert not signals.orderly
        os.kill(os.getpid(), number)
        assert signals.wait(10)
        assert (signals.orderly, signals.now) == (True, False)
        os.kill(os.getpid(), number)
        assert signals.wait(10)
        assert signals.now


def test_signals_are_for_the_main_thread_only() -> None:
    found: list[BaseException] = []

    def body() -> None:
        try:
            with Signals():
                pass
        except RuntimeError as error:
            found.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(10)
    assert "main thread" in str(found[0])


def test_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Signals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_waiting_ends_by_time_and_by_wake() -> None:
    with Signals() as signals:
        assert not signals.wait(0.01)
        threading.Timer(0.01, signals.wake).start()
        assert signals.wait(10)
    signals.wake()  # after the end: nothing
