"""Modules that are slow to load are loaded when they are first needed, and not before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HEAVY = ("xgboost", "llvmlite", "scipy", "rich", "ml_dtypes", "matplotlib")
LIGHT = (
    "import pegbox",
    "for name in pegbox.__all__: getattr(pegbox, name)",
    "import pegbox.api, pegbox.te, pegbox.tir",
    "from pegbox.hooks import registry; registry.names('tuner')",
    "from pegbox.plugins import tvm; tvm.build, tvm.nd.array, tvm.te, tvm.tir, tvm.testing, tvm.transform, tvm.target",
    "from pegbox.plugins.tvm import autotvm; [getattr(autotvm, name) for name in autotvm._HOME]",
    "from pegbox.plugins.cli import main; assert main(['--help']) == 0",
    "assert main(['templates']) == 0",
)


def heavy_modules_after(statements: Sequence[str], where: Path) -> list[str]:
    """Return the modules that are loaded after each statement; all run in one process."""
    look = f"\nprint('left:', *[name for name in {HEAVY!r} if name in sys.modules])\n"
    program = "import sys\n" + "".join(statement + look for statement in statements)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=where, check=True)
    return [line for line in ran.stdout.splitlines() if line.startswith("left:")]


def test_the_check_itself_sees_a_heavy_module(tmp_path: Path) -> None:
    assert heavy_modules_after(["import json", "import rich"], tmp_path) == ["left:", "left: rich"]


def test_loads_nothing_heavy(tmp_path: Path) -> None:
    found = dict(zip(LIGHT, heavy_modules_after(LIGHT, tmp_path), strict=True))
    assert found == dict.fromkeys(LIGHT, "left:")


def test_listing_the_commands_loads_no_schedules(tmp_path: Path) -> None:
    program = """
import sys
from pegbox.plugins.cli import main
assert main(["--help"]) == main(["plugins"]) == 0
print("pegbox.schedule" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ran.stdout.splitlines()[-1] == "False"


def test_importing_pegbox_loads_no_plugin(tmp_path: Path) -> None:
    program = "import pegbox, sys; print([name for name in sys.modules if name.endswith('.plugin')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_process_that_compiles_loads_no_numpy_and_no_plugins(tmp_path: Path) -> None:
    names = ("llvmlite", "numpy", "pluggy", "pegbox.workers.process", "pegbox.schedule", "pegbox.codegen.emitter.emit")
    program = f"""
import sys
from pegbox.measure.jobs import build_job
from pegbox.workers import serve
build_job.warm_up()
print(*[name for name in {names!r} if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ran.stdout.split() == ["llvmlite"]


def test_dir_shows_what_is_public() -> None:
    import pegbox.codegen  # a module of the package that was imported is not part of its surface

    assert set(dir(pegbox)) == {"__version__", *pegbox.__all__}
