"""Programs written for TVM run as they stand, but for their imports."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from compilers import compiler

SCRIPTS = sorted((Path(__file__).parents[1] / "tvm_scripts").glob("*.py"))
COMPILED = ("tensor_expression", "tensorize")  # which the system's compiler or linker works for

CASES = [pytest.param(path, id=path.stem, marks=compiler if path.stem in COMPILED else ()) for path in SCRIPTS]


@pytest.mark.parametrize("script", CASES)
def test_script_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
