"""`NodeAccess`: the number and order of a node's reads of elements."""

from __future__ import annotations

import math
from functools import cached_property

from pegbox.compute.tensor import ComputeOp, body_loads
from pegbox.expr.nodes import Buffer, Load
from pegbox.graph import kind
from pegbox.graph.graph import Node, Value

_REUSE = 1.5
"""The number of reads of an element from which a reduction's inputs should be computed beforehand."""


class NodeAccess:
    """Answers about a node's computation, each computed once."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._ops = kind.operations_of(node)

    @cached_property
    def is_opaque(self) -> bool:
        """True if there are scans or statements, whose accesses are unknown."""
        return any(type(op) is not ComputeOp for op in self._ops)

    @cached_property
    def is_view(self) -> bool:
        """True if the node only gives its input another shape."""
        return kind.is_view(self.node)

    @cached_property
    def is_pointwise(self) -> bool:
        """True if each element depends only on those at the same place."""
        return kind.is_pointwise(self.node)

    @cached_property
    def has_reduction(self) -> bool:
        """True if a reduction computes an element."""
        return any(op.reduce is not None for op in self._ops)

    @cached_property
    def has_reuse(self) -> bool:
        """True if a reduction reads elements several times, as a convolution does."""
        return any(
            _points(op, own) > _REUSE * math.prod(buffer.shape)
            for op in self._ops if op.reduce is not None for buffer, own in self._loads[op].items()
        )  # fmt: skip

    def reads(self, value: Value) -> float:
        """Return the number of reads of each element of an input."""
        buffer = self._buffer(value)
        return sum(_points(op, self._loads[op].get(buffer, [])) for op in self._ops) / math.prod(value.shape)

    def rows(self, value: Value) -> int:
        """Count the leading axes along which each row of the outputs depends only on the same row of an input.

        Other inputs are ignored.
        """
        followed = {self._buffer(value)}
        rank = len(value.shape)
        for op in self._ops:
            own = [load for buffer, found in self._loads[op].items() if buffer in followed for load in found]
            if own:
                followed.update(tensor.buffer for tensor in op.outputs)
                rank = min(rank, *(_common_axes(op, load) for load in own))
        return rank

    @cached_property
    def _loads(self) -> dict[ComputeOp, dict[Buffer, list[Load]]]:
        """The loads of each operation by buffer."""
        return {op: _loads(op) for op in self._ops}

    def _buffer(self, value: Value) -> Buffer:
        return self.node.computation.inputs[self.node.inputs.index(value)].buffer


def _loads(op: ComputeOp) -> dict[Buffer, list[Load]]:
    found: dict[Buffer, list[Load]] = {}
    for load in body_loads(op.body):
        found.setdefault(load.buffer, []).append(load)
    return found


def _points(op: ComputeOp, own: list[Load]) -> int:
    """Count the distinct places at which an operation reads one buffer."""
    return len({str(load) for load in own}) * math.prod(axis.extent for axis in op.loop_axes)


def _common_axes(op: ComputeOp, load: Load) -> int:
    """Count the leading indices of a load that are the operation's leading axes, with equal extents."""
    pairs = zip(load.indices, op.axis, load.buffer.shape, strict=False)
    differing = (n for n, (index, axis, extent) in enumerate(pairs) if index is not axis or extent != axis.extent)
    return next(differing, min(len(load.indices), len(op.axis)))
