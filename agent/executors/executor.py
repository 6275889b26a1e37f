"""What runs attempts, and where it tells what came of them."""

from collections.abc import Sequence
from typing import Protocol

from jobyard.agent.core.actions import Why
from jobyard.agent.core.held import Held
from jobyard.contracts.moments import Instant
from jobyard.contracts.reports import End


class Executor(Protocol):
    """Runs attempts. Called by the turn thread; never blocks it."""

    def start(self, held: Sequence[Held]) -> None:
        """Run these. Each is answered in Facts by ended or declined, exactly once."""
        ...

    def stop(self, held: Held, why: Why) -> None:
        """Ask one of them to stop; may be repeated, and may come too late."""
        ...

    def close(self) -> None:
        """End. What still runs is left alone, and goes down with the process."""
        ...


class Facts(Protocol):
    """What executors tell, from any thread (the inbox takes it)."""

    def begun(self, held: Held, now: float, at: Instant, deadline: float | None) -> None:
        """The handler was called at `now`, and goes on. Left out for what ends at once."""
        ...

    def ended(self, ended: list[tuple[Held, End]]) -> None:
        """These attempts are over; their code has stopped (A11)."""
        ...

    def declined(self, held: Held) -> None:
        """This one was not started."""
        ...

    def progressed(self, held: Held, done: float, total: float | None, message: str) -> None:
        """What a handler says of itself; the newest counts."""
        ...


class Clock(Protocol):
    """The agent's clock, on which the lease is; the same without jumps of the wall clock, in which nothing has run; and the wall clock. Any thread."""

    def now(self) -> float: ...
    def ran(self) -> float: ...
    def wall(self) -> Instant: ...
