"""What is slow to load is loaded when it is first needed, and not before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("xgboost", "llvmlite", "scipy", "rich", "ml_dtypes", "matplotlib")


def heavy_modules_after(statement: str, where: Path) -> str:
    program = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules], sep=',')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=where, check=True)
    return ran.stdout.splitlines()[-1]


def test_the_check_itself_sees_a_heavy_module(tmp_path: Path) -> None:
    assert heavy_modules_after("import rich", tmp_path) == "rich"


@pytest.mark.parametrize(
    "statement",
    [
        "import pegbox",
        "import pegbox\nfor name in pegbox.__all__: getattr(pegbox, name)",
        "import pegbox.api, pegbox.te, pegbox.tir",
        "from pegbox.hooks import registry; registry.names('tuner')",
        "from pegbox.plugins.cli import main; assert main(['--help']) == 0",
        "from pegbox.plugins.cli import main; assert main(['templates']) == 0",
    ],
)
def test_loads_nothing_heavy(statement: str, tmp_path: Path) -> None:
    assert heavy_modules_after(statement, tmp_path) == ""


def test_importing_pegbox_loads_no_plugin(tmp_path: Path) -> None:
    program = "import pegbox, sys; print([name for name in sys.modules if name.endswith('.plugin')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_process_that_compiles_loads_no_numpy_and_no_plugins(tmp_path: Path) -> None:
    names = ("llvmlite", "numpy", "pluggy", "pegbox.schedule", "pegbox.codegen.emitter.emit")
    program = f"""
import sys
from pegbox.measure import build_job, worker
build_job.warm_up()
print(*[name for name in {names!r} if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ran.stdout.split() == ["llvmlite"]


def test_dir_shows_what_is_public() -> None:
    import pegbox.codegen  # a module of the package that was imported is not part of its surface

    assert set(dir(pegbox)) == {"__version__", *pegbox.__all__}
