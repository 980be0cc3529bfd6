"""Subscripts of a computation that are outside of what they index, wherever that is certain before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pegbox.compute.graph import post_order
from pegbox.compute.reducer import Reduce
from pegbox.compute.sizes import check_static
from pegbox.compute.tensor import ComputeOp, Operation
from pegbox.errors import ComputeError
from pegbox.expr.affine import linear
from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.expr.nodes import Const, Expr, Load, Logic, Select, Var
from pegbox.expr.visit import children


def check_subscripts(outputs: Sequence[Operation]) -> None:
    """Look at every element that is read without a condition, by an index that is a sum of axes.

    What a condition guards, and indices of other forms, are left to the reference (`pegbox.compute.reference`).

    Raises:
        ComputeError: an index leaves its dimension, or sizes are variables.
    """
    check_static(order := post_order(outputs))
    for op in order:
        if isinstance(op, ComputeOp):
            axes = (*op.axis, *op.reduce_axis)
            ranges: Ranges = {axis: (axis.dom.min, axis.dom.min + axis.extent - 1) for axis in axes}
            for load in _unguarded(op):
                _check(op, load, ranges)


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
        form = linear(index)
        between = linear_bounds(form, ranges) if all(isinstance(term, Var) for term in form.terms) else None
        if between is not None and not (between[0] >= 0 and between[1] < extent):
            wrong = between[1] if between[1] >= extent else between[0]
            raise ComputeError(
                f"{op.name}: {load} reads index {wrong} in dimension {dim} of {load.buffer.name}, whose shape is "
                f"{list(load.buffer.shape)}; guard it with te.if_then_else, or choose other extents"
            )
