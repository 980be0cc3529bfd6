"""A call of a kernel that was kept imports neither templates nor what compiles them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.measure import Ok
from pegbox.operators import kernel_library
from pegbox.operators.call_key import CallKey
from pegbox.operators.implementation import Implementation
from pegbox.records import Record
from pegbox.task.code_fingerprint import code_fingerprint

TARGET = "llvm -num-cores 1"
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)
INPUTS = ((3, 4), "float32"), ((4, 5), "float32")
HEAVY = ("pegbox.task", "pegbox.search", "pegbox.hooks", "pegbox.compute", "pegbox.schedule", "pegbox.templates")
FOREIGN = ("llvmlite", "pluggy", "xgboost", "scipy", "platformdirs", "rich", "ml_dtypes")

PROGRAM = """
import sys
import numpy as np
import pegbox as pb
from pegbox.operators import kernel_library
product = pb.operator("matmul")
key = product._library.call_key((((3, 4), "float32"), ((4, 5), "float32")), ())
loaded = [name for name in sys.modules if name.startswith(HEAVY) or name.partition(".")[0] in FOREIGN]
print(loaded, key.function)
"""


class Keeper:
    """A store of kernels in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: dict[CallKey, Any] = {}
        monkeypatch.setattr(kernel_library, "kept_kernel", self.kept.get)
        monkeypatch.setattr(kernel_library, "keep_kernel", self.keep)

    def keep(self, key: CallKey, implementation: Implementation) -> None:
        self.kept[key] = implementation.kernel


def test_an_operator_and_the_key_of_a_call_need_few_modules() -> None:
    program = f"HEAVY, FOREIGN = {HEAVY!r}, {FOREIGN!r}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] matmul\n", "")


def test_a_kept_kernel_is_called_without_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(monkeypatch)
    pb.operator("matmul", target=TARGET)(A, B)
    (key,) = keeper.kept
    assert key == CallKey("matmul", "{}", INPUTS, key.target, "sketch")
    again = pb.operator("matmul", target=TARGET)
    monkeypatch.setattr(again._library, "task", None)
    np.testing.assert_allclose(again(A, B), A @ B)
    assert again.implementation(A, B).origin == "kept"


def test_nothing_is_kept_without_the_store_or_for_records_in_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(monkeypatch)
    pb.operator("matmul", target=TARGET, store=None)(A, B)
    product = pb.operator("matmul", target=TARGET)
    task = pb.create_task("matmul", args=(3, 4, 5), target=TARGET)
    with pb.apply_history_best([Record.of(task, task.space.get(0), Ok((1e-3,)))]):
        product(A, B)
    assert keeper.kept == {}


def test_what_was_tuned_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(monkeypatch)
    product = pb.operator("matmul", target=TARGET)
    options = {"tuner": "random", "progress": False, "measure_options": {"repeats": 1, "min_repeat_ms": 0.1}}
    product.tune(A, B, trials=1, **options)
    assert list(keeper.kept.values()) == [product.implementation(A, B).kernel]


def key_of(function: Any, **options: Any) -> CallKey:
    return pb.operator(function, **options)._library.call_key(INPUTS, ())


def test_keys_name_functions_as_other_processes_find_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import pegbox as pb\n"
        "from pegbox import te\n"
        "@pb.workload('lazy_test_copied')\n"
        "def copied(n):\n"
        "    x = te.placeholder((n,), name='X')\n"
        "    return [x, te.compute((n,), lambda i: x[i], name='Y')]\n"
        "inner = (lambda: lambda n: copied.function(n))()\n"
    )
    file = tmp_path / "lazy_test_ops.py"
    file.write_text(text)
    monkeypatch.chdir(tmp_path)
    place = f"{file}:copied"
    assert key_of("lazy_test_ops.py:copied").function == place
    scope: dict[str, Any] = {"__name__": "lazy_test_ops"}
    exec(compile(text.replace("lazy_test_copied", "lazy_test_other"), str(file), "exec"), scope)
    coded = f"{place}:{code_fingerprint(scope['copied'].function)}"
    assert key_of(scope["copied"]).function == key_of("lazy_test_other").function == coded
    assert key_of("matmul").function == key_of("matmul").function == "matmul"
    assert not key_of(scope["inner"]).can_be_kept


def test_arguments_and_spaces_are_in_the_key() -> None:
    assert key_of("conv2d", padding=(1, 2), layout="NHWC").given == '{"layout": "NHWC", "padding": [1, 2]}'
    assert key_of("softmax", space="sketch:rules=ansor").space == "sketch:rules=ansor"
    assert not key_of("softmax", space=lambda tensors, target: None).can_be_kept
    assert not key_of("matmul", dtype=object()).can_be_kept
    assert pickle.loads(pickle.dumps(key_of("matmul"))) == key_of("matmul")
