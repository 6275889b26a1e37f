"""A small file system that a test may fill up."""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_BLOCK: Final = 64 * 1024


class NoSmallDisk(Exception):
    """This machine lets us make none: says why."""


class SmallDisk:
    """What lies in `path` has a file system of its own. `fill` and `free` may be called again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no room at all."""
        with self._ballast.open("ab", buffering=0) as file:
            size = _BLOCK
            while size >= 1:
                try:
                    file.write(b"\0" * size)
                except OSError:
                    size //= 2

    def free(self) -> None:
        """Take the ballast away."""
        self._ballast.unlink(missing_ok=True)

    @contextmanager
    def full(self) -> Generator[None]:
        self.fill()
        try:
            yield
        finally:
            self.free()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Generator[SmallDisk]:
    """In memory. Root mounts it in `folder`; others in a name space of their own, and see it by way of the process that lives there. NoSmallDisk."""
    if os.geteuid() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        _run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "none", str(folder)])
        try:
            yield SmallDisk(folder)
        finally:
            _run(["umount", "--lazy", str(folder)])
        return
    script = f"mount -t tmpfs -o size={megabytes}m none /mnt && echo ready && exec sleep infinity"
    unshare = shutil.which("unshare")
    if unshare is None:
        raise NoSmallDisk("there is no program `unshare`")
    with subprocess.Popen([unshare, "--user", "--map-root-user", "--mount", "sh", "-c", script], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            if holder.stdout.readline() != b"ready\n":
                raise NoSmallDisk("this user may make no name spaces of their own")
            yield SmallDisk(Path(f"/proc/{holder.pid}/root/mnt"))
        finally:
            holder.kill()


def _run(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoSmallDisk(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        raise NoSmallDisk(f"{' '.join(argv)}: {done.stderr.strip()}")
