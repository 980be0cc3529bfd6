"""Names that collide, or that Python or the written code has for itself: what is written makes the same programs."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen.targets.target import Target
from pegbox.compute.tensor import PlaceholderOp, Tensor
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.plugins.cli import main
from pegbox.plugins.sketch import generate_sketches
from pegbox.plugins.sketch.generator import SketchGenerator
from pegbox.plugins.sketch.space import Sketch, SketchSpace
from pegbox.plugins.sketch.template_module import template_module
from pegbox.schedule.te.replay import replay
from pegbox.space import Config
from pegbox.task.task import Task

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 4"


def product(
    a: str = "A", b: str = "B", c: str = "C", axis: str = "k", spatial: tuple[str, str] = ("i", "j")
) -> list[Tensor]:
    """A product and what is added to it, with names of one's own."""
    left, right, bias = te.placeholder((4, 6), name=a), te.placeholder((6, 8), name=b), te.placeholder((8,), name="D")
    k = te.reduce_axis((0, 6), name=axis)
    made = te.compute((4, 8), named(lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), spatial), name=c)
    out = te.compute((4, 8), lambda i, j: te.max(made[i, j] + bias[j], float("-inf")), name="out")
    return [left, right, bias, out]


def named(function: Callable[..., Any], axes: tuple[str, ...]) -> Callable[..., Any]:
    """A function of indices that are called so."""
    scope: dict[str, Any] = {"function": function}
    exec(f"made = lambda {', '.join(axes)}: function({', '.join(axes)})", scope)
    made: Callable[..., Any] = scope["made"]
    return made


def written(tmp_path: Path, sketches: SketchSpace, name: str, given: dict[str, Any]) -> Task:
    """The task of the module that is written for a computation."""
    text = template_module(sketches, name, given)
    file = tmp_path / f"written_{len(list(tmp_path.iterdir()))}.py"
    file.write_text(text, encoding="utf-8")
    function = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)][-1]
    return pb.create_task(f"{file}:{function}", args=tuple(given.values()), target=TARGET)


def unnamed(program: Function) -> Function:
    """A program without its name."""
    return replace(program, name="kernel")


@cache
def sketched(compute: Callable[[], list[Tensor]]) -> tuple[SketchSpace, Task, list[tuple[Config, Function]]]:
    """The sketches, their task, and the programs of two configurations, which the code of these makes too."""

    def workload(**_: Any) -> list[Tensor]:
        return compute()

    task = pb.create_task(workload, space="sketch", target=TARGET)
    programs = []
    for row in task.space.sample(2, np.random.default_rng(0)):
        config = task.space.config(row)
        wanted = unnamed(task.schedule(config).func)
        scope: dict[str, Any] = {"te": te}
        exec(task.schedule_code(config), scope)
        assert unnamed(replay(scope["s"], rebuilt(scope, task), task.symbol).func) == wanted
        programs.append((config, wanted))
    return SketchGenerator()(compute(), Target(TARGET)), task, programs


def check(
    tmp_path: Path, compute: Callable[[], list[Tensor]], name: str = "kernel", given: dict[str, Any] | None = None
) -> None:
    """The module and the code of a configuration make the programs of the sketches, which lowering then cannot part."""
    sketches, task, programs = sketched(compute)
    module = written(tmp_path, sketches, name, given or {})
    assert module.space.fingerprint == task.space.fingerprint
    for config, wanted in programs:
        assert unnamed(module.schedule(module.space.from_json(config.to_json())).func) == wanted


def rebuilt(scope: dict[str, Any], task: Task) -> list[Tensor]:
    """The arguments that code has made: tensors of their names and order."""
    made = [value for value in scope.values() if isinstance(value, Tensor)]
    found = []
    for wanted in task.tensors:
        inputs = isinstance(wanted.op, PlaceholderOp)
        of_name = [t for t in made if t.name == wanted.name and isinstance(t.op, PlaceholderOp) == inputs]
        found.append(of_name[0] if inputs else of_name[-1])  # the last one of a name is what the others are for
        made = [t for t in made if t is not found[-1]]
    return found


WORDS = [
    "lambda",
    "in",
    "None",
    "te",
    "s",
    "cfg",
    "pb",
    "math",
    "float",
    "ValueError",
    "compute",
    "declare",
    "²",
    "x y",
]


@pytest.mark.parametrize(
    "word", [*WORDS, "_compute", "_declare", "_schedule_tile", "schedule_tile", "kernel", "C_i_rest"]
)
def test_a_tensor_may_have_any_name(tmp_path: Path, word: str) -> None:
    check(tmp_path, lambda: product(a=word))
    check(tmp_path, lambda: product(c=word))


@pytest.mark.parametrize("word", [*WORDS, "A", "C", "C_i", "i"])
def test_an_axis_that_is_reduced_may_have_any_name(tmp_path: Path, word: str) -> None:
    check(tmp_path, lambda: product(axis=word))


@pytest.mark.parametrize("word", ["te", "s", "cfg", "float", "A", "k", "i_rest", "C", "math"])
def test_an_axis_may_have_any_name(tmp_path: Path, word: str) -> None:
    check(tmp_path, lambda: product(spatial=(word, "j")))


@pytest.mark.parametrize("word", ['a "quote"', "it's", "two\nlines", "back\\slash", "\x85\u2028", "ﬁ"])
def test_quotes_and_line_ends_in_names_are_written_as_escapes(tmp_path: Path, word: str) -> None:
    check(tmp_path, lambda: product(a=word, c=f"{word} c", axis=word), name=word, given={"dtype": word})


