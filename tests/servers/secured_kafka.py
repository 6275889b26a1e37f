"""A Kafka that lets in nobody without TLS and a password, and lets nobody do what no rule allows. All that makes it so is plain data."""

import os
import secrets
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import trustme
from confluent_kafka import admin as untyped
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from jobyard.contracts.rights import Right
from jobyard.embedded import wheels
from jobyard.embedded.child import Child
from jobyard.embedded.jars import Jars, default_cache
from jobyard.embedded.kafka import JVM, PROPERTIES
from jobyard.embedded.ports import HOST, Ports
from jobyard.kafka.admin import Admin
from jobyard.kafka.readiness import brokers
from servers import contained

library: Final[Any] = untyped  # the library's admin module has bare futures for types
MECHANISM: Final = "SCRAM-SHA-512"
START_S: Final = 90.0
ADMIN, NODE = "admin", "kafka"
"""The administrator; and what the broker calls itself, by its certificate to the controller, and by its password to itself."""


class Certificates:
    """An authority made for this test run, and one that nobody trusts. `ca`: the file that clients trust."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._authority.cert_pem.bytes())
        self.strange_ca = folder / "strange-ca.pem"
        self.strange_ca.write_bytes(trustme.CA().cert_pem.bytes())

    @property
    def authority(self) -> str:
        return self._authority.cert_pem.bytes().decode()

    def of(self, name: str, *hosts: str) -> tuple[str, str]:
        """A certificate for these hosts and its key, both PEM; the key in PKCS 8, since Kafka reads nothing else."""
        made = self._authority.issue_cert(*hosts, common_name=name)
        key = load_pem_private_key(made.private_key_pem.bytes(), None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return "".join(part.bytes().decode() for part in made.cert_chain_pems), key.decode()


@dataclass(frozen=True)
class User:
    """Who logs in by SCRAM."""

    name: str
    password: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)

    def options(self, ca: Path) -> dict[str, str]:
        """JOBYARD_KAFKA_OPTIONS for this user."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": self.name,
            "sasl.password": self.password,
            "ssl.ca.location": str(ca),
        }


def properties(certificates: Certificates, node: User, host: str, listen: str, port: int, controller_port: int) -> dict[str, str]:
    """The broker's properties, but for where its data lie. `host`: how clients call it. `listen`: the address at which it waits for them."""
    chain, key = certificates.of(node.name, host)
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{node.name}" password="{node.password}";'
    return {
        "listeners": f"SASL_SSL://{listen}:{port},CONTROLLER://{host}:{controller_port}",
        "advertised.listeners": f"SASL_SSL://{host}:{port}",
        "controller.quorum.bootstrap.servers": f"{host}:{controller_port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificates.authority,
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{ADMIN};User:{node.name}",
    }


def as_file(wanted: Mapping[str, str]) -> str:
    """Properties as Java reads them."""
    return "".join(f"{name}={value.replace(chr(92), chr(92) * 2).replace(chr(10), chr(92) + 'n')}\n" for name, value in wanted.items())


def format_arguments(*users: User) -> list[str]:
    """What `kafka-storage format` must be told so that these can log in at the first start: all others are made by them."""
    return [word for user in users for word in ("--add-scram", f"{MECHANISM}=[name={user.name},password={user.password}]")]


