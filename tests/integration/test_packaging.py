"""The package: links, bare names, and the wheel in an empty environment, run from another folder."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import jobyard

ROOT = Path(__file__).parents[2]
PARTS = ["agent", "cli", "coordinator", "master_db", "migrations"]


@pytest.mark.parametrize("part", PARTS)
def test_part_is_linked_into_the_package(part: str) -> None:
    assert (Path(jobyard.__file__).parent / part).resolve() == ROOT / part


@pytest.mark.parametrize("part", PARTS)
def test_part_is_never_loaded_under_its_bare_name(part: str) -> None:
    assert part not in sys.modules


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what git knows, so that nothing else that lies here gets in."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    archive = subprocess.run(["git", "archive", "--format=tar", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)],
        check=True,
        timeout=300,
    )
    (built,) = folder.glob("jobyard-*.whl")
    return built


@pytest.mark.timeout(300)
def test_the_wheel_holds_every_part_and_nothing_but_jobyard(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"jobyard"}
    for wanted in ("jobyard/py.typed", "jobyard/agent/main.py", "jobyard/coordinator/core/lane.py", "jobyard/cli/app.py"):
        assert wanted in names
    inside = {name for name in names if name.endswith(".sql")}
    outside = {f"jobyard/{path.relative_to(ROOT)}" for part in ("master_db", "migrations") for path in (ROOT / part).rglob("*.sql")}
    assert outside <= inside
    modules = {f"jobyard/{path.relative_to(ROOT)}" for part in PARTS for path in (ROOT / part).rglob("*.py")}
    assert modules <= set(names)


@pytest.mark.timeout(300)
def test_the_installed_wheel_runs_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True, timeout=240
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "shop.py").write_text(
        "from jobyard import App\n\napp = App()\n\n\n@app.job\ndef hello(name: str) -> str:\n    return name\n"
    )
    command = [str(tmp_path / "env" / "bin" / "jobyard")]
    checked = subprocess.run([*command, "app", "check", "shop:app"], cwd=elsewhere, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    program = (
        "import importlib, jobyard, sys\n"
        "for part in ('agent.main', 'coordinator.main', 'master_db.lane_store', 'migrations', 'cli.app'):\n"
        "    importlib.import_module('jobyard.' + part)\n"
        "from jobyard.master_db import queries\n"
        "from jobyard import migrations\n"
        "assert migrations.head()\n"
        "assert not {'agent', 'cli', 'coordinator', 'master_db', 'migrations'} & set(sys.modules)\n"
        "print(jobyard.__file__)\n"
    )
    ran = subprocess.run([str(python), "-c", program], cwd=elsewhere, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert str(tmp_path / "env") in ran.stdout
