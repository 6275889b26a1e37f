"""How a lane finds the one message that its ticks fail for, and goes on without it (L18)."""

from typing import Final

_WHOLE_AGAIN: Final = 64
"""After halving, the number of messages a tick doubles with each success; from this many on it is unbounded again."""


class Caution:
    """How many messages a tick may take, and which are to be quarantined. Lives as long as the leader, across its leaderships.

    After a failure the first tick takes no message at all: while that fails, too, the messages are innocent. Only then half as many are tried, and a
    message that is alone in a tick that fails, when one without it has gone through just before, is guilty.
    """

    def __init__(self) -> None:
        self._messages: int | None = None
        self._probing = False
        self._proved = False
        self.poison: set[tuple[str, int]] = set()
        """Topic and offset of messages that the reader gives to quarantine unopened."""

    @property
    def messages(self) -> int | None:
        """How many messages the next tick may take; None: any number."""
        return 0 if self._probing else self._messages

    def refused(self, taken: list[tuple[str, int]]) -> None:
        """A tick with these messages failed for its data, or for a decision that stumbled over it."""
        if len(taken) == 1 and self._proved:
            self.poison.update(taken)
        self._fewer(taken)

    def exhausted(self, taken: list[tuple[str, int]]) -> None:
        """A tick with these messages failed, perhaps because it was too much at once: fewer next time, and nobody is guilty."""
        if len(taken) > 1:
            self._fewer(taken)

    def succeeded(self) -> None:
        """A tick went through: dare more."""
        self._proved = self._probing
        if self._probing:
            self._probing = False
        elif self._messages is not None:
            self._messages = None if self._messages >= _WHOLE_AGAIN else self._messages * 2

    def _fewer(self, taken: list[tuple[str, int]]) -> None:
        self._probing, self._proved = True, False
        if taken:
            self._messages = max(1, len(taken) // 2)
