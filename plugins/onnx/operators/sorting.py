"""Operators that order elements."""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index, at_axis, axis_of

FEW = 4
"""The least ratio of all elements to those that are picked for which finding them one by one is faster."""


@operator("TopK", constants=(1,))
def top_k(node: OperatorNode, x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    axis, count = axis_of(node, node.get("axis", -1), x.ndim), node.scalar(1, "k")
    if not 1 <= count <= x.shape[axis]:
        raise node.refuse(f"k={count} of {x.shape[axis]} elements")
    pick = _one_by_one if FEW * count <= x.shape[axis] else _by_ranks
    return pick(x, axis, count, largest=bool(node.get("largest", 1)))


def _by_ranks(x: te.Tensor, axis: int, count: int, *, largest: bool) -> tuple[te.Tensor, te.Tensor]:
    """Find the place of each element by counting those that come before it: no step depends on another."""
    j = te.reduce_axis((0, x.shape[axis]), name="j")
    i = te.reduce_axis((0, x.shape[axis]), name="i")

    def rank(*at: Index) -> Any:
        own, other = x(*at), x(*at_axis(at, axis, j))
        better = other > own if largest else other < own
        return te.sum(te.cast("int32", te.any(better, te.all(other.equal(own), j < at[axis]))), axis=j)

    ranks = computed(x.shape, rank, name="ranks")
    shape = tuple(at_axis(x.shape, axis, count))

    def place(*at: Index) -> Any:
        here = ranks(*at_axis(at, axis, i)).equal(te.cast("int32", at[axis]))
        return te.max(te.if_then_else(here, te.cast("int64", i), te.const(0, "int64")), axis=i)

    places = computed(shape, place, name="places")
    values = computed(shape, lambda *at: x(*at_axis(at, axis, places(*at))), name="TopK")
    return values, places


def _one_by_one(x: te.Tensor, axis: int, count: int, *, largest: bool) -> tuple[te.Tensor, te.Tensor]:
    """Find each element as the best of those that come after its predecessor. Of equal ones, the first comes first."""
    extent, rows = x.shape[axis], (*x.shape[:axis], *x.shape[axis + 1 :])
    steps = count + 1, *rows
    values, places = te.placeholder(steps, x.dtype, "values"), te.placeholder(steps, "int32", "places")
    j = te.reduce_axis((0, extent), name="j")
    i = te.reduce_axis((0, extent), name="i")
    best, worst = te.max_value(x.dtype), te.min_value(x.dtype)
    if not largest:
        best, worst = worst, best

    def element(row: Any, place: Index) -> Any:
        return x(*row[:axis], place, *row[axis:])

    def is_left(t: Index, row: Any, place: Index) -> Any:
        own, before = element(row, place), values(t - 1, *row)
        worse = own < before if largest else own > before
        return te.any(worse, te.all(own.equal(before), te.cast("int32", place) > places(t - 1, *row)))

    def value(t: Index, *row: Index) -> Any:
        left = te.if_then_else(is_left(t, row, j), element(row, j), worst)
        return te.max(left, axis=j) if largest else te.min(left, axis=j)

    new_values = computed(steps, value, name="value")

    def place(t: Index, *row: Index) -> Any:
        here = te.all(is_left(t, row, i), element(row, i).equal(new_values(t, *row)))
        return te.min(te.if_then_else(here, te.cast("int32", i), te.const(extent - 1, "int32")), axis=i)

    new_places = computed(steps, place, name="place")
    first = (1, *rows)
    starts = [
        computed(first, lambda *at: best, name="first"),
        computed(first, lambda *at: te.const(-1, "int32"), name="first"),
    ]
    found = te.scan(starts, [new_values, new_places], [values, places], name="TopK")

    def step(at: Any) -> Any:
        return (at[axis] + 1, *at[:axis], *at[axis + 1 :])

    shape = tuple(at_axis(x.shape, axis, count))
    return (
        computed(shape, lambda *at: found[0](*step(at)), name="TopK"),
        computed(shape, lambda *at: te.cast("int64", found[1](*step(at))), name="indices"),
    )
