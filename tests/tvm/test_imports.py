"""The command of docs/from-tvm.md that changes the imports of a script."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "from-tvm.md"


@pytest.mark.parametrize(
    ("was", "names"),
    [
        ("import tvm", "tvm"),
        ("import tvm  # the compiler", "tvm"),
        ("import tvm as t", "t"),
        ("import tvm.testing", "tvm"),
        ("import tvm.te as te", "te"),
        ("import tvm.topi.nn as nn", "nn"),
        ("import tvm, numpy as np", "tvm np"),
        ("import tvm.testing, numpy as np, os", "tvm np os"),
        ("from tvm import te, tir", "te tir"),
        ("from tvm.autotvm.tuner import XGBTuner", "XGBTuner"),
        ("import tvmlike_name_that_is_another", ""),
    ],
)
def test_the_command_changes_an_import_and_keeps_its_names(was: str, names: str, tmp_path: Path) -> None:
    (command,) = re.findall(r"^sed -\S*i.*?script\.py$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    script = tmp_path / "script.py"
    script.write_text(f"{was}\n")
    subprocess.run(shlex.split(command.replace("script.py", str(script))), check=True)
    changed = script.read_text()
    if not names:
        assert changed == f"{was}\n"
        return
    scope: dict[str, object] = {}
    exec(changed, scope)
    assert set(names.split()) <= scope.keys()
