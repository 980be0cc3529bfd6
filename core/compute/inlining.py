"""Inlining: stages whose elements are read once become parts of the expressions that read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pegbox.compute.graph import post_order
from pegbox.compute.reducer import map_bodies
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor, body_loads, body_parts
from pegbox.expr.bounds import Ranges
from pegbox.expr.nodes import Buffer, Expr, Load
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import redirect_loads, rewrite, substitute, walk

MOST_NODES = 400
"""The size up to which an expression grows, since compile time grows faster than the size."""

Body = tuple[Expr, ...]


def inlined(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the same computation without the stages that only one other stage reads, each element at most once.

    Stages with reductions, and the outputs themselves, stay. A computation with scans or statements is returned
    unchanged.
    """
    ops = post_order([tensor.op for tensor in outputs])
    plain = [op for op in ops if type(op) is ComputeOp]
    if len(plain) + sum(isinstance(op, PlaceholderOp) for op in ops) < len(ops):
        return list(outputs)
    bodies = {op: op.body for op in plain}
    read = {op: _buffers(op.body) for op in plain}
    kept = {tensor.op for tensor in outputs}
    for op in reversed(plain):
        if op in kept or op.reduce is not None or len(op.body) > 1:
            continue
        made = op.outputs[0].buffer
        readers = [other for other in bodies if made in read[other]]
        if len(readers) == 1 and _is_read_once(op, readers[0], bodies[readers[0]]):
            body = _with_element(op, bodies[op][0], readers[0], bodies[readers[0]])
            if _size(body) <= MOST_NODES:
                bodies[readers[0]], read[readers[0]] = body, _buffers(body)
                del bodies[op]
    return _rebuilt(outputs, bodies)


def _buffers(body: Body) -> set[Buffer]:
    return {load.buffer for load in body_loads(body)}


def _is_read_once(op: ComputeOp, reader: ComputeOp, body: Body) -> bool:
    places = {str(load) for load in body_loads(body) if load.buffer is op.outputs[0].buffer}
    points = math.prod(axis.extent for axis in reader.loop_axes)
    return points * len(places) <= math.prod(axis.extent for axis in op.axis)


def _with_element(op: ComputeOp, element: Expr, reader: ComputeOp, body: Body) -> Body:
    """Return a reader's body with each load of an operation's element replaced by its computation."""
    ranges: Ranges = {axis: (axis.dom.min, axis.dom.min + axis.extent - 1) for axis in reader.loop_axes}

    def leaf(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer is not op.outputs[0].buffer:
            return None
        indices = [rewrite(index, leaf) for index in expr.indices]
        made = substitute(element, dict(zip(op.axis, indices, strict=True)))
        # If indices are axes, nothing can be simplified, and an axis of one iteration stays an index.
        return made if all(index in reader.loop_axes for index in indices) else simplify(made, ranges)

    return map_bodies(body, lambda expr: rewrite(expr, leaf))


def _size(body: Body) -> int:
    return sum(1 for part in body_parts(body) for _ in walk(part))


def _rebuilt(outputs: Sequence[Tensor], bodies: dict[ComputeOp, Body]) -> list[Tensor]:
    """Return the outputs of operations rebuilt with other bodies."""
    made: dict[Buffer, Tensor] = {}
    for op, body in bodies.items():
        if body is op.body and not any(tensor.buffer in made for tensor in op.inputs):
            continue
        targets = {old: (new.buffer, lambda box: box) for old, new in made.items()}
        body = map_bodies(body, lambda expr, targets=targets: redirect_loads(expr, targets))  # type: ignore[misc]
        new = ComputeOp(op.name, op.axis, body, op.attrs, op.tag, op.definition)
        made.update((old.buffer, tensor) for old, tensor in zip(op.outputs, new.outputs, strict=True))
    return [made.get(tensor.buffer, tensor) for tensor in outputs]
