"""What an exception means: the outcome of the attempt, whether and when to try again, and the error as it is kept.

The deadline counts before anything else: what ends after it is timed out, even with a result (an attempt in a thread, or one that did not heed
its cancellation). Within it success wins: a handler that returns although it was asked to stop has succeeded.
"""

import math
from dataclasses import dataclass

from jobyard.contracts import storable
from jobyard.contracts.endings import Fail, Retry, Snooze
from jobyard.contracts.errors import InvalidArgs, InvalidResult
from jobyard.contracts.reports import Error
from jobyard.contracts.retry import LONGEST_DELAY_S, Retrying, RetryPolicy, delay
from jobyard.contracts.states import Outcome

TYPE_BYTES = 200
MESSAGE_BYTES = 2_000
TRACEBACK_BYTES = 16_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an attempt ended, if not with success. `delay_s`: seconds until the next attempt, None: it does not matter."""

    outcome: Outcome
    retryable: bool
    delay_s: float | None
    error: Error | None


@dataclass(frozen=True, slots=True)
class Failing:
    """What the verdict on one attempt goes by. `retrying`: the job's own, or None for that of the handler. `used`: attempts that counted before."""

    job: str
    attempt: int
    used: int
    policy: RetryPolicy
    retrying: Retrying | None


def verdict(error: BaseException, traceback: str, failing: Failing) -> Verdict:
    """On an exception that a handler has raised by itself."""
    kept = error_of(error, traceback)
    if isinstance(error, Snooze):
        return Verdict(Outcome.SNOOZED, True, _bounded(error.delay_s, 0.0), None)
    if isinstance(error, Retry):
        return Verdict(Outcome.FAILED, True, _policy_delay(failing) if error.delay_s is None else _bounded(error.delay_s, 0.0), kept)
    if isinstance(error, (Fail, InvalidArgs, InvalidResult, *failing.policy.no_retry_for)):
        return Verdict(Outcome.FAILED, False, None, kept)
    return Verdict(Outcome.FAILED, True, _policy_delay(failing), kept)


def timed_out(timeout_s: float, error: BaseException | None, traceback: str, failing: Failing) -> Verdict:
    """On whatever ended after its deadline. `traceback`: of what the handler raised then, shows where it was."""
    retryable = not isinstance(error, Fail)
    kept = Error("TimedOut", f"ran longer than its time-out of {timeout_s:g} s", storable.text(traceback, TRACEBACK_BYTES))
    return Verdict(Outcome.TIMED_OUT, retryable, _policy_delay(failing) if retryable else None, kept)


def stopped(why: str, error: BaseException, traceback: str, failing: Failing) -> Verdict:
    """On an exception after the attempt was asked to stop. What says of itself how it ends is believed."""
    if why == "interrupted":
        if isinstance(error, (Fail, Retry, Snooze)):
            return verdict(error, traceback, failing)
        return Verdict(Outcome.INTERRUPTED, True, None, None)
    return Verdict(Outcome.CANCELLED, True, None, None)


def broken(wrong: BaseException) -> Verdict:
    """On an exception whose own code is so broken that nothing can be learned of it: an attempt that failed, tried again at once."""
    return Verdict(Outcome.FAILED, True, 0.0, Error("Unreadable", f"the error that was raised can't be read: {_type(wrong)}"))


def error_of(error: BaseException, traceback: str) -> Error:
    """The error as it is kept: storable, bounded, never cut inside a character (A13)."""
    try:
        message = "".join([str(error)])  # a plain str, whatever subclass of it __str__ has made
    except BaseException as wrong:  # an exception's own __str__ may be broken, or exit; the job has failed all the same
        message = f"(its message can't be made: {_type(wrong)})"
    return Error(
        storable.text(_type(error), TYPE_BYTES),
        storable.text(message, MESSAGE_BYTES),
        storable.text(traceback, TRACEBACK_BYTES),
    )


def _type(error: BaseException) -> str:
    kind = type(error)
    try:
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        return "".join([name])
    except BaseException:  # a class may have made anything of its names
        return "(an exception whose type has no name)"


def _policy_delay(failing: Failing) -> float:
    retrying = failing.retrying or failing.policy.retrying
    return _bounded(delay(retrying, failing.used + 1, f"{failing.job}:{failing.attempt}"), 0.0)


def _bounded(delay_s: object, otherwise: float) -> float:
    """A delay that can be said: finite, not negative, at most a year. A handler may have made anything of it after it made the exception."""
    if not isinstance(delay_s, (int, float)):
        return otherwise
    if isinstance(delay_s, int):
        return float(min(max(delay_s, 0), int(LONGEST_DELAY_S)))
    return min(max(delay_s, 0.0), LONGEST_DELAY_S) if not math.isnan(delay_s) else otherwise
