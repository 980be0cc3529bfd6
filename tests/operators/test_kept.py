"""Kernels that an earlier process compiled: used while nothing has changed that they were made of."""

from __future__ import annotations

import contextlib
import importlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox.codegen import Kernel, Target, build
from pegbox.measure import Ok
from pegbox.operators import Implementation, kept
from pegbox.operators.call_key import CallKey
from pegbox.operators.function import OperatorFunction
from pegbox.operators.kept import keep_kernel, kept_kernel
from pegbox.records import Record
from pegbox.space import Config
from pegbox.store import TuningStore
from pegbox.task.workload import template_of

pytestmark = pytest.mark.usefixtures("store")

TARGET = "llvm -num-cores 1"
MATMUL = CallKey("matmul", "{}", (((8, 8), "float32"), ((8, 16), "float32")), TARGET, "sketch")
SCALED = """
import pegbox as pb
from scale import FACTOR
from pegbox import te

def scaled(cfg, n: int):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * FACTOR, name="B")
    s = te.create_schedule(b.op)
    cfg.define_split("tile", n, num_outputs=2)
    return s, [a, b]
"""


@pytest.fixture(scope="module")
def task() -> pb.Task:
    return pb.create_task("matmul", (8, 8, 16), target=TARGET)


@pytest.fixture(scope="module")
def predicted(task: pb.Task) -> Implementation:
    config = next(task.space.iterate())
    return Implementation(build(task.lower(config)), "predicted, not tuned", task, config)


def tuned(task: pb.Task, found: Implementation) -> Implementation:
    return Implementation(found.kernel, "tuned", task, found.config)


def record(task: pb.Task, config: Config, cost: float) -> Record:
    return Record.of(task, config, Ok((cost,)))


def product(kernel: Kernel) -> bool:
    a, b = np.ones((8, 8), "float32"), np.ones((8, 16), "float32")
    c = np.zeros((8, 16), "float32")
    kernel(a, b, c)
    return bool((c == 8).all())


def test_a_kernel_is_found_again(predicted: Implementation) -> None:
    assert kept_kernel(MATMUL) is None
    keep_kernel(MATMUL, predicted)
    found = kept_kernel(MATMUL)
    assert found is not None
    assert found.args == predicted.kernel.args
    assert product(found)


@pytest.mark.parametrize(
    "other",
    [
        {"function": "batch_matmul"},
        {"given": '{"a": 1}'},
        {"inputs": MATMUL.inputs[:1]},
        {"target": "llvm -num-cores 2"},
        {"space": "other"},
        {"packed": (1,)},
        {"function": ""},
        {"given": ""},
    ],
)
def test_another_call_finds_nothing(predicted: Implementation, other: dict[str, Any]) -> None:
    keep_kernel(MATMUL, predicted)
    key = MATMUL._replace(**other)
    assert kept_kernel(key) is None
    if not key.can_be_kept:
        keep_kernel(key, predicted)
        assert kept_kernel(key) is None


def test_a_later_search_makes_it_stale(store: TuningStore, task: pb.Task, predicted: Implementation) -> None:
    keep_kernel(MATMUL, predicted)
    store.keep(record(task, task.space.get(0), 1.0))
    assert kept_kernel(MATMUL) is None
    keep_kernel(MATMUL, predicted)  # predicted before the search had ended
    assert kept_kernel(MATMUL) is None


def test_the_kernel_of_the_best_record_is_kept(store: TuningStore, task: pb.Task, predicted: Implementation) -> None:
    assert predicted.config is not None
    keep_kernel(MATMUL, tuned(task, predicted))
    assert kept_kernel(MATMUL) is None  # tuned, and not in the store: kept nowhere, or elsewhere
    store.keep(record(task, predicted.config, 1.0))
    keep_kernel(MATMUL, tuned(task, predicted))
    assert kept_kernel(MATMUL) is not None
    store.keep(record(task, predicted.config, 0.9))
    assert kept_kernel(MATMUL) is not None
    store.keep(record(task, task.space.get(predicted.config.index + 1), 0.5))
    assert kept_kernel(MATMUL) is None


def test_the_records_in_effect_come_first(task: pb.Task, predicted: Implementation) -> None:
    assert predicted.config is not None
    with pb.apply_history_best([record(task, predicted.config, 1.0)]):
        keep_kernel(MATMUL, predicted)
    assert kept_kernel(MATMUL) is None
    keep_kernel(MATMUL, predicted)
    with pb.apply_history_best([record(task, predicted.config, 1.0)]):
        assert kept_kernel(MATMUL) is None
    assert kept_kernel(MATMUL) is not None


