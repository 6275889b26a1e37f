"""What a handler may raise to say how its attempt ends. Anything else that it raises is a failed attempt, retried by its policy."""

from datetime import timedelta


def seconds(value: timedelta | float) -> float:
    """A duration as seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


class Fail(Exception):
    """The job fails for good: no further attempt, however many are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):
    """A failed attempt with its own delay (None: the policy's). Counts against max_attempts."""

    def __init__(self, delay: timedelta | float | None = None, reason: str = "") -> None:
        super().__init__(reason or "the handler asked for a retry")
        self.delay_s = None if delay is None else seconds(delay)
        self.reason = reason


class Snooze(Exception):
    """Not now: the job waits for `delay` and runs again. Uses up no attempt."""

    def __init__(self, delay: timedelta | float) -> None:
        super().__init__(f"snoozed for {seconds(delay):g} s")
        self.delay_s = seconds(delay)


# Users know them by this name, and the audit keeps it as the type of an error.
for _known in (Fail, Retry, Snooze):
    _known.__module__ = "jobyard"
