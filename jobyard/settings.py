"""Settings of each process: environment (`JOBYARD_…`), then `.env`, then `jobyard.toml`, both in the current folder. One frozen class a process.

Only composition roots (and `jobyard.api.app`) read them; everything else gets plain values. An unknown `JOBYARD_` name anywhere is an error, since
a typo must not leave a time-out at its default.
"""

import difflib
import functools
import json
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from jobyard.contracts.errors import ConfigurationError
from jobyard.contracts.rules import RULES, Rules
from jobyard.contracts.topics import problem_of_name

PREFIX: Final = "JOBYARD_"
ENV_FILE: Final = ".env"
TOML_FILE: Final = "jobyard.toml"

_FOREIGN_PREFIXES: Final = ("JOBYARD_SERVICE_", "JOBYARD_PORT")
"""Kubernetes injects these into each container beside a service named jobyard."""
_ELSEWHERE: Final = frozenset({"JOBYARD_CACHE_DIR"})
"""Read by the embedded services."""
_LARGEST_BYTES: Final = 3_145_728
"""Arguments and results: a message holds 4 MiB, and some of it is not theirs."""
_SHORTEST_RETENTION_DAYS: Final = 7
_PARTITIONS: Final = 30
_IN_FILES: Final = ("database_url", "kafka_options")
"""What may hold a password. Docker and Kubernetes hand secrets over as files: JOBYARD_DATABASE_URL_FILE names the one that holds JOBYARD_DATABASE_URL."""
_FILE: Final = "_FILE"
_FILE_LONGEST: Final = 1_048_576
_NO_OBJECT: Final = 'JOBYARD_KAFKA_OPTIONS must be a JSON object, {"security.protocol": "SSL"} for example'

SubmitVia: TypeAlias = Literal["sql", "kafka", "connection"]
LogFormat: TypeAlias = Literal["text", "json"]


class WrongSettings(ConfigurationError):
    """Settings are missing or wrong: a line for each mistake, that names the setting, its value and what it must be."""


def _name(what: str) -> Callable[[str], str]:
    def checked(name: str) -> str:
        problem = problem_of_name(what, name)
        if problem:
            raise ValueError(problem)
        return name

    return checked


def _texts(options: object) -> object:
    """librdkafka takes text for everything; people write numbers and true."""
    if not isinstance(options, Mapping):
        return options
    given = cast(Mapping[object, object], options)
    return {name: _text(value) if isinstance(value, bool | int | float) else value for name, value in given.items()}


