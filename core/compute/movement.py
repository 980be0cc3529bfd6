"""Tensors with the elements of another one in a different shape or order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pegbox.compute.ops import compute
from pegbox.compute.tensor import Tensor
from pegbox.errors import ComputeError
from pegbox.expr.build import floordiv, floormod, index
from pegbox.expr.nodes import Expr


def flat_index(shape: Sequence[int], indices: Sequence[Expr]) -> Expr:
    """Compute the place of an element in row-major order."""
    place: Expr = index(0)
    for extent, at in zip(shape, indices, strict=True):
        place = place * extent + at
    return place


def unflat_indices(shape: Sequence[int], place: Expr) -> list[Expr]:
    """Compute the indices of the element at a place in row-major order."""
    indices = []
    for axis, extent in enumerate(shape):
        step = math.prod(shape[axis + 1 :])
        at = floordiv(place, step) if step > 1 else place
        outermost = math.prod(shape[:axis]) == 1
        indices.append(index(0) if extent == 1 else at if outermost else floormod(at, extent))
    return indices


def reshaped(x: Tensor, shape: Sequence[int], *, name: str = "reshaped") -> Tensor:
    """Make a tensor of another shape with the same elements in row-major order.

    Raises:
        ComputeError: the shapes have different numbers of elements.
    """
    if math.prod(shape) != math.prod(x.shape):
        raise ComputeError(f"{name}: {x.name} has the shape {list(x.shape)}, which cannot become {list(shape)}")
    return compute(tuple(shape), lambda *at: x(*unflat_indices(x.shape, flat_index(shape, at))), name=name)


def transposed(x: Tensor, order: Sequence[int], *, name: str = "transposed") -> Tensor:
    """Make a tensor whose axis d is the axis `order[d]` of X.

    Raises:
        ComputeError: the order does not have each axis once.
    """
    if sorted(order) != list(range(x.ndim)):
        raise ComputeError(f"{name}: order={list(order)} does not have each of {x.ndim} axes once")
    places = [list(order).index(axis) for axis in range(x.ndim)]
    return compute([x.shape[axis] for axis in order], lambda *at: x(*(at[place] for place in places)), name=name)
