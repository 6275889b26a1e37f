"""Logs: two shapes, and no secret in either."""

import io
import json
import logging
from collections.abc import Generator
from typing import Literal

import pytest

from jobyard.process import logs


@pytest.fixture
def root() -> Generator[None]:
    """Logging as it was, afterwards."""
    logger = logging.getLogger()
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
    logging.captureWarnings(False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("postgresql://jo:geheim@db:5432/x", "postgresql://jo:***@db:5432/x"),
        ("postgresql://jo:ge@heim@db/x", "postgresql://jo:***@db/x"),
        ("host=db user=jo password=geheim dbname=x", "host=db user=jo password=*** dbname=x"),
        ("host=db password='ge heim' dbname=x", "host=db password=*** dbname=x"),
        ('{"sasl.password": "geheim", "a": 1}', '{"sasl.password": ***, "a": 1}'),
        ('{"ssl.key.pem": "-----BEGIN KEY----- a b", "a": 1}', '{"ssl.key.pem": ***, "a": 1}'),
        ("sasl.oauthbearer.config='principal=jo geheim' a=1", "sasl.oauthbearer.config=*** a=1"),
        ("sasl.jaas.config='Login required username=jo' a=1", "sasl.jaas.config=*** a=1"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("nothing secret: at 10:00", "nothing secret: at 10:00"),
    ],
)
def test_passwords_are_masked(text: str, wanted: str) -> None:
    assert logs.masked(text) == wanted


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("style", ["text", "json"])
def test_no_password_passes_in_message_argument_or_traceback(style: Literal["text", "json"]) -> None:
    out = io.StringIO()
    logs.configure(style, stream=out)
    try:
        raise ValueError("can't reach postgresql://jo:geheim@db/x")
    except ValueError:
        logging.getLogger("a.b").exception("no answer from %s", "postgresql://jo:geheim@db/x", extra={"url": "x://y:geheim@z"})
    assert "geheim" not in out.getvalue()
    assert "ValueError" in out.getvalue()


@pytest.mark.usefixtures("root")
def test_no_password_passes_however_deep_it_lies() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    facts = {"options": {"sasl.password": "geheim", "a": ["x://y:geheim@z", 1]}, "seen": ({"token": "geheim"}, "password=geheim")}
    logging.getLogger("a").info("told", extra={"facts": facts})
    assert "geheim" not in out.getvalue()
    assert json.loads(out.getvalue())["options"] == {"sasl.password": "***", "a": ["x://y:***@z", 1]}


@pytest.mark.usefixtures("root")
def test_json_is_an_object_a_line() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    logging.getLogger("a.b").warning("lost %d", 3, extra={"lane": "default", "obj": object(), "facts": {"slots": 3}})
    logging.getLogger("a.b").info("two\nlines")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["slots"] == 3
    assert (first["level"], first["logger"], first["message"], first["lane"]) == ("warning", "a.b", "lost 3", "default")
    assert second["message"] == "two\nlines"


@pytest.mark.usefixtures("root")
def test_text_carries_the_facts_and_setting_up_twice_says_things_once() -> None:
    out = io.StringIO()
    logs.configure("text", stream=io.StringIO())
    logs.configure("text", stream=out)
    logging.getLogger("a.b").info("hello", extra={"lane": "default", "event": "e", "facts": {"slots": 3}})
    (line,) = out.getvalue().splitlines()
    assert line.endswith("INFO a.b: hello lane=default")
