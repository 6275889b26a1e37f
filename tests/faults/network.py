"""Everybody's own way to Kafka and to Postgres, each through a proxy that a test may break."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from faults.proxy import Proxies, Proxy, free_port
from jobyard.embedded.kafka import Listener
from jobyard.embedded.ports import HOST


class Network:
    """The ways of these sides: names of processes, and CLIENT. `agents` have none to Postgres. Use as a context manager.

    Kafka's clients go where the broker sends them: so the broker needs `listeners`, one a side, from its start on. `kafka` and `postgres`: the proxies, by
    side; those to Postgres are there after `reach_postgres`.
    """

    def __init__(self, sides: Sequence[str], agents: Sequence[str]) -> None:
        self._sides = sides
        self._agents = agents
        self._proxies = Proxies()
        self.kafka: dict[str, Proxy] = {}
        self.postgres: dict[str, Proxy] = {}

    def __enter__(self) -> Self:
        self._proxies.__enter__()
        self.kafka = {side: self._proxies.to(free_port(), f"{side} to Kafka") for side in (*self._sides, *self._agents)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._proxies.__exit__(kind, error, trace)

    @property
    def listeners(self) -> list[Listener]:
        """For the broker."""
        return [Listener(f"SIDE{number}", proxy.server_port, proxy.port) for number, proxy in enumerate(self.kafka.values())]

    def reach_postgres(self, url: str) -> None:
        """Lay the ways to the server of this address."""
        port = urlsplit(url).port or 5432
        self.postgres = {side: self._proxies.to(port, f"{side} to Postgres") for side in self._sides}

    def around(self, database_url: str) -> Mapping[str, Mapping[str, str]]:
        """By side, the settings by which it finds this database and Kafka: the `around` of a World."""
        found = {side: {"JOBYARD_KAFKA_BOOTSTRAP_SERVERS": f"{HOST}:{proxy.port}"} for side, proxy in self.kafka.items()}
        for side, proxy in self.postgres.items():
            found[side]["JOBYARD_DATABASE_URL"] = through(database_url, proxy)
        return found

    @property
    def proxies(self) -> list[Proxy]:
        """All of them."""
        return [*self.kafka.values(), *self.postgres.values()]

    def mend(self) -> None:
        """Everything passes everywhere."""
        for proxy in self.proxies:
            proxy.mend()


def through(url: str, proxy: Proxy) -> str:
    """The same address, but by the proxy."""
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{HOST}:{proxy.port}" if user else f"{HOST}:{proxy.port}"))
