"""`jobyard config`: the settings that are in force."""

import os
from typing import Final

import typer
from pydantic import SecretStr

from jobyard.cli import output
from jobyard.cli.output import AsJson
from jobyard.process.logs import HIDDEN, is_secret

app = typer.Typer(no_args_is_help=True, help="The settings that are in force.")

_COLUMNS: Final = ("name", "value", "from", "means")
CACHE_DIR: Final = "JOBYARD_CACHE_DIR"


@app.callback()
def noun() -> None:
    """A group, though it has one verb."""


@app.command()
def show(as_json: AsJson = False) -> None:
    """Show every setting of every process with its effective value, and where that comes from; secrets are hidden. Needs no service.

    Example: jobyard config show --json
    """
    from jobyard.embedded.jars import default_cache
    from jobyard.settings import PREFIX, AgentSettings, CliSettings, origin, read

    rows: dict[str, dict[str, object]] = {}
    for settings in (read(CliSettings), read(AgentSettings)):
        for field, about in type(settings).model_fields.items():
            name = PREFIX + field.upper()
            value: object = getattr(settings, field)
            rows.setdefault(name, {"name": name, "value": hidden(field, value), "from": origin(field), "means": about.description})
    cache = "environment" if os.environ.get(CACHE_DIR) else "default"
    rows[CACHE_DIR] = {"name": CACHE_DIR, "value": str(default_cache()), "from": cache, "means": "where `jobyard dev` keeps Kafka's jars"}
    output.many(rows.values(), as_json, _COLUMNS, "")


def hidden(name: str, value: object) -> object:
    """The value without what nobody may see: passwords in addresses, secret librdkafka options."""
    from jobyard.client.address import shown

    if isinstance(value, SecretStr):
        return shown(value.get_secret_value())
    if isinstance(value, dict):
        options: dict[object, object] = dict(value)  # pyright: ignore[reportUnknownArgumentType] - of settings: JSON objects
        return {str(option): HIDDEN if is_secret(str(option)) else inner for option, inner in options.items()}
    return HIDDEN if value is not None and is_secret(name) else value