def _text(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _submitter(name: str | None) -> str | None:
    if name is not None and not (1 <= len(name) <= 200 and name.isprintable()):
        raise ValueError("must be 1 to 200 printable characters")
    return name


Seconds = Annotated[float, Field(gt=0, le=30 * 86_400, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=1024, le=_LARGEST_BYTES)]


class _SecretFiles(PydanticBaseSettingsSource):
    """Settings whose files are named by `…_FILE`, in the environment or `.env`."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The content of the setting's file, without the newline at its end; None: none is named."""
        path = _secret_file(field_name) if field_name in _IN_FILES else None
        return (None if path is None else _content(field_name, path)), field_name, False

    def __call__(self) -> dict[str, Any]:
        """All that stand in files."""
        found = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        if (options := found.get("kafka_options")) is not None:
            with suppress(ValueError):  # what is no JSON stays text, which is refused as any other value that is no object
                found["kafka_options"] = json.loads(options)
        return {name: value for name, value in found.items() if value is not None}


class _Shared(BaseSettings):
    """What every process needs to know."""

    model_config = SettingsConfigDict(frozen=True, env_prefix=PREFIX, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    kafka_bootstrap_servers: str | None = Field(default=None, description="Kafka's address: host:port, several with commas")
    kafka_options: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(
        default_factory=dict[str, str], repr=False, description="further librdkafka options as a JSON object (TLS, SASL)"
    )
    namespace: Annotated[str, AfterValidator(_name("namespace"))] = Field(default="jobyard", description="first part of all topics' names")
    lane: Annotated[str, AfterValidator(_name("lane"))] = Field(default="default", description="the lane used where none is named")
    log_format: LogFormat = Field(default="text", description="text for people, json for machines (one object a line)")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The first that has a value wins."""
        return (
            init_settings,
            env_settings,
            _SecretFiles(settings_cls),
            DotEnvSettingsSource(settings_cls, env_file=ENV_FILE, env_file_encoding="utf-8"),
            TomlConfigSettingsSource(settings_cls, toml_file=TOML_FILE),
        )

    def kafka(self) -> str:
        """Kafka's address; WrongSettings if it is not set."""
        if self.kafka_bootstrap_servers is None:
            raise WrongSettings(_missing("kafka_bootstrap_servers", "host:port"))
        return self.kafka_bootstrap_servers


class _WithDatabase(_Shared):
    """A process that may use the Master DB."""

    database_url: SecretStr | None = Field(default=None, description="the Master DB: postgresql://user:password@host:port/database")

    def database(self) -> str:
        """The Master DB's address, with its password; WrongSettings if it is not set."""
        if self.database_url is None:
            raise WrongSettings(_missing("database_url", "postgresql://user:password@host:port/database"))
        return self.database_url.get_secret_value()


class _Leading(_Shared):
    """What a leader decides by."""

    lost_after_s: Seconds = Field(
        default=RULES.lost_after_s, description="an agent unheard of for this long is lost; its jobs run elsewhere"
    )
    unreachable_after_s: Seconds = Field(
        default=RULES.unreachable_after_s, description="an agent unheard of for this long gets nothing new"
    )
    max_agents: int = Field(default=RULES.agents_max, ge=1, le=20_000, description="a lane takes in no more agents than this")
    aging_s: Seconds = Field(
        default=RULES.aging_s, description="a job that has waited this long has a share of the placements, whatever its priority"
    )
    reserve_after_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=RULES.reserve_after_s, description="smaller jobs may pass a waiting large one for this long; 0: not at all"
    )
    max_args_bytes: Bytes = Field(default=RULES.max_args_bytes, description="the most that a job's arguments may take as JSON")
    max_result_bytes: Bytes = Field(default=RULES.max_result_bytes, description="the most that a result may take as JSON")
    retention_days: int = Field(
        default=90,
        ge=_SHORTEST_RETENTION_DAYS,
        le=3660,
        description="history is kept this long; never under the 7 days that an id may be old",
    )
    partition_days: int | None = Field(
        default=None, ge=1, le=366, description="days in one partition of the history; default: a thirtieth of the retention"
    )

    metrics_port: int | None = Field(
        default=None, ge=0, le=65_535, description="Prometheus is answered at this port; 0: any; left out: not at all"
    )
    metrics_address: str = Field(
        default="127.0.0.1", description="the address that metrics are served at; they tell names of lanes, nothing of jobs"
    )

    @model_validator(mode="after")
    def _agree(self) -> "_Leading":
        Rules(lost_after_s=self.lost_after_s, unreachable_after_s=self.unreachable_after_s)
        return self

    def rules(self) -> Rules:
        """The leader's numbers, these settings among them."""
        return Rules(
            lost_after_s=self.lost_after_s,
            unreachable_after_s=self.unreachable_after_s,
            agents_max=self.max_agents,
            aging_s=self.aging_s,
            reserve_after_s=self.reserve_after_s,
            max_args_bytes=self.max_args_bytes,
            max_result_bytes=self.max_result_bytes,
        )

    def metrics(self) -> tuple[str, int] | None:
        """Address and port for Prometheus; None: not at all."""
        return None if self.metrics_port is None else (self.metrics_address, self.metrics_port)

    def days_of_partition(self) -> int:
        """Days in one partition: about thirty partitions in all, unless set otherwise."""
        return self.partition_days or math.ceil(self.retention_days / _PARTITIONS)


class ClientSettings(_WithDatabase):
    """What a program that submits jobs needs."""

    submitter: Annotated[str | None, AfterValidator(_submitter)] = Field(default=None, description="in whose name jobs are submitted")
    submit_via: SubmitVia = Field(default="sql", description="how jobs are submitted where the code does not say: sql, kafka, connection")
    max_args_bytes: Bytes = Field(default=RULES.max_args_bytes, description="the most that a job's arguments may take as JSON")


class CoordinatorSettings(_Leading, _WithDatabase):
    """What a coordinator needs."""


class AgentSettings(_Shared):
    """What an agent needs. It has no database access: a database's address in its environment is not even read."""

    app: str | None = Field(default=None, description="MODULE:APP, the application whose jobs are run")
    release_after_s: Seconds = Field(
        default=RULES.release_after_s, description="an agent gives back what it has not started after this long"
    )
    grace_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=25.0, description="what runs when an agent is told to stop may go on this long; under the platform's own grace (often 30 s)"
    )
    max_result_bytes: Bytes = Field(default=RULES.max_result_bytes, description="the most that a result may take as JSON")

    @model_validator(mode="after")
    def _agree(self) -> "AgentSettings":
        Rules(release_after_s=self.release_after_s)
        return self

    def rules(self) -> Rules:
        """The agent's numbers, these settings among them. `lost_after_s` it takes from the coordinator."""
        return Rules(release_after_s=self.release_after_s, max_result_bytes=self.max_result_bytes)


