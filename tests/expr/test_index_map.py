"""Index maps: what they say of a shape must be what trying out every element says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegbox.errors import ExprError
from pegbox.expr.index_map import IndexMap
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute

SHAPE = st.tuples(st.integers(1, 9), st.integers(1, 9))


def value(expr: Expr, env: dict[Var, int]) -> Any:
    found = simplify(substitute(expr, {v: simplify(Var("x") * 0 + n, {}) for v, n in env.items()}), {})
    return found.value  # type: ignore[attr-defined]


@st.composite
def maps(draw: st.DrawFn) -> IndexMap:
    """Splits, fusions, orders: mostly one to one."""
    i, j = Var("i"), Var("j")
    parts: list[Expr] = [i, j]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(parts) - 1))
        factor = draw(st.integers(1, 4))
        if draw(st.booleans()) or len(parts) < 2:
            parts[at : at + 1] = [parts[at] // factor, parts[at] % factor]
        else:
            other = parts[(at + 1) % len(parts)]
            parts = [
                parts[at] * draw(st.integers(5, 10)) + other,
                *(p for p in parts if p is not parts[at] and p is not other),
            ]
    return IndexMap([i, j], draw(st.permutations(parts)))


@settings(max_examples=150, deadline=None)
@given(index_map=maps(), shape=SHAPE)
def test_a_layout_says_what_every_element_says(index_map: IndexMap, shape: tuple[int, int]) -> None:
    places = [
        tuple(value(e, dict(zip(index_map.initial_indices, point, strict=True))) for e in index_map.final_indices)
        for point in itertools.product(*map(range, shape))
    ]
    if len(set(places)) < len(places):
        with pytest.raises(ExprError, match="is not one to one"):
            index_map.layout(shape)
        return
    layout = index_map.layout(shape)
    assert layout.shape == tuple(max(p[d] for p in places) + 1 for d in range(len(layout.shape)))
    assert layout.onto == (len(places) == np.prod(layout.shape))
    assert IndexMap.from_text(str(index_map)) == index_map
    try:
        inverse, real = layout.inverse(), layout.is_element(layout.places)
    except ExprError:
        return
    for old, new in zip(itertools.product(*map(range, shape)), places, strict=True):
        env = dict(zip(layout.places, new, strict=True))
        assert tuple(value(e, env) for e in inverse.final_indices) == old
    for new in itertools.product(*map(range, layout.shape)):
        assert bool(value(real, dict(zip(layout.places, new, strict=True)))) == (new in set(places))


@pytest.mark.parametrize(
    ("text", "shape", "new", "inverse"),
    [
        ("lambda i, j: (i // 16, j, i % 16)", (96, 8), (6, 8, 16), "lambda y0, y1, y2: (y0 * 16 + y2, y1)"),
        ("lambda i, j: (i * 8 + j,)", (5, 8), (40,), "lambda y0: (y0 // 8, y0 % 8)"),
        ("lambda i: (9 - i,)", (10,), (10,), "lambda y0: (y0 * -1 + 9,)"),
        ("lambda i, j: (j, i)", (3, 4), (4, 3), "lambda y0, y1: (y1, y0)"),
        ("lambda i: (i // 32, i // 4 % 8, i % 4)", (64,), (2, 8, 4), "lambda y0, y1, y2: (y0 * 32 + y1 * 4 + y2,)"),
    ],
)
def test_inverses_that_people_use_are_found(text: str, shape: Any, new: Any, inverse: str) -> None:
    index_map = IndexMap.from_text(text)
    assert index_map.map_shape(shape) == new
    assert str(index_map.inverse(shape)) == inverse


def test_variables_of_one_name_are_told_apart() -> None:
    k, other = Var("k"), Var("k")
    index_map = IndexMap([k, other], [other // 4, k, other % 4])
    assert str(index_map) == "lambda k, k_1: (k_1 // 4, k, k_1 % 4)"
    again = IndexMap.from_text(str(index_map))
    assert again == index_map
    assert again != IndexMap([k, other], [k // 4, other, k % 4])
    assert again.map_shape((3, 8)) == (2, 3, 4)


def test_indices_are_mapped_and_simplified() -> None:
    i = Var("i")
    packed = IndexMap.from_func(lambda i, j: (i // 16, j, i % 16))
    assert [str(e) for e in packed.map_indices([i * 16 + 3, 5])] == ["i", "5", "3"]
    assert repr(packed) == "IndexMap(lambda i, j: (i // 16, j, i % 16))"
    flat = IndexMap.from_func(lambda *x: x[0] * 4 + x[1], ndim=2)
    assert str(flat) == "lambda i0, i1: (i0 * 4 + i1,)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IndexMap.from_func(lambda i, j: i * j), "i \\* j is not affine"),
        (lambda: IndexMap.from_func(lambda *i: i), "needs ndim"),
        (lambda: IndexMap.from_func(lambda i: i, ndim=2), "takes 1 indices, i, where there are 2"),
        (lambda: IndexMap.from_func(lambda i: ()), "gives at least one index"),
        (lambda: IndexMap.from_text("i + 1"), "is not an index map"),
        (lambda: IndexMap.from_text("lambda i: i +"), "is not an index map"),
        (lambda: IndexMap.from_text("lambda i: open(i)"), "is not an affine expression"),
        (lambda: IndexMap.from_func(lambda i: i // 2).layout((4,)), "not one to one: .* would share one place"),
        (lambda: IndexMap.from_func(lambda i: i - 1).layout((4,)), "gives negative indices"),
        (lambda: IndexMap.from_func(lambda i, j: j).layout((4, 2)), "not one to one"),
        (lambda: IndexMap.from_func(lambda i: i).layout((4, 2)), "takes 1 indices, the shape \\[4, 2\\] has 2"),
        (lambda: IndexMap.from_func(lambda i: i // 8 + i % 8 * 9).inverse((20,)), "leaves gaps"),
        (lambda: IndexMap.from_func(lambda i, j: i * 5000 + j).layout((5000, 5000)), "mixes 25000000 elements"),
        (lambda: IndexMap.from_func(lambda i: i).map_indices([1, 2]), "takes 1 indices, got 2"),
    ],
)
def test_misuse_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ExprError, match=message):
        make()


def test_axis_separators_mean_nothing_here() -> None:
    parted = IndexMap.from_func(lambda i, j: (i // 4, IndexMap.AXIS_SEPARATOR, j, i % 4))
    assert parted == IndexMap.from_func(lambda i, j: (i // 4, j, i % 4))
