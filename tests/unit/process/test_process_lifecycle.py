"""Life cycle: starts in order, stops in reverse, no death overlooked, two signals."""

import os
import signal
import threading

import pytest

from jobyard.process.lifecycle import Supervisor, Worker, run
from jobyard.process.signals import Signals


class Part:
    """Tells what happens to it."""

    def __init__(self, name: str, said: list[str], fails: str = "") -> None:
        self.name, self.said, self.fails = name, said, fails

    def start(self) -> None:
        self.said.append(f"start {self.name}")
        if self.fails == "start":
            raise RuntimeError(f"{self.name} can't start")

    def stop(self) -> None:
        self.said.append(f"stop {self.name}")
        if self.fails == "stop":
            raise RuntimeError(f"{self.name} can't stop")


class Kills:
    """A part whose start sends signals to this process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def start(self) -> None:
        os.kill(os.getpid(), self.number)

    def stop(self) -> None: ...


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_parts_start_in_order_and_stop_in_reverse_at_the_first_signal(number: int) -> None:
    said: list[str] = []
    with Signals() as signals:
        run([Part("a", said), Part("b", said), Kills(number)], signals, Supervisor(signals.wake))
        assert signals.orderly
        assert not signals.now
    assert said == ["start a", "start b", "stop b", "stop a"]


def test_a_failed_start_stops_what_was_started_and_is_raised() -> None:
    said: list[str] = []
    with Signals() as signals, pytest.raises(RuntimeError, match="b can't start"):
        run([Part("a", said), Part("b", said, "start"), Part("c", said)], signals, Supervisor(signals.wake))
    assert said == ["start a", "start b", "stop a"]


def test_a_failed_stop_keeps_no_other_from_stopping() -> None:
    said: list[str] = []
    with Signals() as signals, pytest.raises(RuntimeError, match="b can't stop"):
        run([Part("a", said), Part("b", said, "stop"), Kills(signal.SIGTERM)], signals, Supervisor(signals.wake))
    assert said[-2:] == ["stop b", "stop a"]


def test_a_thread_that_dies_takes_the_process_down_with_its_error() -> None:
    said: list[str] = []

    def body(stopping: threading.Event) -> None:
        raise ValueError("lost the thread")

    with Signals() as signals:
        supervisor = Supervisor(signals.wake)
        with pytest.raises(ValueError, match="lost the thread"):
            run([Part("a", said), Worker(supervisor, "fragile", body)], signals, supervisor)
    assert said == ["start a", "stop a"]


def test_the_second_signal_hurries_what_takes_its_time() -> None:
    hurried = threading.Event()
    stopping = threading.Event()

    class Slow:
        def start(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        def stop(self) -> None:
            stopping.set()
            os.kill(os.getpid(), signal.SIGTERM)
            assert hurried.wait(10)

    with Signals() as signals:
        run([Slow()], signals, Supervisor(signals.wake), hurried.set)
        assert signals.now
    assert stopping.is_set()


def test_a_worker_stops_twice_and_before_its_start() -> None:
    ended = threading.Event()

    def body(stopping: threading.Event) -> None:
        stopping.wait(10)
        ended.set()

    worker = Worker(Supervisor(lambda: None), "patient", body)
    worker.stop()
    worker.start()
    with pytest.raises(RuntimeError, match="runs already"):
        worker.start()
    worker.stop()
    worker.stop()
    assert ended.is_set()


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
