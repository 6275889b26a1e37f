"""The way out: after SIGTERM, a second signal, or being replaced (A11, A12)."""

from typing import Literal, TypeAlias

STOP_S = 3.0
"""How long what was interrupted may take to stop, and reports to be acknowledged."""
NOW_S = 1.0
"""The same after a second signal."""

LAST_REPORTS_S = 25.0
"""How long an agent that ends after a drain waits for the broker to acknowledge its last reports."""

Step: TypeAlias = Literal["wait", "interrupt", "goodbye", "left", "late"]


class Leaving:
    """One leaving. `replaced`: another process has this agent's name: no goodbye, and no hello ever again."""

    def __init__(self, now: float, grace_s: float, replaced: bool) -> None:
        self.replaced = replaced
        self._interrupt_at = now if replaced else now + grace_s
        self._leave_at = self._interrupt_at + STOP_S
        self._interrupted = False
        self._goodbye = False

    def hurry(self, now: float) -> None:
        """A second signal: interrupt, and go."""
        self._interrupt_at = min(self._interrupt_at, now)
        self._leave_at = min(self._leave_at, now + NOW_S)

    def step(self, now: float, running: bool, settled: bool) -> Step:
        """What to do next. `settled`: the broker has acknowledged everything."""
        if running and not self._interrupted and now >= self._interrupt_at:
            self._interrupted = True
            return "interrupt"
        if not running and settled:
            if self.replaced or self._goodbye:
                return "left"
            self._goodbye = True
            return "goodbye"
        return "late" if now >= self._leave_at else "wait"

    def next_due(self) -> float:
        """When to look again at the latest."""
        return self._leave_at if self._interrupted else min(self._interrupt_at, self._leave_at)

    @property
    def said_goodbye(self) -> bool:
        """Nothing may be said any more."""
        return self._goodbye
