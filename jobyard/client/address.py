"""The Master DB's address: read here only, since libpq quotes what it cannot read, and a part of that may be the password.

So of an address that is wrong nothing is shown but its scheme.
"""

import re
from typing import Final

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from jobyard.contracts.errors import ConfigurationError

_SCHEMES: Final = ("postgresql", "postgres")
_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]{0,29})://")
_SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})
_HIDDEN: Final = "***"


def parameters(address: str) -> dict[str, str | int]:
    """libpq's parameters of a URL, or of `name=value …`. ConfigurationError if it can't be read, or can't be meant so."""
    wrong = _problem(address)
    if wrong is None:
        return _read(address)
    # Raised outside of any `except`: libpq's own error would go along in `__context__`.
    raise ConfigurationError(
        f"the Master DB's address (JOBYARD_DATABASE_URL) can't be used: {wrong}. It must be postgresql://user:password@host:port/database, in it "
        "%40 for @, %2F for /, %3A for :, %25 for %; it is not shown, since it may hold a password"
    )


def shown(address: str) -> str:
    """The address without its secrets; one that can't be read not at all."""
    if _problem(address) is not None:
        return _HIDDEN
    given = _read(address)
    user, host, port, name = (str(given.pop(part, "")) for part in ("user", "host", "port", "dbname"))
    password = f":{_HIDDEN}" if "password" in given else ""
    given.pop("password", None)
    login = f"{user}{password}@" if user or password else ""
    others = "&".join(f"{option}={_HIDDEN if option in _SECRETS else value}" for option, value in given.items())
    return f"postgresql://{login}{host}{f':{port}' if port else ''}/{name}{f'?{others}' if others else ''}"


def _read(address: str) -> dict[str, str | int]:
    return {name: value for name, value in conninfo_to_dict(address).items() if value is not None}


def _problem(address: str) -> str | None:
    """What is wrong, without a word of the address but its scheme."""
    scheme = _SCHEME.match(address)
    if scheme is not None and scheme[1] not in _SCHEMES:
        return f"it begins with {scheme[1]}://"
    try:
        given = _read(address)
    except ProgrammingError:
        return "it is no URL that libpq can read"
    # What follows is read without complaint, but in another way than meant: a part of the password would stand in messages as host, port or database.
    if any("@" in host[1:] for host in str(given.get("host", "")).split(",")):
        return "its host contains an @, as if one in the password had been left as it is"
    if scheme is not None and "user" not in given and "@" in address:
        return "its database or port contains an @, as if a / in the password had been left as it is"
    if not all(_is_port(port.strip()) for port in str(given.get("port", "")).split(",")):
        return "its port is no number from 1 to 65535, as if a / or : in the password had been left as it is"
    return None


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal() and 0 < int(text) < 65_536)
