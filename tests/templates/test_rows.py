"""Computations by rows: the space generator, and the templates of softmax and normalizations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.codegen import assembly
from pegbox.codegen.targets.target import target_of
from pegbox.errors import TemplateError
from pegbox.graph import Value, make_node, pointwise_node
from pegbox.model.node_task import implementations_of
from pegbox.templates.row_stages import rows_of
from pegbox.templates.rows import RowGenerator

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"
AVX2 = pytest.param(
    TARGET, marks=pytest.mark.skipif(not llvm.get_host_cpu_features().get("avx2"), reason="no AVX2 here")
)
EPSILON = 1e-5
Array = np.ndarray[Any, Any]


def reference(name: str, x: Array, *more: Array) -> Array:
    x, (gamma, beta) = x.astype("float64"), (*(each.astype("float64") for each in more), 0.0, 0.0)[:2]
    low = x - x.max(1, keepdims=True)
    mean = x.mean(1, keepdims=True)
    made: Array
    match name:
        case "softmax":
            made = np.exp(low) / np.exp(low).sum(1, keepdims=True)
        case "log_softmax":
            made = low - np.log(np.exp(low).sum(1, keepdims=True))
        case "layer_norm":
            made = (x - mean) / np.sqrt(x.var(1, keepdims=True) + EPSILON) * gamma + beta
        case _:
            made = x / np.sqrt((x * x).mean(1, keepdims=True) + EPSILON) * gamma
    return made


@pytest.mark.parametrize(("dtype", "error"), [("float32", 2e-6), ("float64", 1e-13), ("float16", 5e-3)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_values_are_numpys(name: str, dtype: str, error: float) -> None:
    task = pb.create_task(name, args=(5, 37), kwargs={"dtype": dtype})
    rng = np.random.default_rng(0)
    *inputs, out = (rng.standard_normal(spec.shape).astype(dtype) for spec in task.arguments())
    for number in range(0, task.space.size, 4):
        out[:] = 0
        pb.build(task, config=task.space.get(number))(*inputs, out)
        np.testing.assert_allclose(out.astype("float64"), reference(name, *inputs), atol=error)


@pytest.mark.parametrize("target", ["llvm", AVX2])
def test_softmax_of_infinite_differences_and_of_nan(target: str) -> None:
    x = np.array(
        [[0, -np.inf, 1, 2, 0], [1e4, -1e4, 0, 0, 0], [-104, -89, 0, -88, -87], [np.nan, 0, 0, 0, 0]], "float32"
    )
    found = np.empty_like(x)
    pb.build(pb.create_task("softmax", args=x.shape, target=target))(x, found)
    np.testing.assert_allclose(found[:3], reference("softmax", x[:3]), rtol=2e-6, atol=np.finfo("float32").tiny)
    assert found[0, 1] == 0
    assert np.isnan(found[3]).all()


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_exponents_of_a_softmax_are_known_not_to_be_positive(name: str) -> None:
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores 1"
    task = pb.create_task(name, args=(8, 64), target=target)
    text = task.lower(task.space.get(0)).ll
    assert set(re.findall(r"@pegbox\.(\w*exp\w*)\.", text)) == {"exp_decay"}


def test_the_program_of_a_softmax(golden: Callable[[object], None]) -> None:
    task = pb.create_task("softmax", args=(6, 21), target=TARGET)
    golden(task.show_ir(task.space.get(task.space.size - 1)))


@pytest.mark.optimizer
@pytest.mark.parametrize(("cpu", "register"), [("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_loops_over_rows_fill_vectors(name: str, cpu: str, register: str) -> None:
    target = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores 1"
    task = pb.create_task(name, args=(64, 1024), target=target)
    text = assembly(task.lower(task.space.get(0)))
    multiplied = [line for line in text.splitlines() if "mulps" in line or ("fmadd" in line and "ps" in line)]
    assert multiplied
    assert all(register in line for line in multiplied)
    assert "expf" not in text


@pytest.mark.parametrize(
    ("name", "columns", "loop", "of_output"),
    [
        ("softmax", 512, "j.outer_m", "j.outer_m"),
        ("softmax", 2048, "j.outer_m", "j.outer_m"),
        ("softmax", 4096, "j.outer_m", None),
        ("log_softmax", 512, "k2.outer", "k2.outer"),
        ("log_softmax", 4096, "k2.outer", "k2.outer"),
        ("layer_norm", 512, "j.outer", "k2.outer"),
        ("layer_norm", 2048, "j.outer", "j.outer"),
        ("layer_norm", 4096, "j.outer", "k1.outer"),
        ("rms_norm", 512, "j.outer", "j.outer"),
        ("rms_norm", 4096, "j.outer", "k.outer"),
    ],
)
def test_single_rows_that_the_second_cache_does_not_hold_are_prefetched(
    name: str, columns: int, loop: str, of_output: str | None
) -> None:
    """Check the loops that fetch the next row and the row of the output, unless a pass writes it early."""
    for n, is_ahead in (16, False), (2**22 // columns, True):
        task = pb.create_task(name, args=(n, columns), target=TARGET)
        shown = task.show_ir(task.space.get(0))
        assert (f"prefetch(address(X[min(i + 1, {n - 1}), {loop} * " in shown) == is_ahead
        assert (f"prefetch(address({name}[i, {of_output} * " in shown) == (is_ahead and of_output is not None)
        assert task.space.get(0)["rows"].val == 1 or not is_ahead


@pytest.mark.parametrize(
    ("name", "columns", "is_ahead"),
    [
        ("softmax", 64, True),
        ("softmax", 300, True),
        ("softmax", 511, True),
        ("log_softmax", 77, True),
        ("log_softmax", 300, True),
        ("layer_norm", 64, False),
        ("rms_norm", 197, False),
    ],
)
def test_short_rows_with_functions_are_fetched_a_block_ahead(name: str, columns: int, is_ahead: bool) -> None:
    """Check that the pass that computes functions fetches the next rows, and their lines of the output."""
    for n, is_large in (16, False), (2**22 // columns, True):
        task = pb.create_task(name, args=(n, columns), target=TARGET)
        shown = task.show_ir(task.space.get(0))
        for array in "X", name:
            ahead = re.search(rf"prefetch\(address\({array}\[[^\]]*i(\.outer)? \+ 1", shown)
            assert bool(ahead) == (is_large and is_ahead)
    for config in map(task.space.get, range(task.space.size)):
        if not is_ahead and config["rows"].val > 1:
            assert "prefetch" not in task.show_ir(config)


@pytest.mark.parametrize(
    ("columns", "is_kept"), [(60, False), (300, True), (1024, False), (4096, True), (16384, False)]
)
def test_exponentials_are_kept_in_rows_of_the_output_that_fit_the_closest_cache(columns: int, is_kept: bool) -> None:
    for cpu, kept in ("x86-64-v3", is_kept), ("x86-64-v4", is_kept or columns == 1024):
        target = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores 1"
        task = pb.create_task("softmax", args=(64, columns), target=target)
        for number in range(0, task.space.size, 4):
            assert ("power = alloc" in task.show_ir(task.space.get(number))) != kept


@pytest.mark.parametrize(("name", "columns"), [("softmax", 8192), ("log_softmax", 16384)])
def test_a_pass_of_functions_does_not_fetch_lines_that_the_closest_cache_evicts(name: str, columns: int) -> None:
    task = pb.create_task(name, args=(2048, columns), target=TARGET)
    shown = task.show_ir(task.space.get(0))
    assert "prefetch(address(X[" in shown
    assert f"prefetch(address({name}[" not in shown


@pytest.mark.parametrize(
    ("name", "columns", "is_around"),
    [("softmax", 1024, False), ("log_softmax", 2048, True), ("layer_norm", 300, False), ("rms_norm", 512, True)],
)
def test_long_rows_that_no_cache_holds_go_around_the_caches(name: str, columns: int, is_around: bool) -> None:
    for n, is_large in (2**22 // columns, False), (2**23 // columns, True):
        task = pb.create_task(name, args=(n, columns), target=TARGET)
        for config in map(task.space.get, range(task.space.size)):
            shown = task.show_ir(config)
            assert ("# pragma_nontemporal = True" in shown) == (is_large and is_around)
            assert not (is_large and is_around) or f"prefetch(address({name}" not in shown
        text = task.lower(task.space.get(0)).ll
        assert ("!nontemporal" in text) == (is_large and is_around)


GATHERING = "llvm -caches=48,1025,1 -num-cores 1"
"""Caches of a processor that writes slowly through them, the second one so small that tests fill it."""


@pytest.mark.parametrize(
    ("name", "columns", "counts"),
    [
        ("softmax", 197, [4, 8, 2]),
        ("layer_norm", 64, [4, 8, 16]),
        ("log_softmax", 17, [16]),
        ("rms_norm", 10, []),
        ("softmax", 512, []),
        ("rms_norm", 1024, []),
    ],
)
def test_short_rows_go_around_the_caches_together_where_the_second_one_is_larger(
    name: str, columns: int, counts: list[int]
) -> None:
    task = pb.create_task(name, args=(2**23 // columns, columns), target=f"{TARGET} -caches=48,2048,1")
    configs = list(map(task.space.get, range(task.space.size)))
    is_around = columns > 10
    for config in configs:
        shown = task.show_ir(config)
        assert ("# pragma_nontemporal = True" in shown) == is_around
        assert (f"{name}.local = alloc(float32[{config['rows'].val}, {columns}], local)" in shown) == bool(counts)
        is_read_ahead = re.search(r"for i\S*\.outer .*prefetch\(address\(X\[(min\()+i\.outer \+ 1", shown, re.DOTALL)
        assert bool(is_read_ahead) == ("softmax" in name and bool(counts))
    assert ("!nontemporal" in task.lower(configs[0]).ll) == is_around
    if counts:
        assert list(dict.fromkeys(config["rows"].val for config in configs)) == counts


@pytest.mark.parametrize(
    ("name", "rows", "columns", "dtype", "error"),
    [
        ("softmax", 1403, 197, "float32", 2e-6),
        ("log_softmax", 16397, 17, "float32", 2e-6),
        ("layer_norm", 2703, 100, "float32", 1e-5),
        ("rms_norm", 4101, 64, "float32", 2e-6),
        ("softmax", 1405, 100, "float64", 1e-13),
        ("layer_norm", 1402, 387, "float16", 1e-2),
    ],
)
@pytest.mark.parametrize("target", [GATHERING, pytest.param(f"{TARGET} -caches=48,1025,1", marks=AVX2.marks)])
def test_values_of_rows_that_go_around_the_caches_together(
    target: str, name: str, rows: int, columns: int, dtype: str, error: float
) -> None:
    """Check rows and elements behind the last whole block, in an output that begins anywhere in a line."""
    task = pb.create_task(name, args=(rows, columns), kwargs={"dtype": dtype}, target=target)
    rng = np.random.default_rng(0)
    *inputs, whole = (rng.standard_normal(spec.shape).astype(dtype) for spec in task.arguments())
    space = np.zeros(whole.size + 64, dtype)
    for number in 0, task.space.size - 1:
        config = task.space.get(number)
        assert f"{name}.local = alloc(" in task.show_ir(config)
        start = 16 + 3 * number % 16
        space[:] = 7
        out = space[start:][: whole.size].reshape(whole.shape)
        pb.build(task, config=config)(*inputs, out)
        np.testing.assert_allclose(out.astype("float64"), reference(name, *inputs), atol=error)
        assert (space[:start] == 7).all()
        assert (space[start + whole.size :] == 7).all()


@pytest.mark.parametrize("lead", [(29, 3, 53), (5, 2803)])
def test_values_of_short_rows_with_several_leading_axes_that_go_around_the_caches(lead: tuple[int, ...]) -> None:
    shape = (*lead, 61)
    task = pb.create_task(scaled_and_masked(*shape), space="rows", target=GATHERING)
    assert "out.local = alloc(" in task.show_ir(task.space.get(0))
    rng = np.random.default_rng(1)
    x, mask = rng.standard_normal(shape).astype("float32"), rng.standard_normal(61).astype("float32")
    found = np.empty_like(x)
    pb.build(task, config=task.space.get(0))(x, mask, found)
    given = (x * np.float32(0.5) + mask).reshape(-1, 61)
    np.testing.assert_allclose(found.reshape(given.shape), reference("softmax", given), atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_no_second_cache_holds_have_epilogues(name: str, dtype: str) -> None:
    def relu(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *i: te.maximum(x(*i), te.const(0, dtype)), name="relu")

    task = pb.create_task(name, args=(2200, 1000), kwargs={"dtype": dtype}, target=TARGET, epilogue=relu)
    for config in map(task.space.get, range(task.space.size)):
        task.lower(config)


def test_long_rows_with_a_scale_for_some_neighbours() -> None:
    x, scale = te.placeholder((3, 4096), name="X"), te.placeholder((32,), name="scale")
    k = te.reduce_axis((0, 4096), name="k")
    size = te.compute((3,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="size")
    out = te.compute((3, 4096), lambda i, j: x[i, j] * scale[j // 128] * size[i], name="out")
    task = pb.create_task([x, scale, out], space="rows", target="llvm -num-cores 1 -caches=32,32,1")
    assert "# pragma_nontemporal" in task.show_ir(task.space.get(0))
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 4096)).astype("float32"), rng.standard_normal(32).astype("float32")
    found = np.empty(3 * 4096 + 5, "float32")[5:].reshape(3, 4096)
    pb.build(task, config=task.space.get(0))(a, b, found)
    np.testing.assert_allclose(found, a * b.repeat(128) * (a * a).sum(1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "columns", "loop"),
    [("layer_norm", 1024, "j.outer"), ("layer_norm", 4096, "k2.outer"), ("layer_norm", 8192, "j.outer"),
     ("rms_norm", 4096, "j.outer")],
)  # fmt: skip
def test_the_pass_before_rows_go_around_the_caches_fetches_the_next_row(name: str, columns: int, loop: str) -> None:
    n = 2**23 // columns
    task = pb.create_task(name, args=(n, columns), target=TARGET)
    assert f"prefetch(address(X[min(i + 1, {n - 1}), {loop} * " in task.show_ir(task.space.get(0))


@pytest.mark.parametrize(
    ("name", "columns", "first"),
    [
        ("softmax", 197, (2, 4, 4)),
        ("log_softmax", 197, (2, 4, 8)),
        ("layer_norm", 197, (2, 4, 8)),
        ("layer_norm", 1024, (1, 4, 8)),
        ("softmax", 60, (8, 8, 8)),
        ("rms_norm", 8, (16, 1, 1)),
    ],
)
def test_rows_that_the_second_cache_does_not_hold_are_estimated(
    name: str, columns: int, first: tuple[int, int, int]
) -> None:
    """Check the estimates: few rows, and steps of many vectors, except where functions in long rows take turns."""
    task = pb.create_task(name, args=(2**22 // columns, columns), target=TARGET)
    assert task.prefers_first
    assert tuple(task.space.get(0)[knob].val for knob in ("rows", "reduce_vectors", "map_vectors")) == first
    assert not pb.create_task(name, args=(64, columns), target=TARGET).prefers_first


@pytest.mark.parametrize(("columns", "loop"), [(40, "j.outer"), (2000, "j.outer"), (4096, "k.outer")])
def test_a_pass_over_a_much_shorter_row_does_not_fetch_the_output(columns: int, loop: str) -> None:
    """Check the loop that fetches the output: in a short one, the lines would come in a burst."""
    x, y = te.placeholder((1024, 4096), name="X"), te.placeholder((1024, columns), name="Y")
    k = te.reduce_axis((0, columns), name="k")
    total = te.compute((1024,), lambda i: te.sum(y[i, k], axis=k), name="total")
    out = te.compute((1024, 4096), lambda i, j: x[i, j] * total[i], name="out")
    task = pb.create_task([x, y, out], space="rows", target=TARGET)
    assert f"prefetch(address(out[i, {loop} * " in task.show_ir(task.space.get(0))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((0, 4), "softmax: n=0 is not a size"),
        ((4, 2.5), r"m=2\.5 is not an integer"),
        ((4, 4, "int32"), "softmax: dtype='int32'; give a type of floats"),
        ((1 << 40, 1 << 20), r"an array of 1099511627776 × 1048576 float32 has more than 2\^47 bytes"),
    ],
)
def test_bad_arguments_are_refused(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        pb.create_task("softmax", args=args)


def scaled_and_masked(*shape: int) -> list[te.Tensor]:
    """A softmax over the last axis of x * 0.5 + mask, with axes of one element."""
    *lead, m = shape
    x, mask = te.placeholder(shape, name="x"), te.placeholder((m,), name="mask")
    k1, k2 = te.reduce_axis((0, m), name="k1"), te.reduce_axis((0, m), name="k2")
    given = te.compute(shape, lambda *i: x(*i) * 0.5 + mask[i[-1]], name="given")
    top = te.compute((*lead, 1), lambda *i: te.max(given(*i[:-1], k1), axis=k1), name="top")
    power = te.compute(shape, lambda *i: te.exp(given(*i) - top(*i[:-1], 0)), name="power")
    total = te.compute((*lead, 1), lambda *i: te.sum(power(*i[:-1], k2), axis=k2), name="total")
    return [x, mask, te.compute(shape, lambda *i: power(*i) / total(*i[:-1], 0), name="out")]


def test_stages_in_front_of_a_reduction_are_computed_where_they_are_read() -> None:
    found = rows_of(scaled_and_masked(2, 3, 5, 21))
    assert found.rank == 3
    assert [op.name for op in found.inlined] == ["given"]
    assert [op.name for op in found.stored] == ["top", "power", "total", "out"]


@pytest.mark.parametrize("shape", [(2, 3, 5, 21), (1, 7, 16), (4, 1)])
def test_values_with_several_axes_of_rows(shape: tuple[int, ...]) -> None:
    task = pb.create_task(scaled_and_masked(*shape), space="rows", target="llvm -num-cores 2")
    rng = np.random.default_rng(1)
    x, mask = rng.standard_normal(shape).astype("float32"), rng.standard_normal(shape[-1]).astype("float32")
    given = (x * np.float32(0.5) + mask).reshape(-1, shape[-1])
    for number in range(0, task.space.size, 5):
        found = np.empty_like(x)
        pb.build(task, config=task.space.get(number))(x, mask, found)
        np.testing.assert_allclose(found.reshape(given.shape), reference("softmax", given), atol=1e-6)


def _column_sums() -> list[te.Tensor]:
    x, k = te.placeholder((4, 8), name="x"), te.reduce_axis((0, 4), name="k")
    return [x, te.compute((8,), lambda j: te.sum(x[k, j], axis=k), name="sums")]


def _shifted_rows() -> list[te.Tensor]:
    x, k = te.placeholder((4, 8), name="x"), te.reduce_axis((0, 8), name="k")
    total = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="total")
    return [x, te.compute((4, 8), lambda i, j: x[i, j] * total[3 - i], name="out")]


def _overlapping_windows() -> list[te.Tensor]:
    x, k = te.placeholder((4, 8), name="x"), te.reduce_axis((0, 3), name="k")
    return [x, te.compute((4, 6), lambda i, j: te.sum(x[i, j + k], axis=k), name="sums")]


def _no_reduction() -> list[te.Tensor]:
    x = te.placeholder((4, 8), name="x")
    return [x, te.compute((4, 8), lambda i, j: x[i, j] * 2, name="out")]


def _two_outputs() -> list[te.Tensor]:
    x, k = te.placeholder((4, 8), name="x"), te.reduce_axis((0, 8), name="k")
    total = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="total")
    return [x, total, te.compute((4,), lambda i: total[i] * 2, name="twice")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_column_sums, "sums reduces no rows along their last axis"),
        (_overlapping_windows, "sums reduces no rows along their last axis"),
        (_shifted_rows, "needs several rows of a stage"),
        (_no_reduction, "nothing is reduced"),
        (_two_outputs, "total, twice is computed; give one output"),
    ],
)
def test_other_computations_are_refused(make: Callable[[], Sequence[te.Tensor]], message: str) -> None:
    with pytest.raises(TemplateError, match=f"rows: .*{message}"):
        RowGenerator()(make(), target_of(TARGET))


def test_a_node_that_reduces_rows_is_computed_by_rows() -> None:
    x = Value("x", (1, 3, 21), "float32")

    def compute(given: te.Tensor) -> list[te.Tensor]:
        k = te.reduce_axis((0, 21), name="k")
        total = te.compute((1, 3, 1), lambda a, i, _: te.sum(given[a, i, k], axis=k), name="total")
        return [te.compute((1, 3, 21), lambda a, i, j: given[a, i, j] - total[a, i, 0], name="off")]

    node = make_node("off", "Off", [x], compute)
    first, *others = implementations_of(node, {}, target_of(TARGET))
    assert first.task.name.endswith("@rows")
    assert [other.task.name.split("@")[1] for other in others] == ["sketch"]
    given = np.random.default_rng(0).standard_normal((1, 3, 21)).astype("float32")
    found = np.empty_like(given)
    pb.build(first.task, config=first.task.space.get(0))(given, found)
    np.testing.assert_allclose(found, given - given.sum(2, keepdims=True), atol=1e-5)


def test_a_pointwise_node_is_not() -> None:
    x = Value("x", (3, 21), "float32")
    node = pointwise_node("twice", "Mul", lambda e: e * 2, [x])
    assert not any(each.task.name.endswith("@rows") for each in implementations_of(node, {}, target_of(TARGET)))


def test_a_sum_for_each_of_many_rows_has_no_row_of_the_output_to_prefetch() -> None:
    x = te.placeholder((1 << 20, 512), name="X")
    k = te.reduce_axis((0, 512), name="k")
    total = te.compute((1 << 20,), lambda i: te.sum(x[i, k], axis=k), name="total")
    task = pb.create_task([x, total], space="rows", target=TARGET)
    shown = task.show_ir(task.space.get(0))
    assert "prefetch(address(X[" in shown
    assert "prefetch(address(total[" not in shown


def _weighted_powers(read: Callable[..., Any], n: int = 640) -> list[te.Tensor]:
    """exp(x) / (the sum of what is read of exp(x), times x), by rows; `at` are indices of columns."""
    x, at = te.placeholder((5, n), name="x"), te.placeholder((n,), name="at", dtype="int32")
    k = te.reduce_axis((0, n), name="k")
    power = te.compute((5, n), lambda i, j: te.exp(x[i, j]), name="power")
    twice = te.compute((5, n), lambda i, j: power[i, n - 1 - j] * 2, name="twice")
    total = te.compute((5,), lambda i: te.sum(read(power, twice, at, i, k) * x[i, k], axis=k), name="total")
    return [x, at, te.compute((5, n), lambda i, j: power[i, j] / total[i] + at[j].astype("float32"), name="out")]


@pytest.mark.parametrize(
    ("read", "reference_of"),
    [
        (lambda e, _, at, i, k: e[i, (k + 1) % 640], lambda e, at: np.roll(e, -1, 1)),
        (lambda e, _, at, i, k: e[i, at[k]], lambda e, at: e[:, at]),
        (lambda e, twice, at, i, k: e[i, k] * twice[i, k], lambda e, at: e * 2 * e[:, ::-1]),
    ],
    ids=["rotated", "gathered", "mirrored in a stage between"],
)
def test_sums_that_read_other_columns_of_a_stage_have_loops_of_their_own(
    read: Callable[..., Any], reference_of: Callable[..., Array]
) -> None:
    tensors = _weighted_powers(read)
    assert not rows_of(tensors).taken
    rng = np.random.default_rng(0)
    x, at = rng.standard_normal((5, 640)).astype("float32"), rng.integers(0, 640, 640).astype("int32")
    power = np.exp(x.astype("float64"))
    want = power / (reference_of(power, at) * x).sum(1, keepdims=True) + at
    task = pb.create_task(tensors, space="rows", target=TARGET)
    for number in range(0, task.space.size, 7):
        found = np.empty_like(x)
        pb.build(task, config=task.space.get(number))(x, at, found)
        np.testing.assert_allclose(found, want, rtol=1e-4)


def test_each_configuration_of_a_sum_that_takes_its_elements_is_another_program() -> None:
    x, k = te.placeholder((16, 640), name="x"), te.reduce_axis((0, 640), name="k")
    power = te.compute((16, 640), lambda i, j: te.exp(x[i, j]), name="power")
    total = te.compute((16,), lambda i: te.sum(power[i, k], axis=k), name="total")
    out = te.compute((16, 640), lambda i, j: power[i, j] / total[i], name="out")
    task = pb.create_task([x, out], space="rows", target=TARGET)
    assert rows_of([x, out]).taken
    programs = {task.show_ir(config) for config in task.space.iterate()}
    assert len(programs) == task.space.size > 1
