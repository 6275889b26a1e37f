"""Waiting until the leaders act by what was set: it is written already, so without an answer nothing is lost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from jobyard.cli import output
from jobyard.contracts.errors import WaitTimeout

if TYPE_CHECKING:
    from jobyard.master_db.connection import Connection

Reason = Annotated[str | None, typer.Option("--reason", help="Why, for whoever looks later.")]

_PATIENCE_S: Final = 5.0


def say(connection: "Connection", what: str, done: str, numbers: Sequence[int], as_json: bool) -> None:
    """Wait for the answers to these commands, and tell. A lane that nobody leads is told as soon as somebody does."""
    from jobyard.master_db import operations

    led = 0
    patience = _PATIENCE_S
    for number in numbers:
        try:
            operations.wait_for_answer(connection, number, timeout_s=patience)
        except WaitTimeout:
            patience = 0.1  # the others have had that time, too
        else:
            led += 1
    if as_json:
        output.one({"name": what, "done": done, "commands": list(numbers), "acted_on": led}, as_json=True)
        return
    later = (
        ""
        if led == len(numbers)
        else f"; {len(numbers) - led} of {len(numbers)} lanes have no leader that answers: it holds as soon as one leads"
    )
    typer.echo(f"{what} {done}{later}")
