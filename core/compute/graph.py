"""The compute graph of some tensors: its operations in topological order."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.compute.tensor import Operation, PlaceholderOp, Tensor


def post_order(outputs: Sequence[Operation]) -> list[Operation]:
    """Return every operation that the outputs need, producers first."""
    order: list[Operation] = []
    seen: set[int] = set()

    def visit(op: Operation) -> None:
        if id(op) in seen:
            return
        seen.add(id(op))
        for tensor in op.sources:
            visit(tensor.op)
        order.extend(op.members)

    for op in outputs:
        visit(op)
    return order


def placeholders(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the inputs that the outputs need, in order of first use."""
    return [op.outputs[0] for op in post_order([t.op for t in outputs]) if isinstance(op, PlaceholderOp)]
