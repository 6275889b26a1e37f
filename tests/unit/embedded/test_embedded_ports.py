import json
from pathlib import Path

import pytest

from jobyard.contracts.errors import ConfigurationError
from jobyard.embedded.ports import NAMES, Ports

GOOD = {"postgres": 15001, "kafka": 15002, "kafka_controller": 15003}


def test_remembered_ports_are_used_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    file.write_text(json.dumps(GOOD))
    ports = Ports.choose(file)
    assert {name: ports[name] for name in NAMES} == GOOD


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps(GOOD | {"kafka": "15002"}), json.dumps(GOOD | {"kafka": 0}), json.dumps(GOOD | {"kafka": 70000})]
)
def test_a_file_with_anything_else_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "ports.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"ports\.json does not hold three port numbers .* delete it"):
        Ports.read(file)
