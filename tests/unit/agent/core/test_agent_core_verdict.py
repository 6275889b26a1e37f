"""Exceptions to outcomes, and A13: what is said can be stored."""

from datetime import timedelta
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobyard.agent.core.verdict import MESSAGE_BYTES, TRACEBACK_BYTES, TYPE_BYTES, Failing, error_of, stopped, timed_out, verdict
from jobyard.contracts import storable
from jobyard.contracts.endings import Fail, Retry, Snooze
from jobyard.contracts.errors import InvalidArgs, InvalidResult
from jobyard.contracts.retry import LONGEST_DELAY_S, Retrying, RetryPolicy, delay
from jobyard.contracts.states import Outcome

POLICY = RetryPolicy(base=3, jitter=0.5, no_retry_for=(LookupError,))


def failing(used: int = 0, retrying: Retrying | None = None, policy: RetryPolicy = POLICY) -> Failing:
    return Failing("job-1", 4, used, policy, retrying)


def test_any_exception_is_a_failed_attempt_with_the_delay_of_the_handlers_policy() -> None:
    found = verdict(ValueError("no"), "trace", failing(used=2))
    assert (found.outcome, found.retryable) == (Outcome.FAILED, True)
    assert found.delay_s == delay(POLICY.retrying, 3, "job-1:4")
    assert found.error is not None
    assert (found.error.type, found.error.message, found.error.traceback) == ("ValueError", "no", "trace")


def test_the_jobs_own_policy_goes_before_the_handlers() -> None:
    own = Retrying(backoff="constant", base_s=7.0, jitter=0.0)
    assert verdict(ValueError(), "", failing(retrying=own)).delay_s == 7.0


@pytest.mark.parametrize("error", [Fail("enough"), InvalidArgs("no"), InvalidResult("no"), KeyError("no")])
def test_what_is_never_tried_again(error: Exception) -> None:
    found = verdict(error, "", failing())
    assert (found.outcome, found.retryable, found.delay_s) == (Outcome.FAILED, False, None)


def test_retry_has_its_own_delay_or_that_of_the_policy() -> None:
    assert verdict(Retry(timedelta(minutes=2)), "", failing()).delay_s == 120.0
    assert verdict(Retry(), "", failing()).delay_s == delay(POLICY.retrying, 1, "job-1:4")


def test_snooze_waits_and_is_no_error() -> None:
    found = verdict(Snooze(5), "", failing())
    assert (found.outcome, found.retryable, found.delay_s, found.error) == (Outcome.SNOOZED, True, 5.0, None)


@pytest.mark.parametrize(("asked", "said"), [(float("nan"), 0.0), (float("inf"), LONGEST_DELAY_S), (-5.0, 0.0)])
def test_A13_a_delay_that_cannot_be_sent_is_bounded(asked: float, said: float) -> None:
    assert verdict(Retry(asked), "", failing()).delay_s == said
    assert verdict(Snooze(asked), "", failing()).delay_s == said


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_exit_in_a_handler_is_a_failed_attempt(error: BaseException) -> None:
    assert verdict(error, "", failing()).outcome is Outcome.FAILED


def test_the_type_is_the_qualified_name_without_builtins() -> None:
    class Own(Exception):
        pass

    assert error_of(OSError("x"), "").type == "OSError"
    assert error_of(Own(), "").type == f"{__name__}.test_the_type_is_the_qualified_name_without_builtins.<locals>.Own"


def test_an_exception_whose_message_cannot_be_made_has_failed_all_the_same() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "RuntimeError" in error_of(Broken(), "").message


def test_after_the_deadline_everything_is_timed_out() -> None:
    found = timed_out(2.5, None, "", failing())
    assert (found.outcome, found.retryable) == (Outcome.TIMED_OUT, True)
    assert found.error is not None
    assert "2.5 s" in found.error.message
    assert not timed_out(2.5, Fail("never"), "", failing()).retryable


def test_what_was_asked_to_stop_ends_as_asked_unless_it_says_otherwise() -> None:
    assert stopped("cancelled", ValueError(), "", failing()).outcome is Outcome.CANCELLED
    assert stopped("interrupted", ValueError(), "", failing()).outcome is Outcome.INTERRUPTED
    assert stopped("interrupted", Fail("no"), "", failing()).retryable is False
    assert stopped("interrupted", Snooze(1), "", failing()).outcome is Outcome.SNOOZED


class Named(Exception):
    texts: ClassVar[list[str]] = []


@given(message=st.text(st.characters(exclude_categories=())), trace=st.text(st.characters(exclude_categories=()), min_size=0))
def test_A13_errors_are_storable_and_bounded(message: str, trace: str) -> None:
    found = error_of(Named(message * 50), trace * 300)
    for text, most in ((found.type, TYPE_BYTES), (found.message, MESSAGE_BYTES), (found.traceback, TRACEBACK_BYTES)):
        assert "\x00" not in text
        assert len(text.encode()) <= most
        assert storable.text(text, most) == text
