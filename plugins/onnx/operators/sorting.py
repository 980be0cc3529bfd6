"""Operators that order elements."""

from __future__ import annotations

from typing import Any

from pegbox import te
from pegbox.plugins.onnx.operator import OperatorNode, operator
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index, at_axis, axis_of


@operator("TopK", constants=(1,))
def top_k(node: OperatorNode, x: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    axis, count = axis_of(node, node.get("axis", -1), x.ndim), node.scalar(1, "k")
    if not 1 <= count <= x.shape[axis]:
        raise node.refuse(f"k={count} of {x.shape[axis]} elements")
    largest = node.get("largest", 1)
    j = te.reduce_axis((0, x.shape[axis]), name="j")
    i = te.reduce_axis((0, x.shape[axis]), name="i")

    def rank(*at: Index) -> Any:
        own, other = x(*at), x(*at_axis(at, axis, j))
        better = other > own if largest else other < own
        return te.sum(te.cast("int32", te.any(better, te.all(other.equal(own), j < at[axis]))), axis=j)

    # Each element counts those that come before it, which is its place: no step depends on another.
    ranks = computed(x.shape, rank, name="ranks")
    shape = tuple(at_axis(x.shape, axis, count))

    def place(*at: Index) -> Any:
        here = ranks(*at_axis(at, axis, i)).equal(te.cast("int32", at[axis]))
        return te.max(te.if_then_else(here, te.cast("int64", i), te.const(0, "int64")), axis=i)

    places = computed(shape, place, name="places")
    values = computed(shape, lambda *at: x(*at_axis(at, axis, places(*at))), name="TopK")
    return values, places
