"""`ScanOp`: a recurrence, each row of which is computed from the rows before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from pegbox.compute.axis import IterVar
from pegbox.compute.tensor import ComputeOp, Operation, Tensor, outputs_of, owner, read_buffers
from pegbox.expr.nodes import Expr, Select


class ScanOp(ComputeOp):
    """A computation that reads earlier rows of its own outputs, the states.

    Each expression of the body is a `Select`: the first `rows` rows are those of an initial tensor, a later one is
    computed from the rows before it. Rows are counted along the dimension `time`.

    Attributes:
        cells: the operations between the states and their updates. They read the states and run once for each row.
        cell_axes: the axis of each cell that counts the rows.
        updates: the arguments of `te.scan`. Their stage is that of the scan, unless they are cells.
    """

    __slots__ = ("cell_axes", "cells", "rows", "time", "updates")

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        *,
        time: int,
        rows: int,
        updates: Sequence[Tensor],
        attrs: Mapping[str, Any],
        tag: str,
    ) -> None:
        super().__init__(name, axis, (), attrs, tag)
        self.outputs = outputs_of(self, [(tuple(iv.extent for iv in axis), update.dtype) for update in updates])
        self.time, self.rows, self.updates = time, rows, tuple(updates)
        self.define((), (), ())

    def define(self, body: tuple[Expr, ...], cells: Sequence[ComputeOp], cell_axes: Sequence[IterVar]) -> None:
        """Set the expressions, after the construction because they refer to the operation's own outputs."""
        self.body, self.cells, self.cell_axes = body, tuple(cells), tuple(cell_axes)
        read = dict.fromkeys(owner(buffer) for buffer in read_buffers(body))
        self._inputs = tuple(tensor for tensor in read if tensor not in self.outputs)

    def over(self, axis: tuple[IterVar, ...]) -> ScanOp:
        """Return a scan over other axes; `define` sets its expressions."""
        made = copy(self)
        made._axis, made._inputs = axis, ()
        made.outputs = outputs_of(made, [(tuple(iv.extent for iv in axis), t.dtype) for t in self.outputs])
        return made

    def rebuilt(self, body: tuple[Expr, ...]) -> ComputeOp:
        op = copy(self)
        op.define(body, self.cells, self.cell_axes)
        return op

    def has_member(self, op: Operation) -> bool:
        """Decide if an operation is the scan, or one of its cells, possibly rewritten."""
        mine = {tensor.buffer for each in self.members for tensor in each.outputs}
        return any(tensor.buffer in mine for tensor in op.outputs)

    def row_axis(self, op: Operation) -> IterVar | None:
        """Return the axis of a cell that counts the rows; None for another operation."""
        buffers = {tensor.buffer for tensor in op.outputs}
        pairs = zip(self.cells, self.cell_axes, strict=True)
        return next((axis for cell, axis in pairs if any(t.buffer in buffers for t in cell.outputs)), None)

    @property
    def scan_axis(self) -> IterVar:
        """The axis that counts the rows."""
        return self.axis[self.time]

    @property
    def spatial_axis_(self) -> tuple[IterVar, ...]:
        """The other axes; the name is TVM's."""
        return self.axis[: self.time] + self.axis[self.time + 1 :]

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        return (self.scan_axis, *self.spatial_axis_)

    @property
    def starts(self) -> tuple[Expr, ...]:
        """The elements of the first rows, for each state."""
        return tuple(expr.a for expr in self.body if isinstance(expr, Select))

    @property
    def steps(self) -> tuple[Expr, ...]:
        """The elements of a later row, for each state."""
        return tuple(expr.b for expr in self.body if isinstance(expr, Select))

    @property
    def members(self) -> tuple[Operation, ...]:
        return (*self.cells, self)

    @property
    def sources(self) -> tuple[Tensor, ...]:
        own = {tensor.buffer for op in self.members for tensor in op.outputs}
        read = dict.fromkeys(tensor for op in self.members for tensor in op.inputs)
        return tuple(tensor for tensor in read if tensor.buffer not in own)
