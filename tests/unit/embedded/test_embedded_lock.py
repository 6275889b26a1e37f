import hashlib
from pathlib import Path

import pytest

from jobyard.embedded import lock
from jobyard.embedded.lock import Jar


def test_the_lock_file_holds_kafka_and_a_logger_with_distinct_names() -> None:
    jars = lock.read()
    coordinates = {jar.coordinate for jar in jars}
    assert set(lock.ROOTS) <= coordinates
    assert len({jar.name for jar in jars}) == len(jars)
    api = next(jar for jar in jars if jar.coordinate.startswith("org.slf4j:slf4j-api:"))
    assert f"org.slf4j:slf4j-simple:{api.coordinate.rpartition(':')[2]}" in coordinates


def test_what_was_written_is_read_again_sorted(tmp_path: Path) -> None:
    jars = [Jar("b" * 64, 20, "org.z:zebra:2"), Jar("a" * 64, 1, "org.a:ant:1.0-x")]
    lock.write(jars, tmp_path / "kafka.lock")
    assert lock.read(tmp_path / "kafka.lock") == [jars[1], jars[0]]
    assert jars[1].name == "ant-1.0-x.jar"


@pytest.mark.parametrize("line", ["abc 1 a:b:c", f"{'a' * 64} 1 a:b", f"{'a' * 64} x a:b:c", f"{'a' * 64} a:b:c"])
def test_a_wrong_line_is_named_by_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "kafka.lock"
    file.write_text(f"# comment\n\n{line}\n")
    with pytest.raises(ValueError, match=r"kafka\.lock:3: "):
        lock.read(file)


def test_a_jar_is_known_by_every_byte(tmp_path: Path) -> None:
    file = tmp_path / "a-1.jar"
    jar = Jar(hashlib.sha256(b"right").hexdigest(), 5, "g:a:1")
    assert not jar.is_at(file)
    file.write_bytes(b"right")
    assert jar.is_at(file)
    file.write_bytes(b"wrong")
    assert not jar.is_at(file)
