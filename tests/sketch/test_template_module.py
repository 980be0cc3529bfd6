"""The texts that sketches write: a template module with the same space, and the te code of one configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import TemplateError
from pegbox.loops.nodes import Function
from pegbox.loops.passes import lower_function
from pegbox.plugins.cli import main
from pegbox.schedule.te.replay import replay
from pegbox.task.task import Task

CASES = [
    ("matmul_bias_relu", (12, 16, 32)),
    ("softmax", (6, 32)),
    ("conv2d", (1, 3, 5, 7, 4, 3, 1, 1)),
    ("norm", (4, 8)),
]


def sampled(task: Task, count: int) -> list[Any]:
    return [task.space.config(row) for row in task.space.sample(count, np.random.default_rng(0))]


def body(program: Function) -> str:
    """A program without its name."""
    return str(program).partition("\n")[2]


@pytest.mark.parametrize(("name", "args"), CASES)
@pytest.mark.parametrize("cores", [1, 4])
def test_the_module_has_the_same_space_and_the_same_programs(
    tmp_path: Path, name: str, args: tuple[int, ...], cores: int
) -> None:
    target, file = f"llvm -num-cores {cores}", tmp_path / "written.py"
    task = pb.create_task(name, args=args, space="sketch", target=target)
    words = [str(arg) for arg in args]
    assert main(["sketch", name, *words, "--target", target, "--out", str(file)]) == 0
    written = pb.create_task(f"{file}:{name}", args=args, target=target)
    assert written.space.fingerprint == task.space.fingerprint
    for config in sampled(task, 6):
        assert body(written.lowered(written.space.from_json(config.to_json()))) == body(task.lowered(config))


def test_the_module_is_for_its_shape_only(tmp_path: Path) -> None:
    file = tmp_path / "written.py"
    assert main(["sketch", "row_sum", "8", "16", "--out", str(file)]) == 0
    with pytest.raises(TemplateError, match="written for n=8, m=16, dtype=float32"):
        pb.create_task(f"{file}:row_sum", args=(8, 32))


def test_a_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "written.py"
    file.write_text("mine")
    assert main(["sketch", "row_sum", "8", "16", "--out", str(file)]) == 2
    assert file.read_text() == "mine"
    assert "--force" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "args"), CASES)
def test_the_code_of_a_configuration_makes_the_same_program(name: str, args: tuple[int, ...]) -> None:
    task = pb.create_task(name, args=args, space="sketch", target="llvm -num-cores 4")
    for config in sampled(task, 6):
        scope: dict[str, Any] = {"te": te}
        exec(task.schedule_code(config), scope)
        tensors = [scope[tensor.name] for tensor in task.tensors]
        program = lower_function(replay(scope["s"], tensors, task.symbol).func)
        assert body(program) == body(task.lowered(config))


def test_a_template_of_ones_own_has_no_such_code() -> None:
    task = pb.create_task("matmul", args=(8, 8, 8))
    with pytest.raises(TemplateError, match="was not generated"):
        task.schedule_code(task.space.get(0))


def test_the_command_lists_sketches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sketch", "matmul", "64", "64", "64", "--target", "llvm -num-cores 1"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "tile",
        "cache+fuse(1)",
        "cache+fuse(2)",
    ]


def test_arguments_may_be_lists_of_lists(tmp_path: Path) -> None:
    file, out = tmp_path / "ops.py", tmp_path / "written.py"
    file.write_text(
        "from pegbox import te\n\n"
        "def scaled(pads, shape, names=(('a',), ())):\n"
        "    A = te.placeholder(tuple(shape), name='A')\n"
        "    return [A, te.compute(tuple(shape), lambda i, j: A[i, j] * float(pads[0][1]), name='Y')]\n"
    )
    assert main(["sketch", f"{file}:scaled", "[[1,2],[3,[4]]]", "[8,4]", "--out", str(out)]) == 0
    for pads in ([[1, 2], [3, [4]]], ((1, 2), (3, (4,)))):
        assert pb.create_task(f"{out}:scaled", args=(pads, (8, 4))).workload[1]["pads"] == [[1, 2], [3, [4]]]
    pb.create_task(f"{out}:scaled")
    with pytest.raises(TemplateError, match="written for pads="):
        pb.create_task(f"{out}:scaled", args=([[1, 2], [3, [5]]], [8, 4]))


def test_a_workload_may_have_an_argument_called_self(tmp_path: Path) -> None:
    file, out = tmp_path / "ops.py", tmp_path / "written.py"
    file.write_text(
        "from pegbox import te\n\n"
        "def doubled(self, cls=3):\n"
        "    A = te.placeholder((self, cls), name='A')\n"
        "    return [A, te.compute((self, cls), lambda i, j: A[i, j] * 2.0, name='Y')]\n"
    )
    task = pb.create_task(f"{file}:doubled", kwargs={"self": 8}, space="sketch")
    assert task.tensors[0].shape == (8, 3)
    assert pb.create_task(f"{file}:doubled", args=(8,), space="sketch").workload == task.workload
    assert main(["sketch", f"{file}:doubled", "self=8", "--out", str(out)]) == 0
    assert pb.create_task(f"{out}:doubled", kwargs={"self": 8}).space.fingerprint == task.space.fingerprint
