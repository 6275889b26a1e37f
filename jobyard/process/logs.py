"""Logging, set up once in a composition root: text for people or JSON for machines, on stderr. Passwords never get through."""

import json
import logging
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal, TextIO, cast

_SECRET: Final = ("password", "passwd", "passphrase", "secret", "token", "key.pem", "oauthbearer.config", "jaas")
"""A name that holds one of these names a secret."""
_IN_URL: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):[^\s/]*@(?=[^\s@]*)", re.IGNORECASE)
_NAMED: Final = re.compile(
    # name=value, "name": value; for passwords name: value, too (of secrets and tokens prose speaks as well)
    rf"""((?:(?:{"|".join(map(re.escape, _SECRET))})(?:\.config)?(?:\s*=|["']\s*:)|passw(?:or)?d\s*:)\s*)("""
    r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&}]+)""",
    re.IGNORECASE,
)
# The password of our own database to the last @: a / in it, forgotten to be written as %2F, must not show the rest.
_IN_OUR_URL: Final = re.compile(r"(\bpostg[a-z0-9+.-]*://[^\s:/@]*):[^\s]*@", re.IGNORECASE)
HIDDEN: Final = "***"

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def masked(text: str) -> str:
    """The text without the passwords in URLs and in `password=…`, `"sasl.password": "…"` and the like."""
    return _NAMED.sub(rf"\1{HIDDEN}", _IN_URL.sub(rf"\1:{HIDDEN}@", _IN_OUR_URL.sub(rf"\1:{HIDDEN}@", text)))


def is_secret(name: str) -> bool:
    """Whether an option of this name holds something that nobody may see."""
    return any(word in name.lower() for word in _SECRET)


class _Text(logging.Formatter):
    """`2026-11-30 10:00:00.123 INFO jobyard.agent.turn: text key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        # `event` and `facts` are for machines: the message says the same
        facts = "".join(f" {name}={value}" for name, value in _extra(record).items() if name not in ("event", "facts"))
        line = f"{at} {record.levelname} {record.name}: {record.getMessage()}{facts}"
        trace = _trace(self, record)
        return masked(line if trace is None else f"{line}\n{trace}")


class _Json(logging.Formatter):
    """An object a line: at, level, logger, message, what was given as `extra`, and error (a traceback)."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        for name, value in _facts(record).items():
            line[name] = _hidden(name, value)
        trace = _trace(self, record)
        if trace is not None:
            line["error"] = masked(trace)
        return json.dumps(line, default=_shown, ensure_ascii=False)


def _hidden(name: str, value: object) -> object:
    """A value as it may be seen, whatever it is made of."""
    if is_secret(name):
        return HIDDEN
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {str(inner): _hidden(str(inner), one) for inner, one in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_hidden("", one) for one in cast("Iterable[object]", value)]
    return value


def _shown(value: object) -> str:
    return masked(str(value))


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _facts(record: logging.LogRecord) -> dict[str, object]:
    """What was given as `extra`; what is in `facts` stands beside the others."""
    found = _extra(record)
    inner = found.pop("facts", None)
    return found | cast("dict[str, object]", inner) if isinstance(inner, dict) else found


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    return formatter.formatException(record.exc_info) if record.exc_info else None


def configure(style: Literal["text", "json"], level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Send all logging to `stream` (None: stderr). What was set up before is replaced."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
