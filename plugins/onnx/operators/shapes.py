"""Operators of shapes: reshaping, permuting axes, and arrays derived from shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pegbox import te
from pegbox.compute import reshaped
from pegbox.plugins.onnx.operator import Array, OperatorNode, operator
from pegbox.plugins.onnx.operators.casts import dtype_of
from pegbox.plugins.onnx.operators.computed import computed

Index = Any


def placed(x: te.Tensor, shape: Sequence[int], element: Callable[..., Any], name: str) -> te.Tensor | Array:
    """Make a tensor from elements of X, or an array if the shape has no elements."""
    return np.empty(tuple(shape), x.dtype) if 0 in shape else computed(shape, element, name=name)


def at_axis(at: Sequence[Index], axis: int, place: Index) -> list[Index]:
    """Replace the index of one axis."""
    return [*at[:axis], place, *at[axis + 1 :]]


def axis_of(node: OperatorNode, axis: int, rank: int) -> int:
    """Return an axis as a number from 0 on."""
    if not -rank <= axis < max(rank, 1):
        raise node.refuse(f"axis={axis} of {rank} dimensions")
    return axis % max(rank, 1)


@operator("Reshape", constants=(1,))
def reshape(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    wanted = [int(each) for each in node.numbers(1, "shape")]
    if not node.get("allowzero", 0):
        wanted = [x.shape[d] if each == 0 else each for d, each in enumerate(wanted)]
    known = math.prod(each for each in wanted if each != -1)
    shape = [math.prod(x.shape) // known if each == -1 else each for each in wanted]
    if math.prod(shape) != math.prod(x.shape):
        raise node.refuse(f"{list(x.shape)} cannot take the shape {wanted}")
    return reshaped(x, shape)


@operator("Flatten")
def flatten(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return reshaped(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Squeeze", constants=(1,))
def squeeze(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    axes = node.numbers(1, "axes")
    gone = [d for d, e in enumerate(x.shape) if e == 1] if axes is None else [axis_of(node, a, x.ndim) for a in axes]
    return reshaped(x, [extent for d, extent in enumerate(x.shape) if d not in gone])


@operator("Unsqueeze", constants=(1,))
def unsqueeze(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    axes = node.numbers(1, "axes")
    rank = x.ndim + len(axes)
    new = {axis_of(node, a, rank) for a in axes}
    extents = iter(x.shape)
    return reshaped(x, [1 if d in new else next(extents) for d in range(rank)])


@operator("Transpose")
def transpose(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    order = node.get("perm", list(reversed(range(x.ndim))))
    places = [order.index(d) for d in range(x.ndim)]
    return computed([x.shape[d] for d in order], lambda *at: x(*(at[place] for place in places)), name="Transpose")


@operator("Shape")
def shape_of(node: OperatorNode, x: te.Tensor) -> Array:
    return np.asarray(x.shape[node.get("start", 0) : node.get("end", None)], "int64")


@operator("Size")
def size(node: OperatorNode, x: te.Tensor) -> Array:
    return np.asarray(math.prod(x.shape), "int64")


@operator("ConstantOfShape", constants=(0,))
def constant_of_shape(node: OperatorNode) -> Array:
    value = node.get("value")
    shape = tuple(int(each) for each in node.constants[0])
    return np.zeros(shape, "float32") if value is None else np.full(shape, value.item(), value.dtype)


@operator("Range", constants=(0, 1, 2))
def range_(node: OperatorNode) -> Array:
    start, limit, step = (node.constants[k].item() for k in range(3))
    made: Array = np.arange(start, limit, step).astype(node.constants[0].dtype)
    return made


@operator("EyeLike")
def eye_like(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    dtype, k = dtype_of(node, "dtype", x.dtype), node.get("k", 0)
    return computed(x.shape, lambda i, j: te.cast(dtype, (j - i).equal(k)), name="EyeLike")
