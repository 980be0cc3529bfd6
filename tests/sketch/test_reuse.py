"""Reuse of data in products of a tensor with itself, which pegbox's own rules tile and Ansor's do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.plugins.sketch.analysis import needs_multi_level_tiling
from pegbox.plugins.sketch.generator import generate_sketches
from pegbox.task.workload import Workload

TILED = ["tile", "cache+fuse(1)", "cache+fuse(2)"]


def square() -> list[te.Tensor]:
    A, k = te.placeholder((12, 12), name="A"), te.reduce_axis((0, 12), name="k")
    return [A, te.compute((12, 12), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")]


def gram() -> list[te.Tensor]:
    A, k = te.placeholder((12, 8), name="A"), te.reduce_axis((0, 8), name="k")
    return [A, te.compute((12, 12), lambda i, j: te.sum(A[i, k] * A[j, k], axis=k), name="C")]


def autocorrelation() -> list[te.Tensor]:
    image = te.placeholder((9, 10), name="image")
    y, x = te.reduce_axis((0, 6), name="y"), te.reduce_axis((0, 6), name="x")
    return [image, te.compute((4, 5), lambda i, j: te.sum(image[y, x] * image[y + i, x + j], axis=[y, x]), name="C")]


def moving_mean() -> list[te.Tensor]:
    """Reads a tensor three times, and shares nothing."""
    A = te.placeholder((14,), name="A")
    return [A, te.compute((12,), lambda i: A[i] + A[i + 1] + A[i + 2], name="C")]


def squared_column() -> list[te.Tensor]:
    """Two times the same access, without a reduction: one input that is shared."""
    A = te.placeholder((12,), name="A")
    return [A, te.compute((12, 12), lambda i, j: A[i] * A[i], name="C")]


def by_numpy(graph: Callable[[], list[te.Tensor]], a: np.ndarray) -> np.ndarray:
    if graph is autocorrelation:
        return np.array([[(a[:6, :6] * a[i : i + 6, j : j + 6]).sum() for j in range(5)] for i in range(4)])
    return a @ (a if graph is square else a.T)


@pytest.mark.parametrize("graph", [square, gram, autocorrelation])
def test_a_product_of_a_tensor_with_itself_is_tiled(graph: Callable[[], list[te.Tensor]]) -> None:
    target = "llvm -mcpu=x86-64-v4 -num-cores 1"  # rows of 8 fill narrower vectors, which sum along them
    assert set(TILED) <= {s.name for s in generate_sketches(graph(), target)}
    assert not {s.name for s in generate_sketches(graph(), target, "ansor")} & set(TILED)
    assert needs_multi_level_tiling(graph()[-1].op, by_access=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("graph", [moving_mean, squared_column])
def test_reading_a_tensor_often_is_no_reuse(graph: Callable[[], list[te.Tensor]]) -> None:
    assert [s.name for s in generate_sketches(graph(), "llvm -num-cores 1")] == ["plain"]


@pytest.mark.parametrize("graph", [square, gram, autocorrelation])
@pytest.mark.parametrize("cores", [1, 4])
def test_its_values_are_those_of_numpy(graph: Callable[[], list[te.Tensor]], cores: int) -> None:
    task = pb.create_task(Workload(graph.__name__, graph), space="sketch", target=f"llvm -num-cores {cores}")
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, task.tensors[0].shape).astype("float32")
    for row in task.space.sample(4, rng):
        out = np.full(task.tensors[-1].shape, 7, "float32")
        pb.build(task, config=task.space.config(row))(a, out)
        np.testing.assert_array_equal(out, by_numpy(graph, a), err_msg=str(task.space.config(row)))
