"""The ports of one folder's servers: chosen once, free then, and kept, so that addresses stay as they are over a restart."""

import json
import random
import socket
from pathlib import Path

from jobyard.contracts.errors import ConfigurationError

HOST = "127.0.0.1"
# below what Linux (from 32768) and macOS (from 49152) give to outgoing connections
LOWEST, HIGHEST = 15_000, 32_000
NAMES = ("postgres", "kafka", "kafka_controller")


class Ports:
    """`file` remembers them, by name."""

    def __init__(self, file: Path, ports: dict[str, int]) -> None:
        self._file = file
        self._ports = ports

    @classmethod
    def read(cls, file: Path) -> "Ports":
        """The remembered ones. Raises FileNotFoundError if there are none, ConfigurationError if the file holds anything else."""
        try:
            return cls(file, _check(json.loads(file.read_text())))
        except ValueError as error:
            raise ConfigurationError(f"{file} does not hold three port numbers ({error}): delete it, and new ports are chosen") from error

    @classmethod
    def choose(cls, file: Path) -> "Ports":
        """The remembered ones, or else new ones, which are remembered then."""
        try:
            return cls.read(file)
        except FileNotFoundError:
            chosen = _choose()
            file.write_text(json.dumps(chosen) + "\n")
            return cls(file, chosen)

    def __getitem__(self, name: str) -> int:
        return self._ports[name]

    def demand_free(self, name: str) -> None:
        """Raises ConfigurationError if another program listens on that port."""
        if not free(self._ports[name]):
            raise self.taken(name)

    def taken(self, name: str) -> ConfigurationError:
        return ConfigurationError(
            f"port {self._ports[name]}, which {self._file} remembers for {name}, is taken by another program: "
            "end that program, or delete the file to have new ports chosen"
        )


def _check(found: object) -> dict[str, int]:
    if not isinstance(found, dict):
        raise ValueError("not an object")
    ports: dict[str, int] = {}
    for name in NAMES:
        port: object = found.get(name)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  it is JSON, checked here
        if not isinstance(port, int) or not 0 < port < 65_536:
            raise ValueError(f"{name} is {port!r}")
        ports[name] = port
    return ports


def _choose() -> dict[str, int]:
    chosen: dict[str, int] = {}
    for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), 500):
        if free(port):
            chosen[NAMES[len(chosen)]] = port
        if len(chosen) == len(NAMES):
            return chosen
    raise ConfigurationError(
        f"no {len(NAMES)} free ports were found between {LOWEST} and {HIGHEST}: end some of the programs that listen there"
    )


def free(port: int) -> bool:
    """Whether nobody listens on that port of this machine (connections that have just ended do not count)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
        return True
