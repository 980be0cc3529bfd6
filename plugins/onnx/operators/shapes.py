"""Operators that move elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pegbox import te
from pegbox.compute import padded
from pegbox.plugins.onnx.operator import Array, OperatorNode, operator

Index = Any


def flat(shape: Sequence[int], at: Sequence[Index]) -> Index:
    """Compute the place of an element in row-major order."""
    place: Index = 0
    for extent, index in zip(shape, at, strict=True):
        place = place * extent + index
    return place


def unflat(shape: Sequence[int], place: Index) -> list[Index]:
    """Compute the indices of the element at a place in row-major order."""
    indices = []
    for d, extent in enumerate(shape):
        step = math.prod(shape[d + 1 :])
        index = te.floordiv(place, step) if step > 1 else place
        indices.append(0 if extent == 1 else te.floormod(index, extent) if d else index)
    return indices


def reshaped(x: te.Tensor, shape: Sequence[int], name: str = "Reshape") -> te.Tensor:
    """Make a tensor of another shape with the same elements in row-major order."""
    return te.compute(tuple(shape), lambda *at: x(*unflat(x.shape, flat(shape, at))), name=name)


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
    return te.compute(
        tuple(x.shape[d] for d in order), lambda *at: x(*(at[order.index(d)] for d in range(x.ndim))), name="Transpose"
    )


@operator("Concat", empty=True)
def concat(node: OperatorNode, *given: te.Tensor | None) -> te.Tensor:
    tensors = [each for each in given if each is not None]
    axis = axis_of(node, node.get("axis", 0), tensors[0].ndim)
    shape = list(tensors[0].shape)
    shape[axis] = sum(each.shape[axis] for each in tensors)
    if len(tensors) == 1:
        return te.compute(tuple(shape), lambda *at: tensors[0](*at), name="Concat")

    def element(*at: Index) -> Any:
        begin = shape[axis]
        value: Any = None
        for each in reversed(tensors):
            begin -= each.shape[axis]
            one = each(*(i - begin if d == axis else i for d, i in enumerate(at)))
            value = one if value is None else te.if_then_else(at[axis] < begin + each.shape[axis], one, value)
        return value

    return te.compute(tuple(shape), element, name="Concat")


@operator("Split", constants=(1,))
def split(node: OperatorNode, x: te.Tensor) -> tuple[te.Tensor, ...]:
    axis = axis_of(node, node.get("axis", 0), x.ndim)
    parts = node.numbers(1, "split")
    if parts is None:
        size = -(-x.shape[axis] // node.outputs)
        parts = [min(size, x.shape[axis] - size * k) for k in range(node.outputs)]
    begins = [sum(parts[:k]) for k in range(len(parts))]

    def part(begin: int, size: int) -> te.Tensor:
        shape = tuple(size if d == axis else extent for d, extent in enumerate(x.shape))
        return te.compute(shape, lambda *at: x(*(i + begin if d == axis else i for d, i in enumerate(at))), name="Split")

    return tuple(part(begin, size) for begin, size in zip(begins, parts, strict=True))


@operator("Slice", constants=(1, 2, 3, 4))
def slice_(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    starts, ends = node.numbers(1, "starts"), node.numbers(2, "ends")
    axes = node.numbers(3, "axes") or list(range(len(starts)))
    steps = node.numbers(4) or [1] * len(starts)
    ranges = [range(extent) for extent in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        d = axis_of(node, axis, x.ndim)
        ranges[d] = range(x.shape[d])[start:end:step] if abs(end) < 2**62 else range(x.shape[d])[start : None if (end > 0) == (step > 0) else end : step]
    return te.compute(
        tuple(map(len, ranges)), lambda *at: x(*(r.start + i * r.step for r, i in zip(ranges, at, strict=True))), name="Slice"
    )


def _bounded(index: Index, extent: int) -> Index:
    """Return an index that may count from the end as one from the beginning."""
    index = te.cast("int64", index)
    return te.if_then_else(index < 0, index + extent, index)


@operator("Gather")
def gather(node: OperatorNode, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
    axis = axis_of(node, node.get("axis", 0), x.ndim)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    def element(*at: Index) -> Any:
        chosen = indices(*at[axis : axis + indices.ndim])
        return x(*at[:axis], _bounded(chosen, x.shape[axis]), *at[axis + indices.ndim :])

    return te.compute(shape, element, name="Gather")


@operator("GatherElements")
def gather_elements(node: OperatorNode, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
    axis = axis_of(node, node.get("axis", 0), x.ndim)
    return te.compute(
        indices.shape,
        lambda *at: x(*at[:axis], _bounded(indices(*at), x.shape[axis]), *at[axis + 1 :]),
        name="GatherElements",
    )


@operator("GatherND")
def gather_nd(node: OperatorNode, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
    batch, depth = node.get("batch_dims", 0), indices.shape[-1]
    around = indices.ndim - 1
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])

    def element(*at: Index) -> Any:
        chosen = [_bounded(indices(*at[:around], k), x.shape[batch + k]) for k in range(depth)]
        return x(*at[:batch], *chosen, *at[around:])

    return te.compute(shape, element, name="GatherND")


@operator("Expand", constants=(1,))
def expand(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    shape = np.broadcast_shapes(x.shape, tuple(node.numbers(1)))
    return te.compute(
        shape,
        lambda *at: x(*(0 if e == 1 else i for e, i in zip(x.shape, at[len(at) - x.ndim :], strict=True))),
        name="Expand",
    )


@operator("Tile", constants=(1,))
def tile(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    repeats = node.numbers(1)
    return te.compute(
        tuple(e * r for e, r in zip(x.shape, repeats, strict=True)),
        lambda *at: x(*(te.floormod(i, e) for i, e in zip(at, x.shape, strict=True))),
        name="Tile",
    )


@operator("Pad", constants=(1, 2, 3))
def pad(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    pads, mode = node.numbers(1, "pads"), node.get("mode", "constant")
    axes = [axis_of(node, a, x.ndim) for a in (node.numbers(3) or range(x.ndim))]
    before, after = [0] * x.ndim, [0] * x.ndim
    for k, axis in enumerate(axes):
        before[axis], after[axis] = pads[k], pads[k + len(axes)]
    if mode == "constant":
        value = node.constants[2].item() if 2 in node.constants else node.get("value", 0.0)
        if min(*before, *after) >= 0:
            return padded(x, before, after, te.const(value, x.dtype)) if any((*before, *after)) else reshaped(x, x.shape)
        raise node.refuse("negative pads")

    def place(i: Index, low: int, extent: int) -> Index:
        i = i - low
        if mode == "edge":
            return te.maximum(te.minimum(i, extent - 1), 0)
        if mode == "wrap":
            return te.floormod(i, extent)
        if extent == 1:
            return 0
        turn = te.floormod(i, 2 * (extent - 1))  # reflect: there and back
        return te.minimum(turn, 2 * (extent - 1) - turn)

    shape = tuple(low + e + high for low, e, high in zip(before, x.shape, after, strict=True))
    return te.compute(shape, lambda *at: x(*map(place, at, before, x.shape)), name="Pad")


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
    return np.arange(start, limit, step, node.constants[0].dtype)


@operator("DepthToSpace")
def depth_to_space(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    b, (n, c, h, w) = node.get("blocksize"), x.shape
    out = c // (b * b)
    first = node.get("mode", "DCR") == "DCR"

    def element(i: Index, o: Index, y: Index, z: Index) -> Any:
        block = te.floormod(y, b) * b + te.floormod(z, b)
        channel = block * out + o if first else o * (b * b) + block
        return x(i, channel, te.floordiv(y, b), te.floordiv(z, b))

    return te.compute((n, out, h * b, w * b), element, name="DepthToSpace")


@operator("SpaceToDepth")
def space_to_depth(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    b, (n, c, h, w) = node.get("blocksize"), x.shape
    first = node.get("mode", "DCR") == "DCR"

    def element(i: Index, o: Index, y: Index, z: Index) -> Any:
        block = te.floordiv(o, c) if first else te.floormod(o, b * b)
        return x(i, te.floormod(o, c) if first else te.floordiv(o, b * b), y * b + te.floordiv(block, b), z * b + te.floormod(block, b))

    return te.compute((n, c * b * b, h // b, w // b), element, name="SpaceToDepth")


@operator("Trilu", constants=(1,))
def trilu(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    k = int(node.constants[1].item()) if 1 in node.constants else 0
    upper = node.get("upper", 1)

    def element(*at: Index) -> Any:
        *_, i, j = at
        kept = j - i >= k if upper else j - i <= k
        return te.if_then_else(kept, x(*at), te.const(0, x.dtype))

    return te.compute(x.shape, element, name="Trilu")


@operator("EyeLike")
def eye_like(node: OperatorNode, x: te.Tensor) -> te.Tensor:
    from pegbox.plugins.onnx.operators.elementwise import DTYPES

    dtype, k = DTYPES[node.get("dtype")] if node.get("dtype") else x.dtype, node.get("k", 0)
    return te.compute(x.shape, lambda i, j: te.cast(dtype, (j - i).equal(k)), name="EyeLike")


@operator("OneHot", constants=(1,))
def one_hot(node: OperatorNode, indices: te.Tensor, _: None, values: te.Tensor) -> te.Tensor:
    depth = int(node.constants[1].item())
    axis = axis_of(node, node.get("axis", -1), indices.ndim + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])

    def element(*at: Index) -> Any:
        index = _bounded(indices(*at[:axis], *at[axis + 1 :]), depth)
        return te.if_then_else(index.equal(at[axis]), values(1), values(0))

    return te.compute(shape, element, name="OneHot")
