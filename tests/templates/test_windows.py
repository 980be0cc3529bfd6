"""Reductions of windows along the rows of an image: the space generator `windows`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.codegen.targets.target import target_of
from pegbox.compute import padded
from pegbox.errors import TemplateError
from pegbox.graph import Value, make_node
from pegbox.model.node_task import implementations_of
from pegbox.task import Task
from pegbox.templates.windows import windows_of

AVX2 = "llvm -mcpu=x86-64-v3 -num-cores 1"
AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4 -num-cores 1"
_COMBINED = {"max": (te.max, np.max, -np.inf), "min": (te.min, np.min, np.inf), "sum": (te.sum, np.sum, 0.0)}

Pair = tuple[int, int]


def pooled(
    shape: Sequence[int],
    kernel: Pair,
    stride: Pair,
    border: Pair = (0, 0),
    *,
    kind: str = "max",
    dtype: str = "float32",
    by_lines: bool = False,
) -> list[te.Tensor]:
    """Windows over the last two axes of an array with a border."""
    combine, _, edge = _COMBINED[kind]
    x = te.placeholder(tuple(shape), name="X", dtype=dtype)
    around = [0] * (len(shape) - 2) + list(border)
    source = padded(x, around, around, edge)
    *lead, rows, columns = source.shape
    counts = [(e - k) // s + 1 for e, k, s in zip((rows, columns), kernel, stride, strict=True)]
    kh, kw = (te.reduce_axis((0, k), name=name) for name, k in zip(("kh", "kw"), kernel, strict=True))
    (sy, sx) = stride
    lines = te.compute(
        (*lead, rows, counts[1]), lambda *at: combine(source(*at[:-1], at[-1] * sx + kw), axis=[kw]), name="lines"
    )

    def element_of_lines(*at: te.Expr) -> Any:
        *first, y, column = at
        return combine(lines(*first, y * sy + kh, column), axis=[kh])

    def element(*at: te.Expr) -> Any:
        *first, y, column = at
        return combine(source(*first, y * sy + kh, column * sx + kw), axis=[kh, kw])

    return [x, te.compute((*lead, *counts), element_of_lines if by_lines else element, name="Y")]


def expected(x: Any, kernel: Pair, stride: Pair, border: Pair, kind: str) -> Any:
    _, combine, edge = _COMBINED[kind]
    around = [(0, 0)] * (x.ndim - 2) + [(side, side) for side in border]
    bordered = np.pad(x, around, constant_values=edge)
    seen = np.lib.stride_tricks.sliding_window_view(bordered, kernel, axis=(-2, -1))
    return combine(seen[..., :: stride[0], :: stride[1], :, :], axis=(-2, -1))


def task_of(tensors: Sequence[te.Tensor], target: str = AVX2) -> Task:
    return pb.create_task(list(tensors), space="windows", target=target)


def image(shape: Sequence[int], dtype: str = "float32") -> Any:
    return (5 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("kind", list(_COMBINED))
@pytest.mark.parametrize("target", [AVX2, "llvm -num-cores 2"])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "border"),
    [
        ((2, 3, 21, 23), (3, 3), (2, 2), (1, 1)),
        ((1, 4, 9, 17), (2, 2), (2, 2), (0, 0)),
        ((3, 15, 40), (5, 3), (1, 1), (2, 1)),
        ((12, 35), (1, 4), (1, 3), (0, 1)),
    ],
)
def test_values_are_numpys(
    kind: str, target: str, shape: tuple[int, ...], kernel: Pair, stride: Pair, border: Pair
) -> None:
    task = task_of(pooled(shape, kernel, stride, border, kind=kind), target)
    x = image(shape)
    wanted = expected(x, kernel, stride, border, kind)
    for config in task.space.iterate():
        out = np.zeros(wanted.shape, "float32")
        pb.build(task, config=config)(x, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=30)
@given(st.data())
def test_values_of_any_windows(data: st.DataObject) -> None:
    kernel = data.draw(st.tuples(st.integers(1, 5), st.integers(2, 5)))
    stride = data.draw(st.integers(1, 4)), data.draw(st.integers(1, kernel[1]))
    border = data.draw(st.integers(0, kernel[0] - 1)), data.draw(st.integers(0, kernel[1] - 1))
    shape = (
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(kernel[0], 20)),
        data.draw(st.integers(kernel[1] + 4, 40)),
    )
    kind, dtype = data.draw(st.sampled_from(list(_COMBINED))), data.draw(st.sampled_from(["float32", "float64"]))
    by_lines = data.draw(st.booleans())
    tensors = pooled(shape, kernel, stride, border, kind=kind, dtype=dtype, by_lines=by_lines)
    task = task_of(tensors, data.draw(st.sampled_from([AVX2, "llvm -num-cores 2"])))
    config = task.space.get(data.draw(st.integers(0, task.space.size - 1)))
    x = image(shape, dtype)
    out = np.empty(tensors[-1].shape, dtype)
    pb.build(task, config=config)(x, out)
    np.testing.assert_allclose(out, expected(x, kernel, stride, border, kind), rtol=1e-5, atol=1e-5)


def test_a_window_with_nan_is_nan() -> None:
    shape, task = (4, 9, 20), task_of(pooled((4, 9, 20), (3, 3), (2, 2), (1, 1)))
    x = image(shape)
    x[np.random.default_rng(1).random(shape) < 0.1] = np.nan
    wanted = expected(x, (3, 3), (2, 2), (1, 1), "max")
    out = np.empty(wanted.shape, "float32")
    pb.build(task)(x, out)
    np.testing.assert_array_equal(out, wanted)


def test_elements_before_and_behind_are_computed_with_the_windows() -> None:
    x, b = te.placeholder((2, 12, 30), name="X"), te.placeholder((2, 5, 14), name="B")
    squares = te.compute(x.shape, lambda *at: x(*at) * x(*at), name="squares")
    kh, kw = te.reduce_axis((0, 3), name="kh"), te.reduce_axis((0, 3), name="kw")
    total = te.compute(b.shape, lambda c, i, j: te.sum(squares(c, i * 2 + kh, j * 2 + kw), axis=[kh, kw]), name="total")
    root = te.compute(b.shape, lambda *at: te.sqrt(total(*at)), name="root")
    y = te.compute(b.shape, lambda *at: root(*at) + b(*at) * total(*at), name="Y")
    given_x, given_b, out = image(x.shape), image(b.shape), np.empty(b.shape, "float32")
    pb.build(task_of([x, b, y]))(given_x, given_b, out)
    sums = expected(given_x * given_x, (3, 3), (2, 2), (0, 0), "sum")
    np.testing.assert_allclose(out, np.sqrt(sums) + given_b * sums, rtol=1e-5)


def test_the_program_of_windows(golden: Callable[[object], None]) -> None:
    task = task_of(pooled((2, 12, 40), (3, 3), (2, 2), (1, 1)))
    golden(task.show_ir(task.space.get(0)))


def test_windows_by_lines_are_those_of_one_reduction() -> None:
    shown = []
    for by_lines in (False, True):
        task = task_of(pooled((2, 12, 40), (3, 3), (2, 2), (1, 1), by_lines=by_lines))
        shown.append(task.show_ir(task.space.get(0)).split("\n", 1)[1])
    assert shown[0].replace("kh", "") == shown[1].replace("kh", "")


@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize("stride", [1, 2])
def test_no_element_is_gathered(stride: int, target: str) -> None:
    task = task_of(pooled((64, 112, 112), (3, 3), (stride, stride), (1, 1)), target)
    assert "gather" not in task.lower(task.space.get(0)).ll


def three() -> tuple[te.IterVar, te.IterVar]:
    return te.reduce_axis((0, 3), name="kh"), te.reduce_axis((0, 3), name="kw")


def _with_gaps() -> list[te.Tensor]:
    return pooled((2, 9, 9), (2, 2), (3, 3))


def _channels_last() -> list[te.Tensor]:
    x, (kh, kw) = te.placeholder((9, 9, 16), name="X"), three()
    return [x, te.compute((7, 7, 16), lambda i, j, c: te.max(x(i + kh, j + kw, c), axis=[kh, kw]), name="Y")]


def _dilated() -> list[te.Tensor]:
    x, (kh, kw) = te.placeholder((9, 9), name="X"), three()
    return [x, te.compute((7, 5), lambda i, j: te.max(x(i + kh, j + 2 * kw), axis=[kh, kw]), name="Y")]


def _with_a_condition() -> list[te.Tensor]:
    x, (kh, kw) = te.placeholder((9, 9), name="X"), three()
    return [x, te.compute((7, 7), lambda i, j: te.max(x(i + kh, j + kw), axis=[kh, kw], where=i + kh < 8), name="Y")]


def _with_weights() -> list[te.Tensor]:
    x, w, (kh, kw) = te.placeholder((9, 9), name="X"), te.placeholder((3, 3), name="W"), three()
    return [x, w, te.compute((7, 7), lambda i, j: te.sum(x(i + kh, j + kw) * w(kh, kw), axis=[kh, kw]), name="Y")]


def _of_another_reducer() -> list[te.Tensor]:
    x, (kh, kw) = te.placeholder((9, 9), name="X"), three()
    lines = te.compute((9, 7), lambda i, j: te.sum(x(i, j + kw), axis=[kw]), name="lines")
    return [x, te.compute((7, 7), lambda i, j: te.max(lines(i + kh, j), axis=[kh]), name="Y")]


def _of_columns_that_count() -> list[te.Tensor]:
    """An element counts by its column in the image, too."""
    x, (kh, kw) = te.placeholder((9, 9), name="X"), three()

    def element(i: te.Expr, j: te.Expr) -> Any:
        return te.sum(te.if_then_else(j + kw < 5, x(i + kh, j + kw), te.const(0, "float32")), axis=[kh, kw])

    return [x, te.compute((7, 7), element, name="Y")]


def _that_skip_columns() -> list[te.Tensor]:
    x, (kh, kw) = te.placeholder((9, 30), name="X"), three()
    return [x, te.compute((7, 9), lambda i, j: te.max(x(i + kh, j * 2 + kw + j // 3), axis=[kh, kw]), name="Y")]


def _of_columns_apart() -> list[te.Tensor]:
    x, (kh, kw) = te.placeholder((9, 30), name="X"), three()
    return [x, te.compute((7, 9), lambda i, j: te.max(x(i + kh, j + kw + kw // 2), axis=[kh, kw]), name="Y")]


def _of_a_users_reducer() -> list[te.Tensor]:
    x, (kh, kw) = te.placeholder((9, 9), name="X"), three()
    reduced = te.comm_reducer(lambda a, b: te.maximum(te.abs(a), te.abs(b)), lambda t: te.const(0, t), name="max")
    return [x, te.compute((7, 7), lambda i, j: reduced(x(i + kh, j + kw), axis=[kh, kw]), name="Y")]


@pytest.mark.parametrize(
    "made",
    [
        _with_gaps, _channels_last, _dilated, _with_a_condition, _with_weights, _of_another_reducer,
        _of_columns_that_count, _that_skip_columns, _of_columns_apart, _of_a_users_reducer,
    ],
)  # fmt: skip
def test_other_reductions_are_refused(made: Callable[[], list[te.Tensor]]) -> None:
    with pytest.raises(TemplateError, match=r"windows: .*use space='sketch'"):
        windows_of(made())


@pytest.mark.parametrize(("shape", "space"), [((2, 3, 9, 9), "windows"), ((9, 9, 16), "sketch")])
def test_nodes_with_channels_first_have_windows_first(shape: tuple[int, ...], space: str) -> None:
    kh, kw = three()

    def compute(x: te.Tensor) -> list[te.Tensor]:
        if space == "sketch":
            return [te.compute((7, 7, 16), lambda i, j, c: te.max(x(i + kh, j + kw, c), axis=[kh, kw]), name="Y")]
        return [te.compute((2, 3, 7, 7), lambda n, c, i, j: te.max(x(n, c, i + kh, j + kw), axis=[kh, kw]), name="Y")]

    node = make_node("node", "MaxPool", [Value("x", shape, "float32")], compute)
    names = [made.task.name.rsplit("@")[-1] for made in implementations_of(node, {}, target_of(AVX2))]
    assert names == list(dict.fromkeys([space, "sketch"]))