def test_names_that_become_equal_stay_apart(tmp_path: Path) -> None:
    check(tmp_path, lambda: product(a="a.b", b="a_b", c="a-b", axis="a b"))


def test_the_graph_is_printed_with_names_that_stay_apart() -> None:
    A, B = te.placeholder((4,), name="a.b"), te.placeholder((4,), name="a_b")
    Y = te.compute((4,), lambda i: A[i] - B[i], name="Y")

    def difference() -> list[Tensor]:
        return [A, B, Y]

    scope: dict[str, Any] = {"te": te}
    exec(str(pb.create_task(difference, space="sketch", target=TARGET).compute_dag), scope)
    assert function_from_tensors([scope["a_b"], scope["a_b_1"], scope["Y"]]) == function_from_tensors([A, B, Y])


def test_an_input_that_nothing_reads_is_an_argument_all_the_same(tmp_path: Path) -> None:
    def compute() -> list[Tensor]:
        A, B = te.placeholder((8,), name="A"), te.placeholder((8,), name="B")
        return [A, B, te.compute((8,), lambda i: A[i] + 1, name="Y")]

    check(tmp_path, compute)


def test_a_computation_may_have_no_inputs(tmp_path: Path) -> None:
    check(tmp_path, lambda: [te.compute((8,), lambda i: te.cast("float32", i), name="Y")])


def test_inputs_and_stages_may_have_one_name(tmp_path: Path) -> None:
    def compute() -> list[Tensor]:
        A, B, k = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), name="k")
        C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
        return [A, B, te.compute((8, 8), lambda i, j: te.max(C[i, k] * A[j, k], axis=k), name="C")]

    check(tmp_path, compute)


def two_sums() -> list[Tensor]:
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((4,), lambda i: te.max(A[i, k] - B[i], axis=k), name="C")
    return [A, C]


def two_products() -> list[Tensor]:
    A, B, k = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B"), te.reduce_axis((0, 8), name="k")
    P = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="P")
    Q = te.compute((8, 8), lambda i, j: te.sum(P[i, k] * B[k, j], axis=k), name="Q")
    return [A, B, Q]


@pytest.mark.parametrize("compute", [two_sums, two_products])
def test_two_computations_may_share_an_axis_that_is_reduced(
    tmp_path: Path, compute: Callable[[], list[Tensor]]
) -> None:
    check(tmp_path, compute)


def test_the_code_of_one_level_of_tiles_binds_its_loop() -> None:
    def workload() -> list[Tensor]:
        return product()

    task = pb.create_task(workload, space=SketchGenerator(rules="ansor", structure="SSRS"), target=TARGET)
    for row in task.space.sample(4, np.random.default_rng(0)):
        config = task.space.config(row)
        scope: dict[str, Any] = {"te": te}
        exec(task.schedule_code(config), scope)
        made = lower_function(replay(scope["s"], rebuilt(scope, task), task.symbol).func)
        assert unnamed(made) == unnamed(task.lowered(config))


def test_two_sketches_have_functions_of_their_own() -> None:
    sketch = generate_sketches([te.compute((8,), lambda i: te.cast("float32", i), name="Y")], TARGET)[0]

    def another(name: str) -> Sketch:
        return Sketch(name, sketch.arguments, sketch.tensors, sketch.knobs, sketch.limits, sketch.steps)

    text = template_module(SketchSpace([another("a-b"), another("a_b")]), "kernel", {})
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert len(set(names)) == len(names) == 6


@pytest.mark.parametrize("name", [*WORDS, "_compute", "_schedule_tile", '"""', "\\", "two\nlines"])
def test_a_workload_and_its_arguments_may_have_any_name(tmp_path: Path, name: str) -> None:
    check(tmp_path, product, name=name)
    if name.isidentifier():
        check(tmp_path, product, given={name: 4, "list": [1, 2], "te_1": "x"})


def test_a_module_imports_nothing_that_it_does_not_use() -> None:
    sketches = generate_sketches([te.compute((8,), lambda i: te.cast("float32", i), name="Y")], TARGET)
    text = template_module(SketchSpace(sketches[:1]), "kernel", {})
    assert "import math" not in text


@pytest.mark.parametrize(
    ("signature", "named"),
    [("*sizes", "sizes"), ("n=8, **more", "more"), ("n=8, kind=object()", "kind"), ("n=8, most=float('inf')", "most")],
)
def test_parameters_that_a_module_cannot_have_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], signature: str, named: str
) -> None:
    file, out = tmp_path / "ops.py", tmp_path / "written.py"
    file.write_text(
        f"from pegbox import te\n\ndef ones({signature}):\n    return [te.compute((8,), lambda i: 1.0, name='Y')]\n"
    )
    assert main(["sketch", f"{file}:ones", "--out", str(out)]) != 0
    assert named in capsys.readouterr().err
    assert not out.exists()


def test_the_command_says_how_the_template_is_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "ops.py", tmp_path / "written.py"
    file.write_text(
        "from pegbox import te\n\ndef te_():\n    return [te.compute((8,), lambda i: 1.0, name='Y')]\n"
        "te_.__name__ = 'te'\n"
    )
    assert main(["sketch", f"{file}:te_", "--out", str(out)]) == 0
    assert f"pegbox tune {out}:te_1" in capsys.readouterr().out
    assert pb.create_task(f"{out}:te_1", target=TARGET).space.size > 0