class SecuredKafka:
    """Made, started and ended with the with-block: on the Java runtime and the jars of the embedded services, in `folder`; or from an image."""

    def __init__(self, folder: Path, certificates: Certificates, image: str | None = None) -> None:
        self._folder = folder
        self._certificates = certificates
        self._image = image
        self._node = User(NODE)
        self.admin = User(ADMIN)
        ports = Ports.choose(folder / "ports.json")
        self.bootstrap_servers = f"{HOST}:{ports['kafka']}"
        listen = HOST if image is None else "0.0.0.0"
        wanted = properties(certificates, self._node, HOST, listen, ports["kafka"], ports["kafka_controller"])
        self._ours = PROPERTIES | wanted | {"log.dirs": str(folder / "kafka") if image is None else "/tmp/secured"}
        self._file = folder / "kafka.properties"
        self._format = ["--standalone", "--cluster-id", "SecuredKafkaOfTests01A", *format_arguments(self._node, self.admin)]
        self._stop: Callable[[], object] = lambda: None
        self._said: Callable[[], str] = lambda: ""

    def __enter__(self) -> Self:
        self._file.write_text(as_file(self._ours))
        if self._image is None:
            self._start_here()
        else:
            self._start_contained(self._image)
        deadline = time.monotonic() + START_S
        while not brokers(self.bootstrap_servers, timeout_s=2.0, options=self.admin.options(self._certificates.ca)):
            if time.monotonic() > deadline:
                said = self._said()
                self._stop()
                raise AssertionError(said[-4000:])
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start_here(self) -> None:
        environment = {**os.environ, "CLASSPATH": os.pathsep.join(str(jar) for jar in Jars(default_cache()).ready())}
        java = [str(wheels.java()), "-XX:TieredStopAtLevel=1", *JVM]
        tool = [*java, "kafka.tools.StorageTool", "format", "--config", str(self._file), *self._format]
        subprocess.run(tool, env=environment, check=True, capture_output=True, timeout=START_S)
        log = self._folder / "kafka.log"
        child = Child(
            [*java, "kafka.Kafka", str(self._file)],
            stop_signal=signal.SIGTERM,
            patience_s=20.0,
            log=log,
            env=environment,
            folder=self._folder,
        )
        self._stop, self._said = child.stop, log.read_text

    def _start_contained(self, image: str) -> None:
        run, file = "/opt/kafka/bin/kafka-run-class.sh", "/tmp/secured.properties"
        words = shlex.join([run, "kafka.tools.StorageTool", "format", "--config", file, *self._format])
        port = self.bootstrap_servers.rpartition(":")[2]
        options = [
            "--rm",
            "--label",
            f"{contained.OWNER}={contained.owner()}",
            "--publish",
            f"{HOST}:{port}:{port}",
            "--entrypoint",
            "/bin/sh",
        ]
        made = contained.docker("create", *options, image, "-c", f"{words} && exec {run} kafka.Kafka {file}")
        self._stop = partial(contained.docker, "rm", "--force", "--volumes", made)
        self._said = partial(contained.docker, "logs", made)
        self._file.chmod(0o644)
        contained.docker("cp", str(self._file), f"{made}:{file}")
        contained.docker("start", made)


class KafkaAdministrator:
    """What whoever runs the Kafka does for Jobyard: users, and what they may."""

    def __init__(self, bootstrap_servers: str, options: Mapping[str, str]) -> None:
        self._servers = bootstrap_servers
        self._options = options
        self._client: Any = library.AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0, **options})

    def add(self, *users: User) -> None:
        """Lets them log in. (Brokers learn of it a moment later.)"""
        mechanism = library.ScramCredentialInfo(library.ScramMechanism.SCRAM_SHA_512, 4096)
        asked = self._client.alter_user_scram_credentials(
            [library.UserScramCredentialUpsertion(user.name, mechanism, user.password.encode()) for user in users]
        )
        for future in asked.values():
            future.result(30)

    def allow(self, user: User, *rights: Right) -> None:
        admin = Admin(self._servers, self._options)
        admin.allow(f"User:{user.name}", rights)
        admin.close()

    def withdraw(self, user: User) -> None:
        """Takes all rights from a user."""
        everything = library.AclBindingFilter(
            library.ResourceType.ANY, None, library.ResourcePatternType.ANY, f"User:{user.name}", None,
            library.AclOperation.ANY, library.AclPermissionType.ANY,
        )  # fmt: skip
        for future in self._client.delete_acls([everything]).values():
            future.result(30)
