"""Exit codes of the command line, and which error means which."""

from enum import IntEnum
from typing import Final

from jobyard.contracts.errors import ConfigurationError, JobyardError, NotFound, ServiceUnavailable, WaitTimeout


class Exit(IntEnum):
    """How a command ended."""

    DONE = 0
    """Also: nothing matched."""
    REFUSED = 1
    """In part, too; or the awaited job did not succeed; or a check found something."""
    USAGE = 2
    """A wrong command line, or settings that are missing or wrong."""
    NOT_FOUND = 3
    UNAVAILABLE = 4
    """Postgres or Kafka can't be reached."""
    TIME_OUT = 5
    BUG = 70


_CODES: Final[tuple[tuple[type[JobyardError], Exit], ...]] = (
    (ConfigurationError, Exit.USAGE),
    (NotFound, Exit.NOT_FOUND),
    (ServiceUnavailable, Exit.UNAVAILABLE),
    (WaitTimeout, Exit.TIME_OUT),
)


def code_of(error: JobyardError) -> Exit:
    """The exit code for an error; what is not listed was refused."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.REFUSED)


class Several:
    """The exit code of a command about several things: the gravest of what happened to any."""

    _GRAVEST: Final = (Exit.UNAVAILABLE, Exit.TIME_OUT, Exit.REFUSED, Exit.NOT_FOUND, Exit.DONE)

    def __init__(self) -> None:
        self._seen = {Exit.DONE}

    def saw(self, code: Exit) -> None:
        """One of them ended so."""
        self._seen.add(code)

    @property
    def code(self) -> Exit:
        """Done only if all are."""
        return next(code for code in self._GRAVEST if code in self._seen)
