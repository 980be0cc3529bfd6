"""The package list, the wheel and the guards agree with the tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
TOPS = {"core": "pegbox", "templates": "pegbox.templates", "tuners": "pegbox.tuners", "plugins": "pegbox.plugins"}

SHIPPED = "records/shipped"


def modules_in_tree() -> list[Path]:
    """Every Python file under the four top folders, relative to the root."""
    found = [path.relative_to(ROOT) for top in TOPS for path in (ROOT / top).rglob("*.py")]
    return [path for path in found if "__pycache__" not in path.parts]


def package_of(folder: Path) -> str:
    """`core/space` is `pegbox.space`."""
    return ".".join([TOPS[folder.parts[0]], *folder.parts[1:]])


def pyproject() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_package_list_names_every_folder_with_python_files() -> None:
    listed = pyproject()["tool"]["setuptools"]["packages"]
    assert len(listed) == len(set(listed))
    assert set(listed) == {package_of(path.parent) for path in modules_in_tree()}


def test_every_package_has_an_init_file() -> None:
    folders = {path.parent for path in modules_in_tree()}
    assert [folder for folder in folders if not (ROOT / folder / "__init__.py").is_file()] == []


def test_version_is_the_same_everywhere() -> None:
    import pegbox

    assert pyproject()["project"]["version"] == pegbox.__version__
    assert f"## {pegbox.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built from a copy (building leaves a folder behind) and without a network."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for top in TOPS:
        shutil.copytree(ROOT / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "core" / SHIPPED).mkdir(exist_ok=True)
    (copy / "core" / SHIPPED / "of-tests.jsonl.xz").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", out, copy], check=True, timeout=300)
    (built,) = out.glob("*.whl")
    return built


def test_wheel_holds_every_module_of_the_tree_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {f"{package_of(path.parent).replace('.', '/')}/{path.name}" for path in modules_in_tree()}
    shipped = [path.name for kind in ("*.jsonl.xz", "*.npz") for path in (ROOT / "core" / SHIPPED).glob(kind)]
    recorded = {f"pegbox/{SHIPPED}/{name}" for name in [*shipped, "of-tests.jsonl.xz"]}
    suites = {
        f"pegbox/{path.relative_to(ROOT / 'core')}"
        for kind in ("suite.json", "*.jsonl.xz")
        for path in (ROOT / "core" / "suites" / "shipped").glob(f"*/{kind}")
    }
    assert packed == expected | recorded | suites | {"pegbox/py.typed"}


def test_wheel_brings_the_license_and_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (scripts,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "pegbox = pegbox.plugins.cli:main" in archive.read(scripts).decode()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_wheel_works_when_unpacked_anywhere(wheel: Path, tmp_path: Path) -> None:
    """The unpacked wheel stands before an editable install, which then cannot fill in for it."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = (
        f"import sys; sys.path[:0] = [{str(site)!r}]; "
        "import pegbox.hooks, pegbox.plugins.cli; print(pegbox.__file__); print(pegbox.hooks.registry.names('tuner'))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    where, tuners = ran.stdout.splitlines()
    assert Path(where).is_relative_to(site)
    assert "'xgb'" in tuners


@pytest.mark.parametrize("top", TOPS)
def test_top_folder_refuses_to_be_imported_under_its_own_name(top: str) -> None:
    ran = subprocess.run([sys.executable, "-c", f"import {top}"], capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 1
    assert f"import it as {TOPS[top]!r}" in ran.stderr
