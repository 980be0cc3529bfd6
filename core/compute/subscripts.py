"""Subscripts of a computation that certainly leave their tensor, found before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, product

from pegbox.compute.graph import post_order
from pegbox.compute.reducer import Reduce
from pegbox.compute.sizes import check_static
from pegbox.compute.tensor import ComputeOp, Operation
from pegbox.errors import IndexOutOfBounds
from pegbox.expr.affine import linear
from pegbox.expr.bounds import Ranges, bounds, linear_bounds
from pegbox.expr.evaluate import evaluate
from pegbox.expr.nodes import Const, Expr, Load, Logic, Select, Var
from pegbox.expr.visit import children, free_vars, loads

_MOST_POINTS = 64
"""The largest number of points at which to compute an index, since making a task should take milliseconds."""


def check_subscripts(outputs: Sequence[Operation]) -> None:
    """Check every element that is read without a condition.

    An index that is a sum of axes is known exactly. Other indices that may be outside are computed at some points of
    the computation, and one outside is proof. Reads under a condition, indices read from memory and all others are left
    to the reference (`pegbox.compute.reference`).

    Raises:
        IndexOutOfBounds: an index leaves its dimension.
        ComputeError: sizes are variables.
    """
    check_static(order := post_order(outputs))
    for op in order:
        if isinstance(op, ComputeOp):
            axes = (*op.axis, *op.reduce_axis)
            ranges: Ranges = {axis: (axis.dom.min, axis.dom.min + axis.extent - 1) for axis in axes}
            for load in _unguarded(op):
                _check(op, load, ranges)


def indirect_extents(outputs: Sequence[Operation]) -> Iterator[int]:
    """Yield the extents of the dimensions read at indices that come from memory."""
    return (
        extent
        for op in post_order(outputs)
        if isinstance(op, ComputeOp)
        for expr in op.body
        for source in (expr.sources if isinstance(expr, Reduce) else (expr,))
        for load in loads(source)
        for index, extent in zip(load.indices, load.buffer.shape, strict=True)
        if any(True for _ in loads(index))
    )


def has_indirect_reads(outputs: Sequence[Operation]) -> bool:
    """Decide if an element is read at an index that comes from memory, as in a gather."""
    return any(True for _ in indirect_extents(outputs))


def _unguarded(op: ComputeOp) -> Iterator[Load]:
    stack: list[Expr] = []
    for expr in op.body:
        if not isinstance(expr, Reduce):
            stack.append(expr)
        elif isinstance(expr.condition, Const):
            stack.extend(expr.sources)
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        if isinstance(node, Select):
            stack.append(node.cond)
        elif not isinstance(node, Logic):
            stack.extend(children(node))


def _check(op: ComputeOp, load: Load, ranges: Ranges) -> None:
    for dim, (index, extent) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
        if (wrong := _outside(index, extent, ranges)) is not None:
            error = IndexOutOfBounds(
                f"{op.name}: {load} reads index {wrong} in dimension {dim} of {load.buffer.name}, whose shape is "
                f"{list(load.buffer.shape)}; guard it with te.if_then_else, or choose other extents"
            )
            error.source = str(op.definition)
            raise error


def _outside(index: Expr, extent: int, ranges: Ranges) -> int | None:
    """Return a value of the index outside the dimension; None if none is certain."""
    form = linear(index)
    if all(isinstance(term, Var) for term in form.terms):
        exact = linear_bounds(form, ranges)
        return None if exact is None else next((value for value in reversed(exact) if not 0 <= value < extent), None)
    between = bounds(index, ranges)
    if between is not None and between[0] >= 0 and between[1] < extent:
        return None
    axes = free_vars(index)
    if not axes <= ranges.keys() or any(True for _ in loads(index)):
        return None
    points = _points({axis: between for axis, between in ranges.items() if axis in axes})
    values = (int(evaluate(index, point)) for point in points)
    return next((value for value in values if not 0 <= value < extent), None)


def _points(ranges: Ranges) -> Iterator[dict[Var, int]]:
    """Yield all points if they are few, else the corners of the ranges, as many as allowed."""
    every = math.prod(high - low + 1 for low, high in ranges.values()) <= _MOST_POINTS
    sides = [range(low, high + 1) if every else (low, high) for low, high in ranges.values()]
    for point in islice(product(*sides), _MOST_POINTS):
        yield dict(zip(ranges, point, strict=True))
