import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobyard.contracts.errors import ConfigurationError, ServiceUnavailable
from jobyard.embedded.jars import Jars, default_cache
from jobyard.embedded.lock import Jar

CONTENTS = {"g:one:1": b"first", "g:two:2": b"second"}
JARS = [Jar(hashlib.sha256(content).hexdigest(), len(content), coordinate) for coordinate, content in CONTENTS.items()]


class Shelf:
    """Stands for Maven Central."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self._contents = contents
        self.asked: list[str] = []
        self._guard = threading.Lock()

    def __call__(self, jar: Jar, folder: Path) -> Path:
        with self._guard:
            self.asked.append(jar.coordinate)
        path = folder / jar.coordinate.replace(":", "/") / jar.name
        path.parent.mkdir(parents=True)
        path.write_bytes(self._contents[jar.coordinate])
        return path


def unreachable(jar: Jar, folder: Path) -> Path:
    raise ServiceUnavailable("no network")


def test_jars_are_fetched_once_and_used_without_network_afterwards(tmp_path: Path) -> None:
    shelf = Shelf(CONTENTS)
    told: list[str] = []
    paths = Jars(tmp_path, JARS, fetch=shelf, tell=told.append).ready()
    assert [path.read_bytes() for path in paths] == list(CONTENTS.values())
    assert sorted(shelf.asked) == sorted(CONTENTS)
    assert len(told) == 1
    assert Jars(tmp_path, JARS, fetch=unreachable, tell=told.append).ready() == paths
    assert len(told) == 1


def test_a_jar_with_another_checksum_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    jars = Jars(tmp_path, JARS, fetch=Shelf(CONTENTS | {"g:two:2": b"evil!!"}))
    with pytest.raises(ConfigurationError, match=rf"g:two:2 came with SHA-256 .* kafka\.lock says {JARS[1].sha256}"):
        jars.ready()
    assert not jars.folder.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_damaged_jar_is_fetched_again_and_no_other(tmp_path: Path) -> None:
    paths = Jars(tmp_path, JARS, fetch=Shelf(CONTENTS)).ready()
    paths[0].write_bytes(b"fIrst")
    shelf = Shelf(CONTENTS)
    assert [path.read_bytes() for path in Jars(tmp_path, JARS, fetch=shelf).ready()] == list(CONTENTS.values())
    assert shelf.asked == ["g:one:1"]


def test_many_at_once_fetch_each_jar_once(tmp_path: Path) -> None:
    shelf = Shelf(CONTENTS)
    with ThreadPoolExecutor(8) as pool:
        found = [asked.result() for asked in [pool.submit(Jars(tmp_path, JARS, fetch=shelf).ready) for _ in range(8)]]
    assert all([path.read_bytes() for path in paths] == list(CONTENTS.values()) for paths in found)
    assert sorted(shelf.asked) == sorted(CONTENTS)


def test_no_network_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable, match="no network"):
        Jars(tmp_path, JARS, fetch=unreachable).ready()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_cache_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="JOBYARD_CACHE_DIR"):
        Jars(tmp_path / "file" / "cache", JARS, fetch=Shelf(CONTENTS)).ready()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"JOBYARD_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, lambda: Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, lambda: Path("/b/jobyard")),
        ({"XDG_CACHE_HOME": "relative"}, lambda: Path.home() / ".cache/jobyard"),
        ({}, lambda: Path.home() / ".cache/jobyard"),
    ],
)
def test_where_the_cache_is(environment: dict[str, str], expected: Callable[[], Path]) -> None:
    assert default_cache(environment) == expected()
