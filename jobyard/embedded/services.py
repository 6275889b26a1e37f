"""Postgres and Kafka of one folder, together."""

import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from jobyard.embedded.folder import Folder
from jobyard.embedded.jars import Jars, default_cache
from jobyard.embedded.kafka import Kafka, Listener
from jobyard.embedded.ports import Ports
from jobyard.embedded.postgres import How, Postgres

Part = Literal["postgres", "kafka"]
PARTS: tuple[Part, ...] = ("postgres", "kafka")


@dataclass(frozen=True)
class Addresses:
    """Where a Postgres and a Kafka answer, embedded or not. The database's address holds its password."""

    database_url: str = field(repr=False)
    kafka_bootstrap_servers: str


@dataclass(frozen=True)
class Status:
    """`postgres_pid`, `kafka_pid`: None if that server does not run. The addresses: None if its port has not been chosen yet."""

    folder: Path
    postgres_pid: int | None
    kafka_pid: int | None
    database_url: str | None = field(repr=False)
    kafka_bootstrap_servers: str | None

    @property
    def running(self) -> bool:
        return self.postgres_pid is not None and self.kafka_pid is not None


class Services:
    """Real Postgres and real Kafka in `folder` (made if it is not there), on ports of their own: any number of folders run side by side.

    `owned` (True): both end when `stop` is called, the with-block ends, or this process dies in whatever way. False: they stay until somebody
    stops them. Servers that were left running in the folder are used as they are, and an owner does not end them. `parts`: what to start (both).
    `fast` (False): for tests: Postgres without fsync, Kafka without the optimizing compiler. `cache`: where Kafka's jars are kept;
    None: JOBYARD_CACHE_DIR, or this user's folder for caches. `tell` gets a line when something takes long. `listeners` and `properties` are
    Kafka's, for tests: see there.

        with Services(Path(".jobyard")) as services:
            connect(services.database_url, services.kafka_bootstrap_servers)
    """

    def __init__(
        self,
        folder: Path,
        owned: bool = True,
        *,
        parts: Collection[Part] = PARTS,
        fast: bool = False,
        cache: Path | None = None,
        tell: Callable[[str], None] = lambda line: None,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = Folder(folder)
        self._owned = owned
        self._ports_file = self._folder.path / "ports.json"
        self.postgres = Postgres(self._folder.path, owned=owned, fast=fast)
        self.kafka = Kafka(
            self._folder.path,
            Jars(cache or default_cache(), tell=tell),
            owned=owned,
            fast=fast,
            listeners=listeners,
            properties=properties,
        )
        self._parts = [part for name, part in (("postgres", self.postgres), ("kafka", self.kafka)) if name in parts]

    @property
    def database_url(self) -> str:
        """Postgres' address, password included. Raises ServiceUnavailable before the first start."""
        return self.postgres.url()

    @property
    def kafka_bootstrap_servers(self) -> str:
        """Kafka's address. Raises ServiceUnavailable before the first start."""
        return self.kafka.bootstrap_servers

    @property
    def addresses(self) -> Addresses:
        """Both. Raises ServiceUnavailable before the first start."""
        return Addresses(self.database_url, self.kafka_bootstrap_servers)

    def start(self) -> Self:
        """Starts what does not run, both at once, and returns when both answer. If one fails, the other is ended, too, and the error is raised:
        ConfigurationError (not installed, port taken, data of another version, folder in use), ServiceUnavailable (no network for the jars, did not come up).
        """
        self._folder.prepare()
        with self._folder.alone():
            self._know(Ports.choose(self._ports_file))
            todo = [part for part in self._parts if not part.server.attach()]
            try:
                with ThreadPoolExecutor(2) as pool:
                    for done in [pool.submit(part.start) for part in todo]:
                        done.result()
            except BaseException:  # Ctrl-C, too, must not leave one of them behind
                for part in todo:
                    part.server.stop()
                raise
        return self

    def stop(self) -> None:
        """Ends Kafka, then Postgres, and waits for it. An owner ends only what it started. Nothing happens if nothing runs.

        Raises Refused if the servers belong to another process that lives.
        """
        if not self._folder.path.exists():
            return
        with self._folder.alone():
            self.kafka.server.stop()
            self.postgres.server.stop()

    def status(self) -> Status:
        """What runs in the folder, whoever started it. Changes nothing."""
        known = self._ports_file.exists()
        if known:
            self._know(Ports.read(self._ports_file))
        return Status(
            folder=self._folder.path,
            postgres_pid=self.postgres.server.pid(),
            kafka_pid=self.kafka.server.pid(),
            database_url=self.postgres.url() if known and self.postgres.made else None,
            kafka_bootstrap_servers=self.kafka.bootstrap_servers if known else None,
        )

    def stop_postgres(self, how: How = "fast") -> None:
        """`fast` rolls open transactions back and writes everything out; `immediate` is a crash, which the next start mends."""
        self.postgres.stop(how)

    def start_postgres(self) -> None:
        """Starts it again: same port, same data."""
        self.postgres.start()

    def restart_postgres(self, how: How = "fast") -> None:
        """Returns when it answers again."""
        self.stop_postgres(how)
        self.start_postgres()

    def stop_kafka(self) -> None:
        """A clean end."""
        self.kafka.server.kill(signal.SIGTERM)

    def kill_kafka(self) -> None:
        """SIGKILL."""
        self.kafka.server.kill(signal.SIGKILL)

    def start_kafka(self) -> None:
        """Starts it again: same port, same data. After a kill this takes up to some seconds more: the broker's old session must end first."""
        self.kafka.start()

    def restart_kafka(self) -> None:
        """Returns when it answers again."""
        self.stop_kafka()
        self.start_kafka()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._owned:
            self.stop()

    def _know(self, ports: Ports) -> None:
        self.postgres.ports = self.kafka.ports = ports
