"""Operators that cut tensors, join them, and put borders around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from pegbox import te
from pegbox.compute import padded, reshaped
from pegbox.plugins.onnx.operator import Array, OperatorNode, operator
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index, at_axis, axis_of, placed


@operator("Concat", empty=True)
def concat(node: OperatorNode, *given: te.Tensor | None) -> te.Tensor:
    return joined([each for each in given if each is not None], node.get("axis", 0))


def joined(tensors: Sequence[te.Tensor], axis: int) -> te.Tensor:
    """Concatenate tensors along an axis."""
    axis %= tensors[0].ndim
    begins = [sum(each.shape[axis] for each in tensors[:k]) for k in range(len(tensors))]
    shape = at_axis(tensors[0].shape, axis, sum(each.shape[axis] for each in tensors))

    def element(*at: Index) -> Any:
        *parts, last = (each(*at_axis(at, axis, at[axis] - low)) for each, low in zip(tensors, begins, strict=True))
        limits = zip(reversed(parts), reversed(begins[1:]), strict=True)
        return reduce(lambda rest, part: te.if_then_else(at[axis] < part[1], part[0], rest), limits, last)

    return computed(shape, element, name="Concat")


@operator("Split", constants=(1,))
def split(node: OperatorNode, x: te.Tensor) -> list[te.Tensor | Array]:
    axis = axis_of(node, node.get("axis", 0), x.ndim)
    sizes = node.numbers(1, "split")
    if sizes is None:
        parts = node.get("num_outputs", node.outputs)
        size = -(-x.shape[axis] // parts)
        sizes = [min(size, x.shape[axis] - size * k) for k in range(parts)]
    if sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise node.refuse(f"parts of {sizes} elements do not make up axis {axis} of {list(x.shape)}")
    return [sliced(x, axis, sum(sizes[:k]), size, name="Split") for k, size in enumerate(sizes)]


def sliced(x: te.Tensor, axis: int, begin: int, size: int, *, name: str = "Slice") -> te.Tensor | Array:
    """Cut the elements from `begin` on out of an axis."""
    shape = at_axis(x.shape, axis, size)
    return placed(x, shape, lambda *at: x(*at_axis(at, axis, at[axis] + begin)), name)


@operator("Slice", constants=(1, 2, 3, 4))
def slice_(node: OperatorNode, x: te.Tensor) -> te.Tensor | Array:
    starts, ends = node.numbers(1, "starts"), node.numbers(2, "ends")
    axes = node.numbers(3, "axes") or list(range(len(starts)))
    steps = node.numbers(4) or [1] * len(starts)
    ranges = [range(extent) for extent in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        d = axis_of(node, axis, x.ndim)
        if not step:
            raise node.refuse("a step of 0")
        # An end before the first element means none, unlike Python's -1, which is the last element; a start there means
        # the first element, for which Python has no number.
        last = None if step < 0 and end < -x.shape[d] else end
        ranges[d] = range(x.shape[d])[max(start, -x.shape[d]) : last : step]

    def element(*at: Index) -> Any:
        return x(*(r.start + i * r.step for r, i in zip(ranges, at, strict=True)))

    return placed(x, [len(each) for each in ranges], element, "Slice")


@operator("Expand", constants=(1,))
def expand(node: OperatorNode, x: te.Tensor) -> te.Tensor | Array:
    shape = np.broadcast_shapes(x.shape, tuple(node.numbers(1)))

    def element(*at: Index) -> Any:
        return x(*(0 if e == 1 else i for e, i in zip(x.shape, at[len(at) - x.ndim :], strict=True)))

    return placed(x, shape, element, "Expand")


@operator("Tile", constants=(1,))
def tile(node: OperatorNode, x: te.Tensor) -> te.Tensor | Array:
    repeats = node.numbers(1)

    def element(*at: Index) -> Any:
        return x(*(i if n == 1 else te.floormod(i, e) for i, e, n in zip(at, x.shape, repeats, strict=True)))

    return placed(x, [e * n for e, n in zip(x.shape, repeats, strict=True)], element, "Tile")


@operator("Pad", constants=(1, 3), known=(2,))
def pad(node: OperatorNode, x: te.Tensor, _: None = None, value: te.Tensor | None = None) -> te.Tensor | Array:
    pads, mode = node.numbers(1, "pads"), node.get("mode", "constant")
    axes = [axis_of(node, a, x.ndim) for a in (node.numbers(3) or range(x.ndim))]
    before, after = [0] * x.ndim, [0] * x.ndim
    for k, axis in enumerate(axes):
        before[axis], after[axis] = pads[k], pads[k + len(axes)]
    shape = [low + e + high for low, e, high in zip(before, x.shape, after, strict=True)]
    if 0 in shape or not any((*before, *after)):
        return placed(x, shape, lambda *at: x(*at), "Pad")
    if mode == "constant":
        if value is not None:
            return padded(x, before, after, value(*[0] * value.ndim))
        return padded(x, before, after, te.const(node.scalar(2, "value", 0), x.dtype))

    def place(i: Index, low: int, extent: int, size: int) -> Index:
        i = i - low
        if not low and size <= extent:
            return i
        if mode == "edge":
            return te.maximum(te.minimum(i, extent - 1), 0)
        if mode == "wrap":
            return te.floormod(i, extent)
        return reflected(i, extent)

    return computed(shape, lambda *at: x(*map(place, at, before, x.shape, shape)), name="Pad")


def reflected(index: Index, extent: int, *, borders: bool = False) -> Index:
    """Reflect an index at both ends of an axis: at the last elements, or at the borders beyond them."""
    period = 2 * extent if borders else 2 * (extent - 1)
    if not period:
        return 0
    there = te.floormod(index, period)
    return te.minimum(there, period - int(borders) - there)


@operator("Trilu", constants=(1,))
def trilu(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    k = int(node.constants[1].item()) if 1 in node.constants else 0
    upper = node.get("upper", 1)

    def element(*at: Index) -> Any:
        *_, i, j = at
        kept = j - i >= k if upper else j - i <= k
        return te.if_then_else(kept, x(*at), te.const(0, x.dtype))

    return computed(x.shape, element, name="Trilu")


@operator("CenterCropPad", constants=(1,))
def center_crop_pad(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    sizes = node.numbers(1)
    axes = [axis_of(node, axis, x.ndim) for axis in node.get("axes", range(x.ndim))]
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, size in zip(axes, sizes, strict=True):
        more = size - x.shape[axis]
        before[axis] = more // 2 if more > 0 else -(-more // 2)
        after[axis] = more - before[axis]
    return padded(x, before, after) if any((*before, *after)) else reshaped(x, x.shape)
