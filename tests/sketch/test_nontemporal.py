"""Outputs that no cache holds go around the caches, in sketches of computations that reduce nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te

SMALL = "-caches=32,32,1"
PRAGMA = "# pragma_nontemporal = True"


def task_of(shape: tuple[int, ...], body: Callable[..., te.Expr], *more: te.Tensor, options: str = "") -> pb.Task:
    x = te.placeholder(shape, name="X")
    y = te.compute(shape, lambda *i: body(x, *i), name="Y")
    return pb.create_task([x, *more, y], space="sketch", target=f"llvm {options}")


def doubled(x: te.Tensor, *i: te.Expr) -> te.Expr:
    return x(*i) + x(*i)


@pytest.mark.parametrize("shape", [(70000,), (16384, 5), (33, 1, 2500), (7, 11, 1024), (16384,)])
@pytest.mark.parametrize("cores", [1, 2])
def test_elements_that_are_read_in_place_form_long_rows(shape: tuple[int, ...], cores: int) -> None:
    task = task_of(shape, doubled, options=f"-num-cores {cores} {SMALL}")
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = np.zeros(x.size + 5, np.float32)[5:].reshape(shape)
    for config in map(task.space.get, range(task.space.size)):
        assert PRAGMA in task.show_ir(config)
        assert "!nontemporal" in task.lower(config).ll
        pb.build(task, config=config)(x, found)
        np.testing.assert_array_equal(found, x + x)


@pytest.mark.parametrize(("columns", "is_around"), [(1000, True), (60, False)])
def test_rows_stay_where_something_else_is_read(columns: int, is_around: bool) -> None:
    bias = te.placeholder((columns,), name="B")
    rows = 40000 // columns
    task = task_of((rows, columns), lambda x, i, j: x[i, j] + bias[j], bias, options=f"-num-cores 1 {SMALL}")
    assert (PRAGMA in task.show_ir(task.space.get(0))) == is_around
    x, b = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns), np.ones(columns, np.float32)
    found: Any = np.empty_like(x)
    pb.build(task, config=task.space.get(0))(x, b, found)
    np.testing.assert_array_equal(found, x + 1)


@pytest.mark.parametrize("is_index_used", [False, True])
def test_values_of_an_index_stay_in_their_rows(is_index_used: bool) -> None:
    """Check that lanes need no divisions: the row of a place in the flat output is not a part of it."""
    scale = te.placeholder((1,), name="S")
    task = task_of(
        (4000, 37), lambda x, i, j: x[i, j] * (j if is_index_used else scale[0]), scale,
        options=f"-num-cores 1 {SMALL}",
    )  # fmt: skip
    config = task.space.get(0)
    assert (PRAGMA in task.show_ir(config)) != is_index_used
    x, two = np.arange(148000, dtype=np.float32).reshape(4000, 37), np.full(1, 2, np.float32)
    found: Any = np.empty_like(x)
    pb.build(task, config=config)(x, two, found)
    np.testing.assert_array_equal(found, x * (np.arange(37, dtype=np.float32) if is_index_used else 2))


def test_outputs_that_a_cache_holds_are_written_as_usual() -> None:
    assert PRAGMA not in (task := task_of((64, 256), doubled)).show_ir(task.space.get(0))


def test_truth_values_are_written_as_usual() -> None:
    x = te.placeholder((70, 2048), name="X")
    y = te.compute((70, 2048), lambda i, j: x[i, j] > 0, name="Y")
    assert y.dtype == "bool"
    task = pb.create_task([x, y], space="sketch", target=f"llvm -num-cores 1 {SMALL}")
    assert "outer" not in task.show_ir(task.space.get(0))


def test_sums_are_written_as_usual() -> None:
    x = te.placeholder((64, 2048), name="X")
    k = te.reduce_axis((0, 2048), name="k")
    total = te.compute((64,), lambda i: te.sum(x[i, k], axis=k), name="total")
    y = te.compute((64, 2048), lambda i, j: x[i, j] * total[i], name="Y")
    task = pb.create_task([x, y], space="sketch", target=f"llvm -num-cores 1 {SMALL}")
    assert PRAGMA not in task.show_ir(task.space.get(0))
