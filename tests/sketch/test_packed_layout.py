"""Operands that are packed ahead of time: their layout, the kernels that take them, and what is refused."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError, TemplateError
from pegbox.loops.passes import lower_function
from pegbox.measure import Ok
from pegbox.measure.trial.check import Tolerance, difference
from pegbox.plugins.cli import main
from pegbox.plugins.sketch import SketchGenerator, generate_sketches
from pegbox.plugins.sketch.space import SketchSpace
from pegbox.plugins.sketch.template_module import template_module
from pegbox.records import Journal, Record, best
from pegbox.schedule.te.replay import replay
from pegbox.task.task import Task
from pegbox.templates import pack_weights

AVX2 = "llvm -mcpu=x86-64-v3 -num-cores 1"
HERE = "llvm -num-cores 1"
CASES = [
    ("matmul", (12, 16, 32), "B"),
    ("matmul", (37, 29, 41), "B"),  # the last panel has zeros
    ("matmul", (8, 20, 60), "A+B"),
    ("matmul", (31, 17, 13, "float64"), "B"),
    ("matmul_int8", (8, 12, 50), "B"),
    ("matmul_transposed", (9, 13, 24), "B"),
    ("matmul_bias_relu", (12, 18, 32), "B"),
    ("batch_matmul", (3, 6, 7, 40), "B"),
    ("conv2d", (1, 4, 8, 7, 20, 3, 2, 1), "W"),
    ("conv2d", (1, 8, 6, 6, 32, 3, 1, 1, 1, 4), "W"),  # in groups
    ("conv2d", (1, 8, 6, 6, 24, 1, 1, 0), "W"),
    ("conv2d_nhwc", (1, 7, 8, 4, 20, 3, 1, 1), "W"),
    ("conv2d_transposed", (1, 4, 4, 5, 20, 4, 2, 1), "W"),
    ("depthwise_conv2d", (1, 20, 8, 8, 3, 1, 1), "W"),
]


def free(name: str, args: Sequence[Any], operands: str = "B", target: str = HERE) -> Task:
    return pb.create_task(name, args=args, space=f"sketch:layout_free={operands}", target=target)


def marked(operands: Callable[[te.Tensor, te.Tensor], Any], n: int = 8, name: str = "C") -> list[te.Tensor]:
    """A product whose attribute lists operands."""
    a, b = te.placeholder((n, 16), name="A"), te.placeholder((16, 24), name="B")
    k = te.reduce_axis((0, 16), name="k")
    attrs = {"layout_free_placeholders": operands(a, b)}
    return [a, b, te.compute((n, 24), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name, attrs=attrs)]


@pb.workload("product_of_free_layout")
def product(n: int = 8) -> list[te.Tensor]:
    return marked(lambda a, b: [b], n)


def named(name: str) -> list[te.Tensor]:
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((16, 24), name=name)
    k = te.reduce_axis((0, 16), name="k")
    return [a, b, te.compute((8, 24), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def configs(task: Task, count: int) -> list[pb.Config]:
    return [task.space.config(row) for row in task.space.sample(count, np.random.default_rng(0))]


def check_numpy(task: Task, packed: Sequence[Any], wanted: np.ndarray[Any, Any], tolerance: Tolerance) -> None:
    """NumPy computes the same, and unpacks before it is timed."""
    assert task.numpy is not None
    run, (out,) = task.numpy.prepare(packed)
    out.fill(7)
    run()
    assert difference("NumPy's", out, wanted, tolerance) is None
    prepared, timed = task.numpy.text.split("def run():")
    for n, array in enumerate(task.arguments()):
        if array.name.endswith("_packed"):
            views = [line.split(" = ")[0].strip() for line in prepared.splitlines() if f"= view(t{n}," in line]
            assert views
            assert not any(re.search(rf"\b{view}\b", timed) for view in views)


@pytest.mark.parametrize(("name", "args", "operands"), CASES)
def test_kernels_of_packed_operands_compute_what_numpy_computes(
    name: str, args: tuple[object, ...], operands: str
) -> None:
    plain, task = pb.create_task(name, args=args, space="sketch", target=HERE), free(name, args, operands)
    rng = np.random.default_rng(0)
    given = {a.name: rng.integers(-4, 5, a.shape).astype(a.dtype) for a in plain.arguments() if not a.is_output}
    packed = [pack_weights(task, a, name=n) if n in operands else a for n, a in given.items()]
    (wanted,) = plain.reference(list(given.values()))
    tolerance = Tolerance.of([wanted], flop=plain.flop)
    assert difference("reference", task.reference(packed)[0], wanted, tolerance) is None
    assert (task.numpy is None) == (plain.numpy is None)
    if task.numpy is not None:
        check_numpy(task, packed, wanted, tolerance)
    for config in configs(task, 1):
        out = np.full(wanted.shape, 7, wanted.dtype)
        pb.build(task, config=config)(*packed, out)
        wrong = difference(name, out, wanted, tolerance)
        assert wrong is None, f"{config}: {wrong}"


@pytest.mark.parametrize(
    ("name", "args", "operand", "shape"),
    [
        ("matmul", (4, 32, 64), "B", (8, 32, 8)),
        ("matmul", (4, 32, 61), "B", (8, 32, 8)),
        ("matmul", (4, 32, 1000), "B", (125, 32, 8)),
        ("matmul", (4, 32, 100), "B", (5, 32, 20)),  # a panel is one of the divisors into which tiles are cut
        ("matmul", (4, 32, 5), "B", (1, 32, 5)),
        ("matmul", (16, 32, 64), "A", (2, 32, 8)),
        ("matmul", (4, 32, 64, "float64"), "B", (16, 32, 4)),
        ("batch_matmul", (3, 4, 32, 64), "B", (3, 8, 32, 8)),
        ("conv2d", (1, 4, 8, 8, 24, 3), "W", (3, 4, 3, 3, 8)),
        ("conv2d_nhwc", (1, 8, 8, 4, 24, 3), "W", (3, 3, 3, 4, 8)),
    ],
)
def test_an_operand_lies_in_panels_of_a_vector(
    name: str, args: tuple[Any, ...], operand: str, shape: tuple[int, ...]
) -> None:
    task = free(name, args, operand, AVX2)
    assert {a.name: a.shape for a in task.arguments()}[f"{operand}_packed"] == shape


def test_a_panel_holds_neighbours_and_zeros_behind_them() -> None:
    b = np.arange(3 * 19, dtype="float32").reshape(3, 19)
    packed = pack_weights(free("matmul", (2, 3, 19), "B", AVX2), b)
    assert packed.flags.c_contiguous
    np.testing.assert_array_equal(packed[0], b[:, :8])
    np.testing.assert_array_equal(packed[2], np.pad(b[:, 16:], ((0, 0), (0, 5))))


def test_the_layout_is_the_same_for_every_configuration() -> None:
    task = free("matmul", (16, 64, 100))
    for config in configs(task, 6):
        assert task.lower(config).args == task.arguments()


def test_tiles_read_panels(golden: Callable[[object], None]) -> None:
    task = pb.create_task(product, space="sketch", target=AVX2)
    tile = ["C_local_i", "sp", [-1, 1, 1, 4]], ["C_local_j", "sp", [-1, 1, 1, 8]], ["C_local_k", "sp", [-1, 4]]
    others = ["sketch", "ot", "cache+fuse(2)"], ["C_local_A_pack", "ot", "no"], ["C_local_unroll", "ot", 0]
    golden(task.show_ir(task.space.from_json({"entity": [*tile, *others]})))


def test_the_attribute_and_the_option_say_the_same() -> None:
    def plain(n: int = 8) -> list[te.Tensor]:
        return marked(lambda a, b: (), n)

    one = pb.create_task(product, space="sketch", target=HERE)
    other = pb.create_task(plain, space="sketch:layout_free=B", target=HERE)
    assert one.space.fingerprint == other.space.fingerprint
    assert str(one.compute_dag) == str(other.compute_dag)
    assert "B_packed" in str(one.compute_dag)
    assert one.flop == other.flop == 2 * 8 * 16 * 24


def test_inputs_stay_as_they_are_where_nothing_is_packed_ahead() -> None:
    task = pb.create_task(product, space="sketch:pack_ahead=no", target=HERE)
    assert [t.name for t in task.tensors] == ["A", "B", "C"]
    assert "C_B_pack" in task.space.knobs
    assert task.name == "product_of_free_layout@sketch:pack_ahead=False"
    assert task.fingerprint == pb.create_task(task.name, target=HERE).fingerprint
    with pytest.raises(ArgumentError, match="layout_free='B' with pack_ahead=False"):
        SketchGenerator(layout_free="B", pack_ahead=False)


def test_what_is_packed_ahead_is_not_copied_in_the_kernel() -> None:
    knobs = free("matmul", (8, 16, 32)).space.knobs
    assert [name for name in knobs if name.endswith("_pack")] == ["C_A_pack", "C_local_A_pack"]


def test_output_channels_as_lanes_come_out_of_the_panels() -> None:
    task = free("conv2d", (1, 4, 7, 7, 32, 3, 1, 1), "W")
    config = next(c for c in configs(task, 50) if str(c["sketch"]).startswith("lanes"))
    assert "W_packed" in task.schedule_code(config)
    assert "W_packed_lanes" not in task.schedule_code(config)


def test_the_code_of_a_configuration_makes_the_same_program() -> None:
    task = pb.create_task(product, space="sketch", target=HERE)
    for config in configs(task, 3):
        scope: dict[str, Any] = {"te": te}
        exec(task.schedule_code(config), scope)
        program = lower_function(replay(scope["s"], [scope[t.name] for t in task.tensors], task.symbol).func)
        assert str(program) == str(task.lowered(config))


@pytest.mark.parametrize("n", [32, 41])
def test_the_module_has_the_same_programs_and_packs_alike(tmp_path: Path, n: int) -> None:
    file, args = tmp_path / "written.py", ("12", "16", str(n))
    words = ["--layout-free", "B", "matmul", *args, "--target", HERE, "--out", str(file)]
    assert main(["sketch", *words]) == 0
    task = free("matmul", (12, 16, n))
    written = pb.create_task(f"{file}:matmul", args=(12, 16, n), target=HERE)
    assert written.space.fingerprint == task.space.fingerprint
    for config in configs(task, 3):
        made = written.lowered(written.space.from_json(config.to_json()))
        assert str(made).partition("\n")[2] == str(task.lowered(config)).partition("\n")[2]
    assert written.numpy is not None
    assert written.numpy == task.numpy
    pack, b = runpy.run_path(str(file))["pack_B"], np.random.default_rng(0).random((16, n), dtype="float32")
    np.testing.assert_array_equal(pack(b), pack_weights(task, b))
    with pytest.raises(ValueError, match=rf"B, float32 of shape \(16, {n}\)"):
        pack(b.T)


def test_a_module_packs_whatever_its_tensors_and_its_workload_are_called() -> None:
    (sketch, *_) = SketchGenerator(layout_free="np").sketches(named("np"), pb.Target(HERE))
    scope: dict[str, Any] = {}
    exec(template_module(SketchSpace([sketch]), "np", {}), scope)
    assert scope["pack_np"](np.ones((16, 24), "float32")).shape == sketch.layouts[0].packed_shape


def test_records_belong_to_the_layout(tmp_path: Path) -> None:
    task, file = free("matmul", (8, 16, 32)), tmp_path / "records.jsonl"
    config = configs(task, 1)[0]
    Journal(file).append(Record.of(task, config, Ok((1e-3,), 0.1, 0.0, {})))
    (record,) = Journal(file).read()
    again = pb.create_task(record.name, args=record.args, target=HERE)
    assert best([record], again) is record
    assert str(again.lowered(again.space.from_json(record.config))) == str(task.lowered(config))
    assert best([record], pb.create_task("matmul", args=(8, 16, 32), space="sketch", target=HERE)) is None


def test_a_kernel_of_packed_operands_refuses_plain_ones() -> None:
    task = pb.create_task(product, space="sketch", target=HERE)
    arrays = [np.zeros(shape, "float32") for shape in ((8, 16), (16, 24), (8, 24))]
    with pytest.raises(ArgumentError, match=r"\(B_packed\) has shape \(16, 24\).*pack_weights"):
        pb.build(task, config=configs(task, 1)[0])(*arrays)


def twice() -> list[te.Tensor]:
    """A product whose second operand is added to another tensor too."""
    *inputs, c = marked(lambda a, b: [b])
    return [*inputs, c, te.compute((16, 24), lambda i, j: inputs[1][i, j] * 2, name="D")]


def converted() -> list[te.Tensor]:
    """A product of a converted operand: another stage reads it."""
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((16, 24), name="B", dtype="int8")
    wide = te.compute((16, 24), lambda i, j: te.cast("float32", b[i, j]), name="wide", attrs={
        "layout_free_placeholders": [b]
    })  # fmt: skip
    k = te.reduce_axis((0, 16), name="k")
    return [a, b, te.compute((8, 24), lambda i, j: te.sum(a[i, k] * wide[k, j], axis=k), name="C")]


def shifted() -> list[te.Tensor]:
    """A row of sums, none of whose indices is an axis."""
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((16, 25), name="B")
    k = te.reduce_axis((0, 16), name="k")
    body = lambda i, j: te.sum(a[i, k] * b[k, j + 1], axis=k)  # noqa: E731
    return [a, b, te.compute((8, 24), body, name="C", attrs={"layout_free_placeholders": [b]})]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (twice, "the layout of B cannot be free: it is read by C, D; let one stage read it"),
        (converted, "cannot be free: wide, which reads it, is not tiled"),
        (shifted, "none of its indices in C is an axis by itself"),
        (lambda: marked(lambda a, b: ["X"]), "C: layout_free_placeholders: there is no input 'X'; the inputs are A, B"),
        (lambda: marked(lambda a, b: [te.placeholder((2,), name="Z")]), "Z is not an input of the kernel"),
        (lambda: marked(lambda a, b: b), "is not a list; give the inputs as a list"),
    ],
)
def test_operands_whose_layout_cannot_be_free_are_refused(tensors: Callable[[], list[te.Tensor]], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        generate_sketches(tensors(), HERE)


def test_an_unknown_operand_of_the_option_is_refused() -> None:
    with pytest.raises(TemplateError, match="layout_free: there is no input 'Q'; the inputs are A, B"):
        free("matmul", (4, 8, 8), "Q")
    with pytest.raises(ArgumentError, match="layout_free=3"):
        SketchGenerator(layout_free=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (("matmul", "sketch"), {}, r"no input's layout is free; .*layout_free=B"),
        (("matmul", "sketch:layout_free=B"), {"name": "A"}, "name='A'; give one of those that are packed: B"),
        (("matmul", "sketch:layout_free=A+B"), {}, "name=''; give one of those that are packed: A, B"),
        (("matmul", "sketch:layout_free=B"), {"layout": "OIHW"}, "is of convolutions"),
        (("matmul", "sketch:layout_free=B"), {"array": np.zeros((8, 4), "float32")}, r"B is float32 of shape \(4, 8\)"),
        (("matmul", "sketch:layout_free=B"), {"array": np.zeros((4, 8))}, r"got float64 of shape \(4, 8\)"),
        (("matmul", "sketch:layout_free=B"), {"array": [[1.0]]}, "got a list"),
        (("matmul", None), {"name": "B"}, "name='B' is an option of sketches"),
    ],
)
def test_what_cannot_be_packed_is_refused(task: tuple[str, Any], options: dict[str, Any], message: str) -> None:
    made = pb.create_task(task[0], args=(2, 4, 8), space=task[1], target=HERE)
    with pytest.raises(ArgumentError, match=message):
        pack_weights(made, **{"array": np.zeros((4, 8), "float32"), **options})


def test_a_generator_that_packs_nothing_says_so() -> None:
    def untouched(tensors: Sequence[te.Tensor], target: Any) -> Callable[[Any], Any]:
        return lambda cfg: (te.create_schedule(tensors[-1].op), list(tensors))

    with pytest.raises(ArgumentError, match="the space generator packs no operands ahead"):
        pack_weights(pb.create_task("matmul", args=(2, 4, 8), space=untouched), np.zeros((4, 8), "float32"))


def test_attributes_print_with_the_names_of_tensors() -> None:
    lines = str(pb.create_task(lambda cfg: (te.create_schedule(t := marked(lambda a, b: [b])), t)).compute_dag)
    assert "attrs={'layout_free_placeholders': [B]}" in lines
