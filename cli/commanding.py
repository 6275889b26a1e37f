"""Telling leaders what operators have changed, and waiting until it holds."""

import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from jobyard.cli import output
from jobyard.contracts.errors import WaitTimeout

if TYPE_CHECKING:
    from jobyard.master_db.connection import Connection

_LOOK_S: Final = 0.25


def await_led(connection: "Connection", numbers: Iterable[tuple[str, int]]) -> None:
    """Wait for the answers of leaders, by lane and command. A lane that nobody leads takes it in when somebody does, and is not waited for."""
    from jobyard.master_db import operations

    led = {lane.lane for lane in operations.lanes(connection) if lane.led}
    for lane, number in numbers:
        if lane not in led:
            output.note(f"nobody leads lane {lane} now: it holds as soon as somebody does")
            continue
        try:
            operations.wait_for_answer(connection, number)
        except WaitTimeout as late:
            output.note(f"lane {lane}: {late}")


def told(facts: dict[str, object], text: str, as_json: bool) -> None:
    """Say what was done."""
    if as_json:
        output.one(facts, as_json=True)
    else:
        output.say(text)


def await_idle(connection: "Connection", agents: Collection[str]) -> None:
    """Wait until these agents hold nothing, or are gone."""
    from jobyard.master_db import operations

    while any(one.running + one.placed for one in operations.agents(connection) if one.agent in agents):
        time.sleep(_LOOK_S)
