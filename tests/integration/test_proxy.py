"""The proxy does what the tests of broken networks rely on."""

import socket
import threading
import time
from collections.abc import Generator

import pytest
from faults.proxy import Proxies, Proxy, free_port

from jobyard.embedded.ports import HOST


@pytest.fixture
def echo() -> Generator[int]:
    """The port of a server that sends back what it gets."""
    port = free_port()
    with socket.create_server((HOST, port)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=back, args=(connection,), daemon=True).start()

        def back(connection: socket.socket) -> None:
            with connection:
                try:
                    while data := connection.recv(65_536):
                        connection.sendall(data)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield port
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(echo: int) -> Generator[Proxy]:
    with Proxies() as proxies:
        yield proxies.to(echo)


def _connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=5)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def _is_silent(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(5)
    return False


def test_what_is_sent_comes_through_as_it_was(proxy: Proxy) -> None:
    data = bytes(range(256)) * 4096
    with _connect(proxy) as connection:
        writing = threading.Thread(target=connection.sendall, args=(data,))
        writing.start()
        assert _read(connection, len(data)) == data
        writing.join()
    deadline = time.monotonic() + 30.0
    while proxy.passed("down") < len(data) and time.monotonic() < deadline:
        time.sleep(0.01)  # counted after it was sent on: whoever reads it may be earlier
    assert proxy.passed("up") == proxy.passed("down") == len(data)


def test_dropped_connections_end_and_new_ones_are_refused(proxy: Proxy) -> None:
    with _connect(proxy) as connection:
        connection.sendall(b"a")
        assert _read(connection, 1) == b"a"
        with proxy.dropped():
            assert connection.recv(1) == b""
            with pytest.raises(ConnectionRefusedError):
                _connect(proxy)
    with _connect(proxy) as connection:
        connection.sendall(b"b")
        assert _read(connection, 1) == b"b"


@pytest.mark.parametrize("way", ["up", "down", None])
def test_a_stalled_network_holds_all_and_then_passes_it_on_once(proxy: Proxy, way: str | None) -> None:
    with _connect(proxy) as old:
        proxy.stall(*(() if way is None else ("up",) if way == "up" else ("down",)))
        with _connect(proxy) as new:
            old.sendall(b"abc")
            new.sendall(b"xyz")
            assert _is_silent(old)
            assert _is_silent(new)
            proxy.mend()
            assert _read(old, 3) == b"abc"
            assert _read(new, 3) == b"xyz"
            assert _is_silent(old)


def test_a_reset_ends_connections_without_order(proxy: Proxy) -> None:
    with _connect(proxy) as connection:
        connection.sendall(b"a")
        assert _read(connection, 1) == b"a"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with _connect(proxy) as connection:
        connection.sendall(b"b")
        assert _read(connection, 1) == b"b"


def test_a_delay_costs_time_and_keeps_the_order(proxy: Proxy) -> None:
    with _connect(proxy) as connection, proxy.delayed(0.1, 0.05):
        began = time.monotonic()
        for number in range(20):
            connection.sendall(bytes([number]))
            time.sleep(0.002)  # so that each is a packet of its own
        assert _read(connection, 20) == bytes(range(20))
        assert 0.1 <= time.monotonic() - began < 2


def test_a_cut_comes_in_the_midst_and_once(proxy: Proxy) -> None:
    with _connect(proxy) as connection:
        proxy.cut_after(5, "down")
        connection.sendall(b"0123456789")
        assert _read(connection, 10) == b"01234"
    with _connect(proxy) as connection:
        connection.sendall(b"0123456789")
        assert _read(connection, 10) == b"0123456789"
