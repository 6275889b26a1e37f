"""`jobyard config`: the settings that are in force."""

from typing import Final

import typer
from pydantic import SecretStr

from jobyard.cli import output
from jobyard.cli.output import AsJson
from jobyard.process.logs import HIDDEN, is_secret

app = typer.Typer(no_args_is_help=True, help="The settings that are in force.")

_COLUMNS: Final = ("name", "value", "means")


@app.callback()
def noun() -> None:
    """A group, though it has one verb."""


@app.command()
def show(as_json: AsJson = False) -> None:
    """Show every setting of every process with its effective value; secrets are hidden. Needs no service.

    Example: jobyard config show --json
    """
    from jobyard.settings import PREFIX, AgentSettings, CliSettings, read

    rows: dict[str, dict[str, object]] = {}
    for settings in (read(CliSettings), read(AgentSettings)):
        for name, field in type(settings).model_fields.items():
            value: object = getattr(settings, name)
            rows.setdefault(
                PREFIX + name.upper(), {"name": PREFIX + name.upper(), "value": hidden(name, value), "means": field.description}
            )
    if as_json:
        output.one({name: row["value"] for name, row in rows.items()}, as_json=True)
    else:
        output.many(rows.values(), False, _COLUMNS, "")


def hidden(name: str, value: object) -> object:
    """The value without what nobody may see: passwords in addresses, secret librdkafka options."""
    from jobyard.client.address import shown

    if isinstance(value, SecretStr):
        return shown(value.get_secret_value())
    if isinstance(value, dict):
        options: dict[object, object] = dict(value)  # pyright: ignore[reportUnknownArgumentType] - of settings: JSON objects
        return {str(option): HIDDEN if is_secret(str(option)) else inner for option, inner in options.items()}
    return HIDDEN if value is not None and is_secret(name) else value
