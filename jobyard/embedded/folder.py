"""The folder that holds one set of services: data, logs, ports, password."""

import fcntl
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from jobyard.contracts.errors import ConfigurationError, WaitTimeout

DEFAULT = Path(".jobyard")
NEEDED_BYTES = 400_000_000  # fresh data of both, some write-ahead log, and a little work
PATIENCE_S = 120.0


def empty_beside(data: Path) -> Path:
    """An empty folder in which data are made that go to `data` when they are whole. What was left there by makers that were killed is removed.

    Its name is used once: a program started by one who was killed may still write into its own.
    """
    beginning = f"{data.name}.new-"
    for left in data.parent.glob(f"{beginning}*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
    return Path(tempfile.mkdtemp(prefix=beginning, dir=data.parent))


class Folder:
    """Made by `prepare` if it is not there. `.gitignore` in it keeps it out of every repository."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def prepare(self) -> None:
        """Raises ConfigurationError if the folder cannot be made or its disk is nearly full."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / ".gitignore").write_text("*\n")
            left = shutil.disk_usage(self.path).free
        except OSError as error:
            raise ConfigurationError(
                f"the folder {self.path} cannot be made ({error.strerror}): make room or rights there, or work in another folder"
            ) from error
        if left < NEEDED_BYTES:
            raise ConfigurationError(
                f"only {left / 1e6:.0f} MB are free for {self.path}, "
                f"and the embedded services want {NEEDED_BYTES / 1e6:.0f} MB: make room, or work in another folder"
            )

    @contextmanager
    def alone(self) -> Generator[None]:
        """Nobody else starts or stops these services meanwhile. Raises WaitTimeout if another process is at it for two minutes."""
        with (self.path / "lock").open("a") as opened:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > deadline:
                        raise WaitTimeout(
                            f"another process has been starting or stopping the services in {self.path} for {PATIENCE_S:.0f} s: end it, then try again"
                        ) from error
                    time.sleep(0.05)
            yield