class CliSettings(ClientSettings, _Leading):
    """What the command line needs: each command asks for what it uses, so `--help` and `config show` need nothing."""

    app: str | None = Field(default=None, description="MODULE:APP, the application that commands use where none is named")


_S = TypeVar("_S", bound=_Shared)
_ALL: Final[tuple[type[_Shared], ...]] = (ClientSettings, CoordinatorSettings, AgentSettings, CliSettings)


def known_names() -> list[str]:
    """Every setting of every process, as in the environment."""
    fields = {field for settings in _ALL for field in settings.model_fields}
    return sorted({PREFIX + field.upper() for field in fields} | {PREFIX + field.upper() + _FILE for field in _IN_FILES})


@functools.cache
def client_settings() -> ClientSettings:
    """The settings of a program that submits; read once in a process. WrongSettings if something is wrong with them."""
    return read(ClientSettings)


@functools.cache
def coordinator_settings() -> CoordinatorSettings:
    """The settings of a coordinator; read once in a process. WrongSettings if something is wrong with them."""
    return read(CoordinatorSettings)


@functools.cache
def agent_settings() -> AgentSettings:
    """The settings of an agent; read once in a process. WrongSettings if something is wrong with them."""
    return read(AgentSettings)


@functools.cache
def cli_settings() -> CliSettings:
    """The settings of the command line; read once in a process. WrongSettings if something is wrong with them."""
    return read(CliSettings)


def forget() -> None:
    """Read anew when next asked: for tests, and after the environment was changed."""
    for cached in (client_settings, coordinator_settings, agent_settings, cli_settings):
        cached.cache_clear()


def read(settings: type[_S]) -> _S:
    """Settings of one kind as they are now. WrongSettings with a line for each mistake."""
    problems = [*_unknown(os.environ, "the environment"), *_unknown(_env_file_names(settings), ENV_FILE), *_unknown_in_toml()]
    nothing: dict[str, Any] = {}
    try:
        found = settings(**nothing)
    except ValidationError as error:
        raise WrongSettings("\n".join([*problems, *_mistakes(error)])) from None
    except SettingsError as error:
        raise WrongSettings("\n".join([*problems, _unreadable(error)])) from None
    if problems:
        raise WrongSettings("\n".join(problems))
    return found


