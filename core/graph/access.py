"""`NodeAccess`: how often, and in which order, a node's computation reads elements."""

from __future__ import annotations

import math
from functools import cached_property

from pegbox.compute.tensor import ComputeOp, body_loads
from pegbox.expr.nodes import Buffer, Load
from pegbox.graph import kind
from pegbox.graph.graph import Node, Value

_REUSE = 1.5
"""The reads of an element from which on a reduction is better given what is computed already."""


class NodeAccess:
    """Answers about a node's computation, each found once."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._ops = kind.operations_of(node)

    @cached_property
    def is_opaque(self) -> bool:
        """Are there scans or statements, whose accesses no one knows?"""
        return any(type(op) is not ComputeOp for op in self._ops)

    @cached_property
    def is_view(self) -> bool:
        """Does the node give its input another shape alone?"""
        return kind.is_view(self.node)

    @cached_property
    def is_pointwise(self) -> bool:
        """Does each element depend on those at the same place alone?"""
        return kind.is_pointwise(self.node)

    @cached_property
    def has_reduction(self) -> bool:
        """Is an element computed by a reduction?"""
        return any(op.reduce is not None for op in self._ops)

    @cached_property
    def has_reuse(self) -> bool:
        """Does a reduction read elements several times, as a convolution does?"""
        return any(
            _points(op, own) > _REUSE * math.prod(buffer.shape)
            for op in self._ops if op.reduce is not None for buffer, own in self._loads[op].items()
        )  # fmt: skip

    def reads(self, value: Value) -> float:
        """Return the number of reads of each element of an input."""
        buffer = self._buffer(value)
        return sum(_points(op, self._loads[op].get(buffer, [])) for op in self._ops) / math.prod(value.shape)

    def rows(self, value: Value) -> int:
        """Count the leading axes for each index of which the outputs depend on the same row of an input alone.

        Other inputs do not count.
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
        """The loads of each operation by their buffers."""
        return {op: _loads(op) for op in self._ops}

    def _buffer(self, value: Value) -> Buffer:
        return self.node.computation.inputs[self.node.inputs.index(value)].buffer


def _loads(op: ComputeOp) -> dict[Buffer, list[Load]]:
    found: dict[Buffer, list[Load]] = {}
    for load in body_loads(op.body):
        found.setdefault(load.buffer, []).append(load)
    return found


def _points(op: ComputeOp, own: list[Load]) -> int:
    """Return the number of an operation's reads of one buffer, of which those at one place are one."""
    return len({str(load) for load in own}) * math.prod(axis.extent for axis in op.loop_axes)


def _common_axes(op: ComputeOp, load: Load) -> int:
    """Count the leading indices of a load that are the leading axes of the operation, as long as these."""
    pairs = zip(load.indices, op.axis, load.buffer.shape, strict=False)
    differing = (n for n, (index, axis, extent) in enumerate(pairs) if index is not axis or extent != axis.extent)
    return next(differing, min(len(load.indices), len(op.axis)))
