"""Kinds of nodes, as their computations show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pegbox import te
from pegbox.graph import Node, Value, has_reduction, is_injective, is_pointwise, is_view, make_node, matmul_node
from pegbox.graph.kind import permutation_of, pointwise_values, view_offsets

X, ROW = Value("x", (4, 6), "float32"), Value("row", (6,), "float32")


def node(*values: Value, shape: tuple[int, ...] = (4, 6), element: Callable[..., Any]) -> Node:
    return make_node("n", "Any", values, lambda *t: [te.compute(shape, lambda *at: element(*t, *at), name="n")])


def two_stages(x: te.Tensor) -> list[te.Tensor]:
    doubled = te.compute(x.shape, lambda i, j: x[i, j] * 2.0, name="doubled")
    return [te.compute(x.shape, lambda i, j: te.exp(doubled[i, j]), name="n")]


def row_sums(x: te.Tensor) -> list[te.Tensor]:
    k = te.reduce_axis((0, 6), name="k")
    total = te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="total")
    return [te.compute(x.shape, lambda i, j: x[i, j] / total[i], name="n")]


POINTWISE = {
    "unary": node(X, element=lambda x, i, j: te.exp(x[i, j])),
    "row": node(X, ROW, element=lambda x, r, i, j: x[i, j] + r[j]),
    "number": node(X, Value("s", (), "float32"), element=lambda x, s, i, j: x[i, j] * s()),
    "ones": node(X, Value("c", (4, 1), "float32"), element=lambda x, c, i, j: x[i, j] * c[i, 0]),
    "stages": make_node("n", "Any", [X], two_stages),
    "choice": node(X, ROW, element=lambda x, r, i, j: te.if_then_else(r[j] > 0.0, x[i, j], r[j])),
}
INJECTIVE = {
    "transposed": node(X, shape=(6, 4), element=lambda x, j, i: x[i, j]),
    "shifted": node(X, shape=(3, 6), element=lambda x, i, j: x[i + 1, j]),
    "place": node(X, element=lambda x, i, j: te.if_then_else(i < j, x[i, j], 0.0)),
    "gathered": node(X, Value("at", (4,), "int64"), element=lambda x, at, i, j: x[at[i], j]),
    "column": node(Value("x", (4, 4), "float32"), Value("c", (4,), "float32"), shape=(4, 4),
                   element=lambda x, c, i, j: x[i, j] + c[i]),
}  # fmt: skip
REDUCTIONS = {
    "sums": make_node("n", "Any", [X], row_sums),
    "product": matmul_node("n", X, Value("w", (6, 2), "float32")),
}


@pytest.mark.parametrize("name", [*POINTWISE, *INJECTIVE, *REDUCTIONS])
def test_accesses_decide_the_kind(name: str) -> None:
    each = {**POINTWISE, **INJECTIVE, **REDUCTIONS}[name]
    assert is_pointwise(each) == (name in POINTWISE)
    assert is_injective(each) == (name not in REDUCTIONS)
    assert has_reduction(each) == (name in REDUCTIONS)


def test_a_scan_is_not_injective() -> None:
    def compute(x: te.Tensor) -> list[te.Tensor]:
        return [te.cumsum(x, axis=0)]

    assert not is_injective(make_node("n", "CumSum", [X], compute))


VIEWS = {
    "same": node(X, element=lambda x, i, j: x[i, j]),
    "flat": node(X, shape=(24,), element=lambda x, i: x[i // 6, i % 6]),
    "blocks": node(X, shape=(4, 2, 3), element=lambda x, i, j, k: x[i, j * 3 + k]),
}
OTHERS = {
    "transposed": INJECTIVE["transposed"],
    "computed": POINTWISE["unary"],
    "cast": node(X, element=lambda x, i, j: te.cast("float64", x[i, j])),
    "part": INJECTIVE["shifted"],
    "turned": node(X, shape=(24,), element=lambda x, i: x[i % 4, i // 4]),
    "two inputs": node(X, ROW, element=lambda x, r, i, j: x[i, j]),
}


@pytest.mark.parametrize("name", [*VIEWS, *OTHERS])
def test_a_view_has_all_elements_in_their_order(name: str) -> None:
    assert is_view({**VIEWS, **OTHERS}[name]) == (name in VIEWS)


def test_the_offset_of_a_view_is_where_it_begins() -> None:
    assert view_offsets(INJECTIVE["shifted"]) == (6,)
    assert view_offsets(node(X, shape=(2, 6), element=lambda x, i, j: x[i * 2, j])) is None

    def parts(x: te.Tensor) -> list[te.Tensor]:
        return [te.compute((2, 6), lambda i, j, n=n: x[i + n, j], name="part") for n in (0, 2)]

    assert view_offsets(make_node("n", "Split", [X], parts)) == (0, 12)


def test_a_permutation_is_that_of_the_axes() -> None:
    box = Value("box", (2, 3, 4), "float32")
    turned = node(box, shape=(4, 2, 3), element=lambda x, k, i, j: x[i, j, k])
    assert permutation_of(turned) == (2, 0, 1)
    assert permutation_of(node(X, shape=(4,), element=lambda x, i: x[i, i])) is None
    assert permutation_of(INJECTIVE["shifted"]) is None


def test_the_values_of_stages_are_one_expression() -> None:
    from pegbox.expr import Var

    (value,) = pointwise_values(POINTWISE["stages"], [Var("e", "float32")])
    assert str(value) == "exp(e * 2.0)"
