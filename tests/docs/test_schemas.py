"""The JSON Schemas in docs/schemas are those of the types. `python tests/docs/test_schemas.py` writes them anew."""

import json
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec
import pytest

from jobyard.contracts.bundle import BundleMessage
from jobyard.contracts.codec import IntakeMessage
from jobyard.contracts.control import ControlMessage
from jobyard.contracts.job import NewJob
from jobyard.contracts.reports import Reports

FOLDER: Final = Path(__file__).parents[2] / "docs" / "schemas"
REWRITE: Final = "python tests/docs/test_schemas.py"
MESSAGES: Final[dict[str, tuple[str, Any]]] = {
    "job": ("A job as JSON", NewJob),
    "intake": ("A message of an intake topic", IntakeMessage),
    "reports": ("A message of a reports topic", Reports),
    "bundle": ("A message of a buckets topic", BundleMessage),
    "control": ("A message of a control topic", ControlMessage),
}


def schema(name: str) -> str:
    """The text of one schema's file."""
    title, message = MESSAGES[name]
    plain = msgspec.to_builtins

    def default(value: object, **options: Any) -> object:
        return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else plain(value, **options)

    with patch("msgspec._json_schema.to_builtins", default):  # which can't show the default of unopened JSON
        found = msgspec.json.schema(message)
    for part in found["$defs"].values():
        if "args" in part.get("properties", {}):
            part["properties"]["args"] = {"type": "object", "default": {}}  # unopened, but always an object
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **found}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", MESSAGES)
def test_the_schema_is_that_of_the_type(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == schema(name), f"{name}.json is out of date: run `{REWRITE}`"


def test_there_is_no_other_schema() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(MESSAGES)


def test_a_job_has_every_field_that_its_schema_names_and_no_other_is_allowed() -> None:
    job = json.loads((FOLDER / "job.json").read_text(encoding="utf-8"))["$defs"]["NewJob"]
    assert list(job["properties"]) == [field.name for field in msgspec.structs.fields(NewJob)]
    assert (job["required"], job["additionalProperties"]) == (["kind"], False)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in MESSAGES:
        (FOLDER / f"{each}.json").write_text(schema(each), encoding="utf-8")
