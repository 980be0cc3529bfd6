"""Operators that read and write elements at indices from tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pegbox import te
from pegbox.compute import flat_index, unflat_indices
from pegbox.plugins.onnx.operator import Array, OperatorNode, operator
from pegbox.plugins.onnx.operators.computed import computed
from pegbox.plugins.onnx.operators.shapes import Index, at_axis, axis_of, placed


def bounded(index: Index, extent: int) -> Index:
    """Convert an index that may count from the end to one from the beginning."""
    index = te.cast("int64", index)
    return te.if_then_else(index < 0, index + extent, index)


def readable(index: Index, extent: int) -> Index:
    """Clamp an index to the axis, beyond which it would read other memory."""
    return te.maximum(te.minimum(bounded(index, extent), extent - 1), 0)


@operator("Gather", known=(1,))
def gather(node: OperatorNode, x: te.Tensor, indices: te.Tensor | None = None) -> te.Tensor | Array:
    axis = axis_of(node, node.get("axis", 0), x.ndim)
    steps = _steps(node, x.shape[axis])
    chosen: Any = node.constants[1] if indices is None or steps else indices

    def element(*at: Index) -> Any:
        own = at[axis : axis + chosen.ndim]
        if steps is None:
            place = (bounded if 1 in node.constants else readable)(chosen(*own), x.shape[axis])
        else:
            place = sum((i * step for i, step in zip(own, steps[1:], strict=True)), te.const(steps[0], "int64"))
        return x(*at[:axis], place, *at[axis + chosen.ndim :])

    return placed(x, (*x.shape[:axis], *chosen.shape, *x.shape[axis + 1 :]), element, "Gather")


def _steps(node: OperatorNode, extent: int) -> list[int] | None:
    """Write known indices as the first one and a step along each of their axes; None if that is impossible."""
    if 1 not in node.constants:
        return None
    indices = np.where(node.constants[1] < 0, node.constants[1] + extent, node.constants[1]).astype("int64")
    if indices.size == 0:
        return [0] * (indices.ndim + 1)
    if indices.min() < 0 or indices.max() >= extent:
        raise node.refuse(f"indices from {indices.min()} to {indices.max()} into an axis of {extent} elements")
    first = int(indices.flat[0])
    steps = [int(np.take(indices, 1, d).flat[0]) - first if e > 1 else 0 for d, e in enumerate(indices.shape)]
    walked = sum(
        (
            np.expand_dims(np.arange(e) * s, [k for k in range(indices.ndim) if k != d])
            for d, (e, s) in enumerate(zip(indices.shape, steps, strict=True))
        ),
        np.asarray(first),
    )
    return [first, *steps] if np.array_equal(np.broadcast_to(walked, indices.shape), indices) else None


@operator("GatherElements")
def gather_elements(node: OperatorNode, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
    axis = axis_of(node, node.get("axis", 0), x.ndim)
    return computed(
        indices.shape,
        lambda *at: x(*at[:axis], readable(indices(*at), x.shape[axis]), *at[axis + 1 :]),
        name="GatherElements",
    )


@operator("GatherND")
def gather_nd(node: OperatorNode, x: te.Tensor, indices: te.Tensor) -> te.Tensor:
    batch, depth = node.get("batch_dims", 0), indices.shape[-1]
    around = indices.ndim - 1
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])

    def element(*at: Index) -> Any:
        chosen = [readable(indices(*at[:around], k), x.shape[batch + k]) for k in range(depth)]
        return x(*at[:batch], *chosen, *at[around:])

    return computed(shape, element, name="GatherND")


@operator("OneHot", constants=(1,))
def one_hot(node: OperatorNode, indices: te.Tensor, _: None, values: te.Tensor) -> te.Tensor:
    depth = int(node.constants[1].item())
    axis = axis_of(node, node.get("axis", -1), indices.ndim + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])

    def element(*at: Index) -> Any:
        index = bounded(indices(*at[:axis], *at[axis + 1 :]), depth)
        return te.if_then_else(index.equal(at[axis]), values(1), values(0))

    return computed(shape, element, name="OneHot")


Combine = Callable[[Any, Any], Any]
_COMBINED: dict[str, tuple[Callable[..., Any], Combine]] = {
    "add": (te.sum, lambda a, b: a + b),
    "mul": (te.prod, lambda a, b: a * b),
    "max": (te.max, te.maximum),
    "min": (te.min, te.minimum),
}
_NEUTRAL: dict[str, Callable[[str], Any]] = {
    "add": lambda dtype: te.const(0, dtype),
    "mul": lambda dtype: te.const(1, dtype),
    "max": te.min_value,
    "min": te.max_value,
}


def scattered(
    node: OperatorNode,
    x: te.Tensor,
    over: Sequence[te.IterVar],
    hits: Callable[..., Any],
    update: Callable[..., Any],
) -> te.Tensor:
    """Replace the elements of X hit by updates, or combine them with the updates.

    te writes each element once, so every element searches the updates for the last one that hits it.

    Args:
        over: the axes of the updates.
        hits: the condition that an update writes an element; a function of the updates' indices and the element's.
        update: the value of an update, a function of the same.
    """
    how = node.get("reduction", "none")
    if how != "none":
        combine, join = _COMBINED[how]

        def term(*at: Index) -> Any:
            return combine(te.if_then_else(hits(over, at), update(over, at), _NEUTRAL[how](x.dtype)), axis=list(over))

        total = computed(x.shape, term, name="updates")
        return computed(x.shape, lambda *at: join(x(*at), total(*at)), name=node.kind)

    def last(*at: Index) -> Any:
        place = flat_index([axis.dom.extent for axis in over], over)
        return te.max(te.if_then_else(hits(over, at), place, te.const(-1, "int64")), axis=list(over))

    found = computed(x.shape, last, name="last")

    def element(*at: Index) -> Any:
        place = unflat_indices([axis.dom.extent for axis in over], te.maximum(found(*at), 0))
        return te.if_then_else(found(*at) >= 0, update(place, at), x(*at))

    return computed(x.shape, element, name=node.kind)


@operator("ScatterElements", "Scatter")
def scatter_elements(node: OperatorNode, x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    axis = axis_of(node, node.get("axis", 0), x.ndim)
    k = te.reduce_axis((0, indices.shape[axis]), name="k")
    within = [d for d in range(x.ndim) if d != axis and indices.shape[d] < x.shape[d]]

    def place(over: Sequence[Index], at: Sequence[Index]) -> list[Index]:
        inside = [te.minimum(i, indices.shape[d] - 1) if d in within else i for d, i in enumerate(at)]
        return at_axis(inside, axis, over[0])

    def hits(over: Sequence[Index], at: Sequence[Index]) -> Any:
        there = bounded(indices(*place(over, at)), x.shape[axis]).equal(at[axis])
        return te.all(*(at[d] < indices.shape[d] for d in within), there)

    return scattered(node, x, [k], hits, lambda over, at: updates(*place(over, at)))


@operator("ScatterND")
def scatter_nd(node: OperatorNode, x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    *around, depth = indices.shape
    over = [te.reduce_axis((0, extent), name=f"k{d}") for d, extent in enumerate(around)]

    def hits(places: Sequence[Index], at: Sequence[Index]) -> Any:
        return te.all(*(bounded(indices(*places, d), x.shape[d]).equal(at[d]) for d in range(depth)))

    return scattered(node, x, over, hits, lambda places, at: updates(*places, *at[depth:]))


@operator("TensorScatter")
def tensor_scatter(
    node: OperatorNode, past: te.Tensor, update: te.Tensor, begins: te.Tensor | None = None
) -> te.Tensor:
    axis = axis_of(node, node.get("axis", -2), past.ndim)
    size, extent = update.shape[axis], past.shape[axis]

    def element(*at: Index) -> Any:
        place = at[axis] - (te.cast("int64", begins(at[0])) if begins is not None else 0)
        if node.get("mode", "linear") == "circular":
            place = te.floormod(place, extent)
        inside = te.maximum(te.minimum(place, size - 1), 0)
        return te.if_then_else(te.all(place >= 0, place < size), update(*at_axis(at, axis, inside)), past(*at))

    return computed(past.shape, element, name="TensorScatter")


@operator("Compress", constants=(1,))
def compress(node: OperatorNode, x: te.Tensor) -> te.Tensor | Array:
    chosen = np.flatnonzero(node.constants[1])
    axis = node.get("axis")
    shape = x.shape if axis is not None else (int(np.prod(x.shape)),)
    axis = 0 if axis is None else axis_of(node, axis, x.ndim)
    cases = [int(place) for place in chosen if place < shape[axis]]

    def element(*at: Index) -> Any:
        place: Any = te.const(cases[-1], "int64")
        for k in range(len(cases) - 2, -1, -1):
            place = te.if_then_else(at[axis] <= k, cases[k], place)
        return x(*(at_axis(at, axis, place) if len(shape) == x.ndim else unflat_indices(x.shape, place)))

    return placed(x, at_axis(shape, axis, len(cases)), element, "Compress")