def origin(field: str) -> str:
    """Where the value of a setting comes from: the first that has one wins."""
    if _given(os.environ, PREFIX + field):
        return "environment"
    if field in _IN_FILES and _secret_file(field) is not None:
        return f"{PREFIX}{field.upper()}{_FILE}"
    if _given(DotEnvSettingsSource(CliSettings, env_file=ENV_FILE, env_file_encoding="utf-8").env_vars, PREFIX + field):
        return ENV_FILE
    try:
        content = tomllib.loads(Path(TOML_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        content = {}
    return TOML_FILE if field in content else "default"


def _secret_file(field: str) -> str | None:
    """The path of the file that holds the setting; None: none is named."""
    name = PREFIX + field.upper() + _FILE
    for values in (os.environ, DotEnvSettingsSource(CliSettings, env_file=ENV_FILE, env_file_encoding="utf-8").env_vars):
        path = next((path for found, path in values.items() if found.upper() == name and path), None)
        if path is not None:
            return path
    return None


def _content(field: str, path: str) -> str:
    """WrongSettings if it can't be read, holds nothing, or the setting itself is there, too. Nothing of the content is shown."""
    name = PREFIX + field.upper()
    if _given(os.environ, name):
        raise WrongSettings(f"{name} and {name}{_FILE} are both set: leave one out")
    try:
        with Path(path).open(encoding="utf-8") as file:
            content = file.read(_FILE_LONGEST + 1)  # a device may have no end
    except (OSError, UnicodeDecodeError) as error:
        problem = (error.strerror if isinstance(error, OSError) else None) or "it is no UTF-8"
    else:
        if len(content) > _FILE_LONGEST:
            problem = f"it is longer than {_FILE_LONGEST} characters"
        elif content.strip():
            return content.rstrip("\r\n")
        else:
            problem = "it is empty"
    raise WrongSettings(f"{name}{_FILE}={path!r}: {problem}")


def _given(values: Mapping[str, str | None], wanted: str) -> bool:
    return any(name.upper() == wanted.upper() and value for name, value in values.items())


def _env_file_names(settings: type[_Shared]) -> Iterable[str]:
    return DotEnvSettingsSource(settings, env_file=ENV_FILE, env_file_encoding="utf-8").env_vars


def _unknown(names: Iterable[str], where: str) -> list[str]:
    known = known_names()
    problems: list[str] = []
    for name in sorted(name.upper() for name in names):
        if not name.startswith(PREFIX) or name in known or name in _ELSEWHERE or name.startswith(_FOREIGN_PREFIXES):
            continue
        problems.append(f"{name} in {where} is no setting of Jobyard{_nearest(name, known)}")
    return problems


def _unknown_in_toml() -> list[str]:
    try:
        content = tomllib.loads(Path(TOML_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongSettings(f"{TOML_FILE} can't be read: {error}") from None
    known = [name.removeprefix(PREFIX).lower() for name in known_names()]
    return [f"{key} in {TOML_FILE} is no setting of Jobyard{_nearest(key, known)}" for key in sorted(content) if key not in known]


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else "; remove it (`jobyard config show` lists all)"


def _missing(field: str, example: str) -> str:
    return f"{PREFIX}{field.upper()} is not set: {example} (`jobyard dev env` prints it for the embedded services)"


def _mistakes(error: ValidationError) -> list[str]:
    said: list[str] = []
    for mistake in error.errors(include_url=False, include_input=False):
        place = mistake["loc"]
        text = mistake["msg"].removeprefix("Value error, ")
        if not place:
            said.append(f"settings do not fit together: {text}")
            continue
        if place == ("kafka_options",):
            said.append(_NO_OBJECT)
            continue
        inside = "".join(f"[{part}]" for part in place[1:])
        name = PREFIX + str(place[0]).upper() + inside
        said.append(f"{name}{_shown(str(place[0]))}: {text[:1].lower()}{text[1:]}")
    return said


def _shown(field: str) -> str:
    """The wrong value, where the environment has it and it is no secret."""
    value = os.environ.get(PREFIX + field.upper())
    return "" if value is None or field in ("database_url", "kafka_options") else f"={value!r}"


def _unreadable(error: SettingsError) -> str:
    text = str(error)
    return _NO_OBJECT if "kafka_options" in text else text
