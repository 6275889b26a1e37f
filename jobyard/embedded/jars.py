"""Kafka's jars on this machine: fetched once for a user, checked against the lock file whenever they are asked for."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.embedded import lock, wheels
from jobyard.embedded.lock import Jar

FETCHES = 4  # at once


def default_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """JOBYARD_CACHE_DIR, or the folder for caches of this user (XDG)."""
    if chosen := environment.get("JOBYARD_CACHE_DIR"):
        return Path(chosen).absolute()
    base = environment.get("XDG_CACHE_HOME", "")
    # the XDG rules: a relative path counts as none
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "jobyard"


class Jars:
    """The jars of one lock file under one cache folder. The set stands in a folder named for its content, moved there whole: any number of processes may
    ask at the same time, and nobody sees half of it. `fetch(jar, folder)` brings one jar and returns where it is; by default `jgo` does, from Maven Central.
    """

    def __init__(
        self,
        cache: Path,
        jars: Sequence[Jar] | None = None,
        *,
        fetch: Callable[[Jar, Path], Path] | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._jars = lock.read() if jars is None else list(jars)
        self._fetch = _from_maven if fetch is None else fetch
        self._tell = tell
        content = hashlib.sha256("".join(sorted(jar.sha256 for jar in self._jars)).encode()).hexdigest()
        self._cache = cache
        self.folder = cache / f"kafka-{content[:16]}"

    def ready(self) -> list[Path]:
        """Where the jars are; fetches them if they are not there. Without network after the first time.

        Raises ServiceUnavailable if one cannot be fetched, ConfigurationError if what came is not what the lock file says or the cache cannot be written.
        """
        if not self._complete():
            try:
                self._cache.mkdir(parents=True, exist_ok=True)
                with self._alone():
                    if not self._complete():
                        self._fill()
            except OSError as error:
                raise ConfigurationError(
                    f"the cache {self._cache} cannot be written ({error.strerror}): make room or rights there, or name another folder in JOBYARD_CACHE_DIR"
                ) from error
        return [self.folder / jar.name for jar in self._jars]

    def _complete(self) -> bool:
        with ThreadPoolExecutor(FETCHES) as pool:
            return all(pool.map(self._has, self._jars))

    def _has(self, jar: Jar) -> bool:
        return jar.is_at(self.folder / jar.name)

    def _fill(self) -> None:
        wheels.demand_jgo()
        self._tell(f"fetching Kafka's jars, {sum(jar.size for jar in self._jars) / 1e6:.0f} MB, once for all projects, into {self._cache}")
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=self._cache) as name:
            fetched, whole = Path(name) / "fetched", Path(name) / "whole"
            whole.mkdir()

            def bring(jar: Jar) -> None:
                kept = self.folder / jar.name  # of a set that was damaged
                if jar.is_at(kept):
                    shutil.copyfile(kept, whole / jar.name)
                    return
                path = self._fetch(jar, fetched)
                if not jar.is_at(path):
                    raise ConfigurationError(
                        f"{jar.coordinate} came with SHA-256 {lock.digest(path)} "
                        f"where kafka.lock says {jar.sha256}: nothing was kept; check what serves Maven Central here, then try again"
                    )
                os.replace(path, whole / jar.name)

            with ThreadPoolExecutor(FETCHES) as pool:
                for done in [pool.submit(bring, jar) for jar in self._jars]:
                    done.result()
            if self.folder.exists():
                os.replace(self.folder, Path(name) / "damaged")
            os.replace(whole, self.folder)

    @contextmanager
    def _alone(self) -> Generator[None]:
        with (self._cache / "lock").open("a") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            yield


def _from_maven(jar: Jar, folder: Path) -> Path:
    from jgo.maven import MavenContext

    try:
        return MavenContext(repo_cache=folder, timeout=60).create_dependency(jar.coordinate).artifact.resolve()
    except OSError as error:  # those of `requests` are, too
        if error.errno is not None:
            raise
        raise ServiceUnavailable(
            f"Kafka's jars are not in the cache yet and Maven Central cannot be reached ({_cause(error)}): "
            "connect once (a proxy goes into HTTPS_PROXY), or copy the cache folder from a machine that has it"
        ) from error
    except RuntimeError as error:
        raise ServiceUnavailable(f"Maven Central does not give {jar.coordinate}: {str(error).splitlines()[0]}; try again later") from error


def _cause(error: BaseException) -> str:
    """The innermost reason, in a few words."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return f"{type(error).__name__}: {str(error)[:200]}" if str(error) else type(error).__name__
