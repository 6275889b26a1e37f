"""Postgres and Kafka in containers, for one test session; and what is left of sessions that were killed."""

import hashlib
import os
import platform
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

import psycopg
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from jobyard.embedded.kafka import PROPERTIES
from jobyard.embedded.services import Addresses
from jobyard.kafka.readiness import brokers

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = ROOT / ".jobyard" / "containers.env"
HOST: Final = "127.0.0.1"
OWNER: Final = "jobyard.tests.owner"
"""The label that says whose a container is: machine and process."""
PROJECT: Final = "com.docker.compose.project"
PREFIX: Final = f"jobyard-test-{hashlib.sha256(platform.node().encode()).hexdigest()[:6]}-"
"""Before the process' number: of this machine, since an engine may be another machine's, too."""
START_S: Final = 120.0
LOOK_S: Final = 0.1
TRIES: Final = 3

# the image that Ryuk is made of may not be there to be pulled: we clean up ourselves, see `sweep`
testcontainers_config.ryuk_disabled = True


def images() -> dict[str, str]:
    """Names of the images by variable (YARD_POSTGRES_IMAGE and so on), as tests/containers/engine.sh wrote them."""
    try:
        lines = NAMES.read_text().splitlines()
    except FileNotFoundError:
        raise RuntimeError("tests in containers need an engine and images: run tests/containers/engine.sh first") from None
    return dict(line.split("=", 1) for line in lines)


def owner() -> str:
    """This session, in labels and names of projects."""
    return f"{PREFIX}{os.getpid()}"


def docker(*words: str, timeout_s: float = 60.0) -> str:
    """What a docker command prints. Raises RuntimeError with its errors if it fails."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=timeout_s)
    if done.returncode != 0:
        raise RuntimeError(f"docker {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def sweep() -> None:
    """Removes containers, networks and volumes of this machine's sessions that have ended."""
    for label in (OWNER, PROJECT):
        for what, listing in (("container", ["ps", "--all"]), ("network", ["network", "ls"]), ("volume", ["volume", "ls"])):
            form = f'{{{{.{"Name" if what == "volume" else "ID"}}}}} {{{{.Label "{label}"}}}}'
            for line in docker(*listing, "--filter", f"label={label}", "--format", form).splitlines():
                thing, _, whose = line.partition(" ")
                if _ended(whose):
                    words = ["--force", "--volumes"] if what == "container" else []
                    subprocess.run(["docker", what, "rm", *words, thing], capture_output=True, check=False, timeout=60)


def _ended(whose: str) -> bool:
    """Whether a session of this machine's, `PREFIX` and a process' number before the next hyphen, is over."""
    pid = whose.removeprefix(PREFIX).partition("-")[0]
    return whose.startswith(PREFIX) and pid.isdecimal() and not Path(f"/proc/{pid}").exists()


class ContainedServices:
    """One Postgres and one Kafka, on ports of this machine that nobody else has; they and their data end with the with-block."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._password = hashlib.sha256(os.urandom(32)).hexdigest()
        self._addresses: Addresses | None = None

    @property
    def addresses(self) -> Addresses:
        """Where they answer, once they do."""
        assert self._addresses is not None, "not started"
        return self._addresses

    def __enter__(self) -> Self:
        sweep()
        try:
            names = images()
            postgres = self._postgres(names["YARD_POSTGRES_IMAGE"])
            servers, kafka = self._kafka(names["YARD_KAFKA_IMAGE"])
            url = f"postgresql://postgres:{self._password}@{HOST}:{postgres.get_exposed_port(5432)}/jobyard"
            _wait(postgres, lambda: _answers(url))
            _wait(kafka, lambda: brokers(servers, timeout_s=2.0) > 0)
        except BaseException:
            self._stack.close()
            raise
        self._addresses = Addresses(url, servers)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def _postgres(self, image: str) -> DockerContainer:
        settings = {"fsync": "off", "max_connections": "200", "shared_buffers": "256MB", "autovacuum_naptime": "10s", "timezone": "UTC"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        wanted = (
            DockerContainer(image)
            .with_envs(POSTGRES_DB="jobyard", POSTGRES_PASSWORD=self._password)
            .with_command(["postgres", *words])
            .with_kwargs(labels={OWNER: owner()}, shm_size="256m")
        )
        _publish(wanted, 5432, None)
        return self._stack.enter_context(wanted)

    def _kafka(self, image: str) -> tuple[str, DockerContainer]:
        """Its clients' port is chosen before the start, since the broker tells it to them; another one, if somebody was faster."""
        for last in range(1, TRIES + 1):
            port = _free_port()
            wanted = DockerContainer(image).with_envs(**kafka_environment(port)).with_kwargs(labels={OWNER: owner()})
            _publish(wanted, 9092, port)
            try:
                return f"{HOST}:{port}", self._stack.enter_context(wanted)
            except Exception as error:
                wanted.stop()
                if last == TRIES or "port is already allocated" not in str(error):
                    raise
        raise AssertionError


def kafka_environment(port: int) -> dict[str, str]:
    """What the image apache/kafka wants, for one node with the same properties as the embedded one; clients reach it at `port` of this machine."""
    properties = {
        **PROPERTIES,
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "CLIENTS://:9092,BROKER://localhost:9094,CONTROLLER://localhost:9093",
        "advertised.listeners": f"CLIENTS://{HOST}:{port},BROKER://localhost:9094",
        # the broker talks to itself, too (about transactions), and in its container the clients' port is not there
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "log.dirs": "/var/lib/kafka/data",
    }
    environment = {"KAFKA_" + name.replace(".", "_").upper(): value for name, value in properties.items()}
    return environment | {
        "KAFKA_HEAP_OPTS": "-Xmx512m -Xms128m",
        "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }


def _publish(container: DockerContainer, inner: int, outer: int | None) -> None:
    """Opens a port on this machine's loopback alone (the library's own way opens it to the world). None: any port that is free."""
    bindings = cast(dict[str, Any], container.ports)
    bindings[f"{inner}/tcp"] = (HOST, outer)


def _wait(container: DockerContainer, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_S
    while not ready():
        state = docker("inspect", "--format", "{{.State.Running}}", container.get_container_id())
        if state != "true" or time.monotonic() > deadline:
            out, errors = container.get_logs()
            raise RuntimeError(f"a container {'does not answer' if state == 'true' else 'has ended'}: {(out + errors)[-3000:].decode()}")
        time.sleep(LOOK_S)


def _answers(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            connection.execute("select 1")
    except psycopg.OperationalError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind((HOST, 0))
        port: int = opened.getsockname()[1]
        return port
