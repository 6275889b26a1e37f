"""What stands behind a time-out: told as it was heard, and no guess at settings that have worked."""

from confluent_kafka import KafkaError

from jobyard.kafka.failures import KafkaFailure
from jobyard.kafka.heard import Heard

TIME_OUT = KafkaFailure("unavailable", "_TIMED_OUT", "timed out")


def test_who_never_had_an_answer_is_asked_about_the_protocol() -> None:
    heard = Heard()
    assert heard.instead_of(TIME_OUT) is TIME_OUT
    heard(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert "security.protocol" in heard.instead_of(TIME_OUT).message


def test_a_broker_that_answered_before_stands_still_and_has_no_other_protocol() -> None:
    heard = Heard()
    heard.worked()
    heard(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert heard.instead_of(TIME_OUT).message == "no broker answers any more"


def test_what_was_denied_is_told_until_something_works() -> None:
    heard = Heard()
    heard(KafkaError(KafkaError._AUTHENTICATION))
    assert heard.instead_of(TIME_OUT).denied
    heard.worked()
    assert heard.instead_of(TIME_OUT) is TIME_OUT
