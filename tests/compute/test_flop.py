"""The amount of arithmetic of a computation, from which GFLOP/s are counted."""

from __future__ import annotations

from typing import Any

import pytest

from pegbox import te
from pegbox.compute.flop import count_flop, slow_operations
from pegbox.compute.tensor import Tensor


@pytest.fixture
def x() -> Tensor:
    return te.placeholder((4, 6), name="X")


def elementwise(x: Tensor, element: Any) -> float:
    return count_flop([te.compute((4, 6), lambda i, j: element(x[i, j], i, j), "Y")])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32"])
def test_a_matmul_is_two_for_each_product(dtype: str) -> None:
    a, b = te.placeholder((3, 5), dtype, "A"), te.placeholder((5, 7), dtype, "B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((3, 7), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    assert count_flop([c]) == 2 * 3 * 5 * 7


def test_elementwise_operations_count_one_each(x: Tensor) -> None:
    assert elementwise(x, lambda v, i, j: v) == 0
    assert elementwise(x, lambda v, i, j: v + 1) == 24
    assert elementwise(x, lambda v, i, j: te.maximum(v * 2, 0) / 3) == 3 * 24
    assert elementwise(x, lambda v, i, j: te.exp(v) + te.sqrt(te.abs(v))) == 4 * 24
    assert elementwise(x, lambda v, i, j: te.exp(te.nonpositive(v))) == 24  # it computes nothing


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("divide", [te.floordiv, te.floormod, te.div, te.truncdiv, te.truncmod, te.ceildiv])
@pytest.mark.parametrize("by", ["element", "number"])
def test_an_integer_division_counts_one_however_it_rounds(dtype: str, divide: Any, by: str) -> None:
    a, b = te.placeholder((4,), dtype, "A"), te.placeholder((4,), dtype, "B")
    divisor = (lambda i: b[i]) if by == "element" else (lambda i: 3)
    once = te.compute((4,), lambda i: divide(a[i], divisor(i)), "once")
    twice = te.compute((4,), lambda i: divide(divide(a[i], divisor(i)), b[i] + 1), "twice")
    assert (count_flop([once]), count_flop([twice])) == (4, 4 * 3)


def test_index_arithmetic_is_free(x: Tensor) -> None:
    assert elementwise(x, lambda v, i, j: x[(i * 2 + 1) % 4, (j + 3) // 2]) == 0
    assert elementwise(x, lambda v, i, j: te.if_then_else(i * 2 + j > 5, v, 0)) == 0


def test_index_arithmetic_on_loaded_indices_counts_nothing_either() -> None:
    table, where = te.placeholder((9,), name="table"), te.placeholder((4,), "int64", "where")
    picked = te.compute((4,), lambda i: table[where[i] * 2 + 1], "picked")
    assert count_flop([picked]) == 0


def test_comparisons_of_values_count_one_and_casts_nothing(x: Tensor) -> None:
    assert elementwise(x, lambda v, i, j: te.if_then_else(v > 0, v, 0.0)) == 24
    assert elementwise(x, lambda v, i, j: te.cast("int32", te.select(te.all(v > 0, v < 5), v, -1.0))) == 2 * 24


def test_a_max_counts_its_comparisons(x: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    assert count_flop([te.compute((4,), lambda i: te.max(x[i, k], axis=k), "Y")]) == 24


def test_a_user_made_reducer_counts_what_it_combines(x: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    squares = te.comm_reducer(lambda p, q: p + q * q, lambda t: te.const(0, t))
    assert count_flop([te.compute((4,), lambda i: squares(x[i, k] * 3, axis=k), "Y")]) == 3 * 24


def test_a_reducer_of_pairs_counts_both(x: Tensor) -> None:
    k = te.reduce_axis((0, 6), "k")
    argmax = te.comm_reducer(
        lambda p, q: (te.select(q[1] > p[1], q[0], p[0]), te.maximum(p[1], q[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
    )
    where, value = te.compute((4,), lambda i: argmax((te.cast("int32", k), x[i, k]), axis=k), "best")
    assert count_flop([where, value]) == 2 * 24  # a comparison and a maximum


def test_stages_add_up_and_count_once(x: Tensor) -> None:
    y = te.compute((4, 6), lambda i, j: x[i, j] + 1, "Y")
    z = te.compute((4, 6), lambda i, j: y[i, j] * y[i, 5 - j], "Z")
    assert count_flop([z]) == 48
    assert count_flop([y, z]) == 48


def test_several_outputs_of_one_operation_count_each(x: Tensor) -> None:
    low, high = te.compute((4, 6), lambda i, j: (x[i, j] - 1, x[i, j] * 2 + 1), "both")
    assert count_flop([low]) == count_flop([low, high]) == 3 * 24


def test_int64_values_count_although_indices_do_not() -> None:
    a, b = te.placeholder((3, 5), "int64", "A"), te.placeholder((5, 7), "int64", "B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((3, 7), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    assert count_flop([c]) == 2 * 3 * 5 * 7


def test_slow_operations_are_named_where_they_are_not_few() -> None:
    x = te.placeholder((8, 64), name="X")
    j, k = te.reduce_axis((0, 64), "j"), te.reduce_axis((0, 64), "k")
    high = te.compute((8,), lambda i: te.max(x[i, j], axis=j), "high")
    e = te.compute((8, 64), lambda i, j: te.exp(x[i, j] - high[i]), "e")
    total = te.compute((8,), lambda i: te.sum(e[i, k], axis=k), "total")
    softmax = te.compute((8, 64), lambda i, j: e[i, j] / total[i], "softmax")
    assert set(slow_operations([softmax])) == {"exp", "division"}
    assert slow_operations([high]) == ()
    product = te.compute((8, 8), lambda i, j: te.sum(x[i, k] * x[j, k], axis=k), "product")
    assert slow_operations([te.compute((8, 8), lambda i, j: te.tanh(product[i, j]), "few")]) == ()
