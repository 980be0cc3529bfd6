"""AutoTVM's names don't load what only a search needs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from pegbox.plugins.tvm import autotvm, te

@autotvm.template("import/copy")
def copy(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", B.op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, B, B.op.axis[0])
    return s, [A, B]

names = [getattr(autotvm, name) for name in autotvm._HOME]
option = autotvm.measure_option(builder="local", runner="local")
print([name for name in ("llvmlite", "xgboost", "scipy", "rich") if name in sys.modules])
"""


def test_a_template_and_all_names_load_no_compiler_and_no_model() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
