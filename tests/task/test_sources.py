"""The source files of functions, whose change makes kept kernels stale."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import pegbox as pb
from pegbox.task.sources import source_files

_MAIN = """
import json
import numpy
from . import near
from .sub.far import F

def f():
    from . import late
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    files = {
        "main": _MAIN,
        "near": "import sources_single",
        "late": "",
        "unused": "",
        "sub/__init__": "",
        "sub/far": "F = 1",
        "__init__": "",
    }
    folder = tmp_path / "sources_package"
    (folder / "sub").mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (tmp_path / "sources_single.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("sources_package.main")
    importlib.import_module("sources_package.unused")
    importlib.import_module("sources_package.late")
    return module


def test_a_function_has_the_files_that_its_own_imports(package: ModuleType, tmp_path: Path) -> None:
    found = source_files(package.f)
    assert found is not None
    names = {str(Path(each).relative_to(tmp_path)) for each in found}
    inside = {"__init__.py", "main.py", "near.py", "late.py", "sub/__init__.py", "sub/far.py"}
    assert names == {"sources_single.py", *(f"sources_package/{name}" for name in inside)}


def test_pegbox_and_the_library_have_none() -> None:
    matmul = pb.create_task("matmul", (8, 8, 8), target="llvm -num-cores 1").template.function
    assert source_files(matmul, json.dumps) == []


def test_installed_packages_count_if_the_function_is_theirs(package: ModuleType) -> None:
    own = source_files(np.linalg.norm)
    assert own
    assert all("numpy" in each for each in own)
    assert not any("numpy" in each for each in source_files(package.f) or ["numpy"])


def test_what_is_in_no_file_is_unknown() -> None:
    space: dict[str, object] = {"__name__": "__console__"}
    exec("def f(): pass", space)
    assert source_files(space["f"]) is None
    space["__name__"] = __name__
    exec("def f(): pass", space)
    assert source_files(space["f"]) is None


def test_a_generated_template_has_those_of_its_workload_and_its_generator() -> None:
    task = pb.create_task("matmul", (8, 8, 8), target="llvm -num-cores 1", space="sketch")
    assert task.template.source_files == []
    mine = pb.create_task(_doubled, (8,), target="llvm -num-cores 1", space="sketch")
    assert __file__ in (mine.template.source_files or [])


def _doubled(n: int) -> list[pb.te.Tensor]:
    a = pb.te.placeholder((n,), name="A")
    return [a, pb.te.compute((n,), lambda i: a[i] * 2.0, name="B")]
