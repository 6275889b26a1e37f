"""Which agents a drain is about, and waiting for its end."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jobyard.cli import output
from jobyard.cli.exits import Exit

if TYPE_CHECKING:
    from jobyard.master_db.connection import Connection

_LOOK_S: Final = 0.2


def of_host(connection: "Connection", host: str, lane: str | None) -> list[str]:
    """The names of the live agents on a host. None: nothing matched, which is no error."""
    from jobyard.master_db import operations

    found = sorted({one.agent for one in operations.agents(connection, lane=lane) if one.host == host})
    if not found:
        output.note(f"no agent lives on host {host!r}; `jobyard agent list` shows those that are alive")
    return found


def wait(connection: "Connection", names: Sequence[str], lane: str | None, *, stop: bool, timeout_s: float | None) -> Exit:
    """Wait until nothing is placed or runs on these; with `stop`, until they are gone."""
    from jobyard.master_db import operations

    end = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        there = [one for one in operations.agents(connection, lane=lane) if one.agent in names]
        open_ = [one for one in there if stop or one.state == "active" or one.running or one.placed]
        if not open_:
            return Exit.DONE
        if end is not None and time.monotonic() >= end:
            for one in open_:
                output.error(
                    f"agent {one.agent}: {one.running} jobs run, {one.placed} are placed; it goes on (`jobyard agent show {one.agent}`)"
                )
            return Exit.TIME_OUT
        time.sleep(_LOOK_S)
