"""Every public name of TVM 0.18 stands in docs/from-tvm.md with its state here, and the state is true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from autotvm_tasks import sample_task
from tvm_names import TVM_NAMES

from pegbox.errors import PegboxError
from pegbox.plugins import tvm
from pegbox.plugins.tvm import auto_scheduler, autotvm, te, tir
from pegbox.plugins.tvm.absence import _ABSENT, NotHere, absences

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "from-tvm.md").read_text()
STATES = ("same", "differs", "changes nothing", "other name", "refused", "not here")


class Row(NamedTuple):
    home: str
    name: str
    state: str
    remark: str


def rows() -> Iterator[Row]:
    """The rows of the page's tables, one for each name."""
    for home, names, here in re.findall(r"^\| `([\w.]+)` \| ((?:`\w+` ?)+) \| (.+) \|$", PAGE, flags=re.M):
        state = next((state for state in STATES if here.startswith(state)), "")
        for name in re.findall(r"\w+", names):
            yield Row(home, name, state, here.removeprefix(state).lstrip(":, "))


ROWS = [*rows()]


def test_every_name_of_tvm_stands_on_the_page_once() -> None:
    stated = sorted((row.home, row.name) for row in ROWS)
    assert stated == sorted((home, name) for home, names in TVM_NAMES.items() for name in names.split())
    assert all(row.state and (row.state == "same") == (not row.remark) for row in ROWS)


@pytest.mark.parametrize("home", sorted(_ABSENT))
def test_what_is_not_here_says_so_to_every_kind_of_import(home: str) -> None:
    package = ".".join(filter(None, ["pegbox.plugins.tvm", home]))
    module = import_module(package)
    has_parts = hasattr(module, "__path__")
    for name in absences(home):
        with pytest.raises(NotHere, match=re.escape(f"{name} is not here: ")):
            getattr(module, name)
        for line in (f"from {package} import {name}", *([f"import {package}.{name}"] if has_parts else [])):
            with pytest.raises(NotHere, match=re.escape(f"{name} is not here: ")):
                exec(line)


def scaled(n: int) -> list[te.Tensor]:
    X = te.placeholder((n,), name="X")
    return [X, te.compute((n,), lambda i: X[i] * 2.0, name="Y")]


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    """An object of each class of the page, by the place of the class."""
    x, y = scaled(16)
    schedule = te.create_schedule(y.op)
    task, spaces, measuring = sample_task(16), autotvm.task.space, autotvm.measure.measure
    auto_scheduler.register_workload("testing/scaled", scaled, override=True)
    search = auto_scheduler.SearchTask(func="testing/scaled", args=(16,), target="llvm")
    state = search.compute_dag.get_init_state()
    made = [
        auto_scheduler.ApplyHistoryBest([]), auto_scheduler.HardwareParams(4),
        auto_scheduler.MeasureInput(search, state),
        auto_scheduler.MeasureResult([1.0], 0, "", 1.0, 1.0), auto_scheduler.RandomModel(),
        auto_scheduler.RecordReader("none.json"), auto_scheduler.SketchPolicy(search),
        auto_scheduler.TaskScheduler([search], callbacks=[]), auto_scheduler.TuningOptions(), auto_scheduler.XGBModel(),
    ]  # fmt: skip
    entities = [
        spaces.SplitEntity([-1, 2]), spaces.ReorderEntity([0]), spaces.AnnotateEntity(["vec"]),
        spaces.OtherOptionEntity(1), spaces.FallbackConfigEntity(),
    ]  # fmt: skip
    tuners = [kind(task) for kind in (autotvm.tuner.Tuner, autotvm.tuner.GATuner, autotvm.tuner.XGBTuner)]
    return {
        "te.Tensor": y, "te.TensorSlice": te.placeholder((2, 2))[0], "te.Operation": y.op, "te.Schedule": schedule,
        "te.Stage": schedule[y], "tir.Schedule": tir.Schedule(te.create_prim_func([x, y])),
        "autotvm.task.Task": task, "autotvm.ConfigSpace": task.config_space,
        "autotvm.ConfigEntity": task.config_space.get(0), "autotvm.apply_history_best": autotvm.apply_history_best([]),
        "autotvm.FallbackContext": autotvm.FallbackContext(), "autotvm.callback.Monitor": autotvm.callback.Monitor(),
        "autotvm.measure.measure.Builder": measuring.Builder(),
        "autotvm.measure.measure.Runner": measuring.Runner(),
        "autotvm.tuner.RandomTuner": autotvm.tuner.RandomTuner(task),
        "auto_scheduler.SearchTask": search, "auto_scheduler.ComputeDAG": search.compute_dag,
        "auto_scheduler.loop_state.State": state, "auto_scheduler.loop_state.Stage": state.stages[0],
        "auto_scheduler.loop_state.Iterator": state.stages[0].iters[0],
    } | {
        f"{home}.{type(each).__name__}": each
        for home, group in [("auto_scheduler", made), ("autotvm.task.space", entities), ("autotvm.tuner", tuners)]
        for each in group
    }  # fmt: skip


def place(home: str, objects: dict[str, Any]) -> Any:
    """A module, a class without objects, or an object of a class."""
    if home in objects:
        return objects[home]
    found: Any = tvm
    for part in home.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("home", TVM_NAMES)
def test_what_the_page_says_of_a_name_is_true(home: str, objects: dict[str, Any]) -> None:
    there = place(home, objects)
    for row in ROWS:
        if row.home == home:
            CHECKS[row.state](there, row)


def check_there(there: Any, row: Row) -> None:
    value = getattr(there, row.name)
    if callable(value):
        assert not re.match(r"(Always r|R)efused", value.__doc__ or ""), f"{row} is refused"


def check_other_name(there: Any, row: Row) -> None:
    (other,) = re.findall(r"`(\w+)`", row.remark)
    assert not hasattr(there, row.name), row
    getattr(there, other)


def check_refused(there: Any, row: Row) -> None:
    value = getattr(there, row.name)
    for count in range(4):
        try:
            value.script if isinstance(value, ModuleType) else value(*[te.placeholder((4,))] * count)
        except TypeError:
            continue
        except PegboxError:
            return
    pytest.fail(f"{row} is not refused")


def check_absent(there: Any, row: Row) -> None:
    if isinstance(there, ModuleType):
        with pytest.raises(NotHere, match=re.escape(f"tvm.{row.home}.{row.name} is not here: {row.remark}")):
            getattr(there, row.name)
    else:
        with pytest.raises(AttributeError):
            getattr(there, row.name)


CHECKS = {
    "same": check_there,
    "differs": check_there,
    "changes nothing": check_there,
    "other name": check_other_name,
    "refused": check_refused,
    "not here": check_absent,
}


def test_the_error_of_an_import_says_what_to_use() -> None:
    with pytest.raises(ImportError, match=r"tvm\.autotvm\.tophub is not here: .*apply_history_best"):
        from pegbox.plugins.tvm.autotvm import tophub  # noqa: F401


def test_every_option_that_changes_nothing_stands_on_the_page() -> None:
    """The words of the calls that warn of an option."""
    common = {"rule", "with", "options", "array", "time_evaluator"}
    for path in (ROOT / "plugins" / "tvm").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "means_nothing":
                pieces = [n.value for n in ast.walk(call.args[0]) if isinstance(n, ast.Constant)]
                for word in {w for piece in pieces for w in re.findall(r"\w{4,}", str(piece))} - common:
                    assert word in PAGE, f"{path.name}: {ast.unparse(call.args[0])} is not on the page"
