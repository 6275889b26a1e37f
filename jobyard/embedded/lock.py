"""Which jars Kafka is made of: `kafka.lock`, one jar a line: SHA-256, size in bytes, group:artifact:version.

To take another version: change ROOTS, run `python -m jobyard.embedded.lock` (it asks Maven Central, and rewrites the file), and review what changed.
"""

import hashlib
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jobyard.embedded import wheels

LOCK = Path(__file__).with_name("kafka.lock")
# Kafka's own list has no logger for its logging interface: slf4j-simple writes to standard error, and must have the version of slf4j-api
ROOTS = ("org.apache.kafka:kafka_2.13:4.3.0", "org.slf4j:slf4j-simple:1.7.36")
HEADER = """\
# Kafka's jars: sha256, bytes, group:artifact:version. Made by `python -m jobyard.embedded.lock`; do not edit.
"""


@dataclass(frozen=True)
class Jar:
    """One jar as it must be."""

    sha256: str
    size: int
    coordinate: str

    @property
    def name(self) -> str:
        """Its file name."""
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    def is_at(self, path: Path) -> bool:
        """Whether that file is there and is this jar, byte for byte."""
        try:
            return path.stat().st_size == self.size and digest(path) == self.sha256
        except (FileNotFoundError, NotADirectoryError):
            return False


def read(file: Path = LOCK) -> list[Jar]:
    """The jars of a lock file. Raises ValueError, with the line, if one is not as above."""
    jars: list[Jar] = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        if len(words) != 3 or len(words[0]) != 64 or not words[1].isdecimal() or words[2].count(":") != 2:
            raise ValueError(f"{file.name}:{number}: want sha256, bytes, group:artifact:version, found {line!r}")
        jars.append(Jar(words[0], int(words[1]), words[2]))
    return jars


def write(jars: Iterable[Jar], file: Path = LOCK) -> None:
    """Replaces the lock file."""
    lines = [f"{jar.sha256} {jar.size:>9} {jar.coordinate}\n" for jar in sorted(jars, key=lambda jar: jar.coordinate)]
    file.write_text(HEADER + "".join(lines))


def digest(path: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def resolve(roots: Iterable[str] = ROOTS) -> list[Jar]:
    """Asks Maven Central what the roots need at run time, fetches all of it, and measures it."""
    wheels.demand_jgo()
    from jgo.maven import MavenContext

    with tempfile.TemporaryDirectory(prefix="jobyard-lock-") as folder:
        context = MavenContext(repo_cache=Path(folder), timeout=60)
        inputs, transitive = context.resolver.resolve([context.create_dependency(root) for root in roots])
        jars: dict[str, Jar] = {}
        for dependency in (*inputs, *transitive):
            if dependency.scope not in (None, "compile", "runtime") or dependency.optional:
                continue
            path = dependency.artifact.resolve()
            jar = Jar(digest(path), path.stat().st_size, f"{dependency.groupId}:{dependency.artifactId}:{dependency.version}")
            if jars.setdefault(jar.name, jar) != jar:
                raise ValueError(f"{jar.coordinate} and {jars[jar.name].coordinate} have the same file name")
    return list(jars.values())


if __name__ == "__main__":
    resolved = resolve()
    write(resolved)
    sys.stdout.write(f"{LOCK}: {len(resolved)} jars, {sum(jar.size for jar in resolved) / 1e6:.0f} MB\n")