@pytest.mark.parametrize("changed", ["_state_of_pegbox", "_state_of_llvmlite", "cpu_model", "cpu_flags"])
def test_other_software_and_other_processors_find_nothing(
    predicted: Implementation, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_kernel(MATMUL, predicted)
    monkeypatch.setattr(kept, changed, lambda: ("other",) if changed == "cpu_flags" else "other")
    kept._versions.cache_clear()
    try:
        assert kept_kernel(MATMUL) is None
    finally:
        kept._versions.cache_clear()


def test_the_place_of_pegboxs_own_needs_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.isfile", lambda path: False)  # as from a zip file
    assert OperatorFunction(template_of("matmul"), {}, Target(TARGET)).place == "matmul"


def test_the_state_of_pegbox_is_that_of_its_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "ours"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(kept, "_PACKAGES", ("ours",))
    first = kept._state_of_pegbox()
    (package / "__pycache__").mkdir()
    (package / "notes.txt").write_text("")
    assert kept._state_of_pegbox() == first
    (package / "b.py").write_text("")
    assert kept._state_of_pegbox() != first


_LOWERED = """
import sys
from pegbox.task.task import create_task
for task in create_task("softmax", args=(4, 8), space="sketch"), create_task("matmul", args=(4, 4, 4)):
    task.lower(task.space.get(0))
print(*{".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("pegbox.")})
"""


def test_the_state_of_pegbox_has_all_rooms_that_make_code() -> None:
    done = subprocess.run([sys.executable, "-c", _LOWERED], capture_output=True, text=True, check=True)
    rooms = {name for name in done.stdout.split() if hasattr(importlib.import_module(name), "__path__")}
    assert rooms - {*kept._PACKAGES} <= {"pegbox.hooks", "pegbox.plugins", "pegbox.tuners", "pegbox.workers"}


def test_the_store_turned_off_keeps_nothing(
    store: TuningStore, predicted: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEGBOX_STORE", "off")
    keep_kernel(MATMUL, predicted)
    assert kept_kernel(MATMUL) is None
    assert not store.folder.exists()


def test_a_damaged_record_is_as_good_as_none(store: TuningStore, task: pb.Task, predicted: Implementation) -> None:
    store.keep(record(task, task.space.get(0), 1.0))
    with contextlib.closing(sqlite3.connect(store.database.path, isolation_level=None)) as connection:
        connection.execute("update best set record = 'damaged'")
    keep_kernel(MATMUL, tuned(task, predicted))
    assert kept_kernel(MATMUL) is None
    keep_kernel(MATMUL, predicted)
    assert kept_kernel(MATMUL) is not None


class Written:
    """A template in a file of a user's, with a module that it imports."""

    def __init__(self, folder: Path) -> None:
        self.began = time.time()
        self.template, self.neighbour = folder / "ops_kept.py", folder / "scale.py"
        self.write(SCALED, "FACTOR = 2")
        sys.modules.pop("scale", None)
        self.task = pb.create_task(f"{self.template}:scaled", (8,), target=TARGET)
        self.key = CallKey(f"{self.template}:scaled", "{}", (((8,), "float32"),), TARGET, "sketch")
        config = self.task.space.get(0)
        kernel = build(self.task.lower(config))
        self.found = Implementation(kernel, "predicted, not tuned", self.task, config)

    def write(self, template: str, neighbour: str, *, age: float = 1e6) -> None:
        for path, text in ((self.template, template), (self.neighbour, neighbour)):
            path.write_text(text)
            then = self.began - age
            os.utime(path, (then, then))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process began after all changes of files."""
    monkeypatch.setattr(kept, "_process_began", time.time)


@pytest.fixture
def written(tmp_path: Path, later: None) -> Written:
    folder = tmp_path / "mine"
    folder.mkdir()
    return Written(folder)


def _edit(written: Written) -> None:
    written.write(SCALED.replace("num_outputs=2", "num_outputs=3"), "FACTOR = 2", age=5e5)


def _edit_neighbour(written: Written) -> None:
    written.write(SCALED, "FACTOR = 3", age=5e5)


def _remove(written: Written) -> None:
    written.neighbour.unlink()


@pytest.mark.parametrize("change", [_edit, _edit_neighbour, _remove])
def test_a_changed_file_makes_it_stale(written: Written, change: Callable[[Written], None]) -> None:
    keep_kernel(written.key, written.found)
    assert kept_kernel(written.key) is not None
    change(written)
    assert kept_kernel(written.key) is None


def test_a_file_that_was_only_touched_does_not(written: Written) -> None:
    keep_kernel(written.key, written.found)
    written.write(SCALED, "FACTOR = 2", age=4e5)
    assert kept_kernel(written.key) is not None


def test_another_content_of_the_same_size_and_time_makes_it_stale(written: Written) -> None:
    keep_kernel(written.key, written.found)
    written.write(SCALED, "FACTOR = 3", age=1e6)
    assert written.neighbour.stat().st_mtime == written.template.stat().st_mtime
    assert kept_kernel(written.key) is None


@pytest.mark.parametrize("age", [0.0, 1e6])
def test_a_file_that_changed_under_this_process_keeps_nothing(
    written: Written, age: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older file that takes its place, as by `cp -p` or `tar x`, is a change too."""
    began = time.time() - 60.0
    monkeypatch.setattr(kept, "_process_began", lambda: began)
    written.write(SCALED, "FACTOR = 2", age=age)
    keep_kernel(written.key, written.found)
    assert kept_kernel(written.key) is None


def test_a_process_that_cannot_tell_when_it_began_keeps_nothing_of_files(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_process_began", lambda: 0.0)
    keep_kernel(written.key, written.found)
    assert kept_kernel(written.key) is None


def test_code_that_calls_other_functions_is_not_kept(
    predicted: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = predicted.kernel
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "compiled", kernel.compiled._replace(externs=("f",)))
        keep_kernel(MATMUL, predicted)
    assert kept_kernel(MATMUL) is None


def test_code_that_cannot_be_loaded_is_as_good_as_none(
    store: TuningStore, predicted: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = predicted.kernel
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "compiled", kernel.compiled._replace(object_code=b"\x7fELF"))
        keep_kernel(MATMUL, predicted)
    assert kept_kernel(MATMUL) is None


TRANSPOSED = """
import numpy as np
import pegbox as pb
from pegbox import te

@pb.template("kept_test_transposed")
def transposed(cfg, n: int, k: int, m: int, layout="KM"):
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m) if layout == "KM" else (m, k), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * (b[r, j] if layout == "KM" else b[j, r]), axis=r), name="C")
    s = te.create_schedule(c.op)
    cfg.define_split("tile", s[c].op.axis[1], num_outputs=2)
    return s, [a, b, c]

@transposed.packs("B", layout="MK")
def transpose(task, array, replaced):
    return np.ascontiguousarray(array.T)
"""


def _called(name: str) -> str:
    """The origin of the kernel of a call with a packed operand, by a new operator."""
    op = pb.operator(name, target=TARGET)
    a, b = np.arange(12, dtype="float32").reshape(3, 4), np.arange(80, dtype="float32").reshape(4, 20)
    packed = op.pack(b)
    for _ in range(2):
        np.testing.assert_array_equal(op(a, packed), a @ b)
    return op.implementation(a, packed).origin


def test_kernels_of_packed_operands_are_kept_besides_those_of_arrays() -> None:
    a, b = np.ones((3, 4), "float32"), np.ones((4, 20), "float32")
    pb.operator("matmul", target=TARGET)(a, b)
    assert [_called("matmul") for _ in range(2)] == ["predicted, not tuned", "kept"]
    assert pb.operator("matmul", target=TARGET).implementation(a, b).origin == "kept"


def test_operands_that_have_no_layout_find_kept_kernels_too() -> None:
    a, b, bias = np.ones((3, 4), "float32"), np.ones((4, 20), "float32"), np.ones(20, "float32")
    for origin in ("predicted, not tuned", "kept"):
        op = pb.operator("matmul_bias_relu", target=TARGET)
        packed = op.pack(bias)
        assert op.implementation(a, b, packed).origin == origin
        np.testing.assert_array_equal(op(a, b, packed), np.full((3, 20), 5.0))


def test_a_kept_kernel_of_packed_operands_is_that_of_the_files_that_pack(tmp_path: Path, later: None) -> None:
    file = tmp_path / "ops_packed.py"
    file.write_text(TRANSPOSED)
    os.utime(file, (1e9, 1e9))
    name = f"{file}:transposed"
    assert [_called(name) for _ in range(2)] == ["predicted, not tuned", "kept"]
    file.write_text(TRANSPOSED + "\n")
    os.utime(file, (1e9 + 1, 1e9 + 1))
    assert _called(name) == "predicted, not tuned"


_CALL = """
import sys
import numpy as np, pegbox as pb
op = pb.operator("matmul", target="llvm -num-cores 1")
a = np.ones((8, 8), "float32")
assert (op(a, a) == 8).all()
slow = [name for name in sys.modules if name.partition(".")[0] in ("llvmlite", "xgboost", "scipy", "pluggy")]
own = ("pegbox.te", "pegbox.task.task", "pegbox.expr.nodes", "pegbox.templates")
slow += [name for name in sys.modules if name in (*own, "logging")]
print(op.implementation(a, a).origin, slow)
"""


def test_a_second_process_needs_neither_the_template_nor_llvm() -> None:
    printed = [
        subprocess.run([sys.executable, "-c", _CALL], capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    ]
    assert printed[0].startswith("predicted, not tuned ['")
    assert printed[1] == "kept []"
