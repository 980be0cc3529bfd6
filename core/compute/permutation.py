"""Computations with permuted tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pegbox.compute.graph import post_order
from pegbox.compute.reducer import map_bodies
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor
from pegbox.errors import ComputeError
from pegbox.expr.build import ZERO
from pegbox.expr.nodes import Buffer
from pegbox.expr.visit import Box, Targets, redirect_loads

Order = tuple[int | None, ...]
"""Axis d of the new tensor is axis `order[d]` of the old one, or a new axis of one element."""


def permuted(
    outputs: Sequence[Tensor], inputs: Mapping[Tensor, tuple[Tensor, Order]], orders: Mapping[int, Order]
) -> list[Tensor]:
    """Compute the same elements in tensors with another order of axes.

    Args:
        inputs: tensors to read in place of inputs, each with its order of the input's axes.
        orders: the order of the axes of computed tensors, by their number of axes; others stay.

    Raises:
        ComputeError: an operation is a scan or a statement, whose axes cannot be permuted.
    """
    made: dict[Buffer, Tensor] = {old.buffer: new for old, (new, _) in inputs.items()}
    targets: dict[Buffer, tuple[Buffer, Callable[[Box], Box]]] = {
        old.buffer: (new.buffer, _place(order)) for old, (new, order) in inputs.items()
    }
    for op in post_order([tensor.op for tensor in outputs]):
        if isinstance(op, PlaceholderOp):
            continue
        if type(op) is not ComputeOp:
            raise ComputeError(f"{op.name} is a {type(op).__name__}, whose axes cannot be exchanged")
        order = orders.get(len(op.axis), tuple(range(len(op.axis))))
        new = _over(op, order, targets)
        for old, tensor in zip(op.outputs, new.outputs, strict=True):
            made[old.buffer] = tensor
            targets[old.buffer] = (tensor.buffer, _place(order))
    return [made.get(tensor.buffer, tensor) for tensor in outputs]


def _over(op: ComputeOp, order: Order, targets: Targets) -> ComputeOp:
    axes = tuple(op.axis[axis] for axis in order if axis is not None)
    body = map_bodies(op.body, lambda expr: redirect_loads(expr, targets))
    return ComputeOp(op.name, axes, body, op.attrs, op.tag, op.definition)


def _place(order: Order) -> Callable[[Box], Box]:
    return lambda box: tuple((ZERO, 1) if axis is None else box[axis] for axis in order)
