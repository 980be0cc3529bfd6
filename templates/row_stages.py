"""The rows of a computation, and the stages computed for each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pegbox import te
from pegbox.compute import ComputeOp, Tensor, body_loads, body_parts, post_order
from pegbox.errors import TemplateError
from pegbox.expr import SLOW, Buffer, Call, linear, walk


@dataclass(frozen=True)
class Rows:
    """A computation by rows.

    Attributes:
        out: the output.
        stages: the operations before it, producers first.
        inlined: those of them that are computed where they are read.
        rank: the number of leading axes that count rows.
    """

    out: ComputeOp
    stages: tuple[ComputeOp, ...]
    inlined: frozenset[ComputeOp]
    rank: int

    @property
    def stored(self) -> tuple[ComputeOp, ...]:
        """The operations whose results are stored, the output last."""
        return (*(op for op in self.stages if op not in self.inlined), self.out)

    def row(self, op: ComputeOp) -> int:
        """Count the elements of a row of an operation, or the elements that it reads if it reduces a row."""
        return math.prod(axis.extent for axis in self.row_axes(op))

    def row_axes(self, op: ComputeOp) -> tuple[te.IterVar, ...]:
        """Return the axes of a row of an operation, or of one that it reduces."""
        return tuple(op.reduce_axis if op.reduce is not None else op.axis[self.rank :])

    @property
    def taken(self) -> dict[ComputeOp, ComputeOp]:
        """The reductions that consume the elements of the preceding stage while these are computed, and that stage."""
        return {
            op: before
            for before, op in pairwise(self.stored[:-1])
            if op.reduce is not None
            and before.reduce is None
            and before.outputs[0] in op.inputs
            and [axis.extent for axis in self.row_axes(op)] == [axis.extent for axis in self.row_axes(before)]
            and self.reads_in_order(op, before)
        }

    def reads_in_order(self, op: ComputeOp, before: ComputeOp) -> bool:
        """Decide if an operation, with those that are computed in it, reads a stage's rows at its own place only."""
        needed = post_order([op])
        between = [each for each in self.inlined if each in needed and before in post_order([each])]
        buffers = [each.outputs[0].buffer for each in (before, *between)]
        return all(
            [*map(id, load.indices[self.rank :])] == [*map(id, self.row_axes(reader))]
            for reader in (op, *between)
            for load in body_loads(reader.body)
            if load.buffer in buffers
        )


def rows_of(tensors: Sequence[Tensor]) -> Rows:
    """Find the rows of a computation; raise TemplateError where `RowGenerator` does."""
    ops = [op for op in post_order([tensor.op for tensor in tensors]) if isinstance(op, ComputeOp)]
    made = {tensor.buffer: op for op in ops for tensor in op.outputs}
    if any(type(op) is not ComputeOp or len(op.outputs) > 1 for op in ops):
        raise TemplateError("rows: there are scans, statements or operations of several outputs; use space='sketch'")
    outputs = [tensor.name for tensor in tensors if tensor.buffer in made]
    if len(outputs) != 1:
        raise TemplateError(f"rows: {', '.join(outputs) or 'nothing'} is computed; give one output")
    out = made[next(tensor.buffer for tensor in tensors if tensor.name == outputs[0])]
    if all(op.reduce is None for op in ops):
        raise TemplateError("rows: nothing is reduced; elements do not need rows")
    rank = _rank(ops, out, made)
    if rank < 1:
        raise TemplateError("rows: a row of the output needs several rows of a stage; use space='sketch'")
    for op in ops:
        _check_reduction(op, rank)
    stages = tuple(op for op in ops if op is not out)
    inlined = {op for op in stages if op.reduce is None and (_is_cheap(op, rank) or _is_read_once(op, ops))}
    return Rows(out, stages, frozenset(inlined), rank)


def _rank(ops: Sequence[ComputeOp], out: ComputeOp, made: Mapping[Buffer, ComputeOp]) -> int:
    """Count the leading axes of which each stage needs the same index of every other one."""
    rank = len(out.axis) - (out.reduce is None)
    for op in ops:
        for load in body_loads(op.body):
            if load.buffer in made:
                pairs = zip(load.indices, op.axis, load.buffer.shape, strict=False)
                same = [extent == axis.extent and (index is axis or extent == 1) for index, axis, extent in pairs]
                rank = min(rank, [*same, False].index(False))
    return rank


def _check_reduction(op: ComputeOp, rank: int) -> None:
    """Check that a reduction is one of rows, along the last axis of the operands; raise TemplateError for others."""
    if op.reduce is None:
        return
    last = op.reduce_axis[-1]
    along = [load for load in body_loads(op.body) if any(linear(index).coefficient(last) for index in load.indices)]
    neighbours = [[linear(index).coefficient(last) for index in load.indices] for load in along]
    steps = [linear(load.indices[-1]).coefficient(axis) for load in along for axis in op.axis]
    if (
        op.reduce.reducer.name not in ("sum", "prod", "max", "min")
        or math.prod(axis.extent for axis in op.axis[rank:]) > 1
        or not along
        or any(found[-1] != 1 or any(found[:-1]) for found in neighbours)
        or any(0 < step < last.extent for step in steps)  # windows that overlap
    ):
        raise TemplateError(f"rows: {op.name} reduces no rows along their last axis; use space='sketch'")


def _is_cheap(op: ComputeOp, rank: int) -> bool:
    """Decide if recomputing the elements of a stage's rows takes no slow function."""
    return not _has_slow_calls(op) and math.prod(axis.extent for axis in op.axis[rank:]) > 1


def _has_slow_calls(op: ComputeOp) -> bool:
    parts = (part for whole in body_parts(op.body) for part in walk(whole))
    return any(isinstance(part, Call) and part.name in SLOW for part in parts)


def _is_read_once(op: ComputeOp, ops: Sequence[ComputeOp]) -> bool:
    """Decide if a single access of a single reduction reads a stage, each element of a row once."""
    made = op.outputs[0].buffer
    readers = [other for other in ops for load in body_loads(other.body) if load.buffer is made]
    if len(readers) != 1 or readers[0].reduce is None:
        return False
    reader = readers[0]
    return math.prod(op.outputs[0].shape) == math.prod(axis.extent for axis in (*reader.axis, *reader.reduce_axis))


def is_slow(found: Rows, op: ComputeOp) -> bool:
    """Decide if a stage, or one inlined into it, computes slow functions."""
    inside = (tensor.op for tensor in op.inputs)
    return _has_slow_calls(op) or any(is_slow(found, each) for each in inside if each in found.inlined)
