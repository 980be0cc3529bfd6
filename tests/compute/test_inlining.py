"""Inlining of stages that are read once, and of none that would be computed again."""

from __future__ import annotations

import numpy as np
import pytest

from pegbox import te
from pegbox.compute import post_order, reference
from pegbox.compute.inlining import inlined
from pegbox.compute.permutation import permuted

X = te.placeholder((4, 6), name="X")


def stages(*outputs: te.Tensor) -> list[str]:
    return [op.name for op in post_order([tensor.op for tensor in inlined(outputs)])]


def check(*outputs: te.Tensor) -> None:
    x = np.arange(24, dtype="float32").reshape(4, 6) - 9
    for a, b in zip(*(reference.evaluate(list(each), {X: x}) for each in (outputs, inlined(outputs))), strict=True):
        np.testing.assert_array_equal(a, b)


def relu(x: te.Tensor, name: str) -> te.Tensor:
    return te.compute(x.shape, lambda *at: te.maximum(x(*at), 0.0), name=name)


def test_a_chain_becomes_one_stage() -> None:
    a = relu(X, "a")
    b = te.compute((6, 4), lambda i, j: a[j, i] + 1.0, name="b")
    c = te.compute((24,), lambda i: b[i // 4, i % 4] * 2.0, name="c")
    assert stages(c) == ["X", "c"]
    check(c)


def test_branches_that_meet_at_one_place_are_inlined() -> None:
    a = relu(X, "a")
    b, c = (te.compute((4, 6), lambda i, j, n=n: a[i, j] + n, name=name) for n, name in ((1.0, "b"), (2.0, "c")))
    d = te.compute((4, 6), lambda i, j: b[i, j] * c[i, j], name="d")
    assert stages(d) == ["X", "d"]
    check(d)


def test_what_is_read_at_two_places_stays() -> None:
    a = relu(X, "a")
    b = te.compute((4, 6), lambda i, j: a[i, j] + a[i, 5 - j], name="b")
    assert stages(b) == ["X", "a", "b"]


def test_what_a_broadcast_reads_stays() -> None:
    a = te.compute((4,), lambda i: te.exp(X[i, 0]), name="a")
    b = te.compute((4, 6), lambda i, j: a[i] + X[i, j], name="b")
    assert stages(b) == ["X", "a", "b"]


def test_reductions_and_outputs_stay_and_what_they_read_once_does_not() -> None:
    a = relu(X, "a")
    k = te.reduce_axis((0, 6), name="k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="b")
    c = te.compute((4,), lambda i: b[i] + 1.0, name="c")
    assert stages(c) == ["X", "b", "c"]
    assert stages(a, c) == ["X", "a", "b", "c"]
    check(c)
    check(a, c)


def test_expressions_do_not_grow_without_end() -> None:
    x = X
    for number in range(40):  # each stage reads the one before it twice
        x = te.compute((4, 6), lambda i, j, x=x: x[i, j] * x[i, j], name=f"s{number}")
    assert 2 < len(stages(x)) < 20


def test_a_scan_stays_as_it_is() -> None:
    total = te.cumsum(relu(X, "a"), axis=0)
    assert inlined([total]) == [total]


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_a_computation_over_other_axes_has_the_same_elements(order: tuple[int, ...]) -> None:
    b = te.placeholder((6,), name="B")
    k = te.reduce_axis((0, 2), name="k")
    a = te.compute((4, 6), lambda i, j: X[i, j] + b[j], name="a")
    c = te.compute((4, 3), lambda i, j: te.max(a[i, j * 2 + k], axis=k), name="c")
    shape = tuple(X.shape[axis] for axis in order)
    new, row = te.placeholder(shape, name="N"), te.placeholder((6, 1), name="R")
    (made,) = permuted([c], {X: (new, order), b: (row, (0, None))}, {2: order})
    x, bias = np.arange(24, dtype="float32").reshape(4, 6), np.arange(6, dtype="float32")
    (wanted,) = reference.evaluate([c], {X: x, b: bias})
    (found,) = reference.evaluate([made], {new: x.transpose(order), row: bias.reshape(6, 1)})
    np.testing.assert_array_equal(found, wanted.transpose(order))
