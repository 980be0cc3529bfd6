"""cache_read and cache_write of TE: add a copy stage to the compute graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from pegbox.checks import check_list
from pegbox.compute.axis import IterVar, Range
from pegbox.compute.reducer import map_body
from pegbox.compute.tensor import ComputeOp, Operation, Tensor, read_buffers
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Expr, Load, Var
from pegbox.expr.visit import replace_buffers, substitute
from pegbox.schedule.state.buffers import check_scope
from pegbox.schedule.te.base import TEScheduleBase
from pegbox.schedule.te.stage_base import te_method


class CacheRewrites(TEScheduleBase):
    """Copies of what stages read and write."""

    @overload
    def cache_write(self, tensor: Tensor, scope: str = "local") -> Tensor: ...

    @overload
    def cache_write(self, tensor: Sequence[Tensor], scope: str = "local") -> list[Tensor]: ...

    @te_method
    def cache_write(self, tensor: Tensor | Sequence[Tensor], scope: str = "local") -> Tensor | list[Tensor]:
        """Compute `tensor` into a buffer of its own first; the stage of `tensor` becomes the copy out of it.

        The new stage has fresh spatial axes and the original's reduce axes. Returns the new tensor.

        Args:
            tensor: one tensor, or all outputs of one operation (of argmax, say), for which a list is returned.

        Raises:
            ScheduleError: an unknown scope, not all outputs of one operation are given, or its reduce axes were
                scheduled already.
        """
        given = [tensor] if isinstance(tensor, Tensor) else _tensors("tensor", tensor)
        if not given:
            raise ScheduleError("no tensor given", "give one, or all outputs of one operation")
        stage = self[given[0]]
        op = stage.op
        check_scope(scope)
        _check_outputs(op, given)
        if any(map(stage.is_scheduled, op.reduce_axis)):
            raise ScheduleError(f"the reduce axes of {op.name} are scheduled already", "call cache_write first")
        fresh = tuple(IterVar(f"{iv.name}.c", iv.dom, iv.kind) for iv in op.axis)
        mapping: dict[Var, Expr] = dict(zip(op.axis, fresh, strict=True))
        bodies = tuple(map_body(e, lambda x: substitute(x, mapping)) for e in op.body)
        cached = ComputeOp(self._name(f"{op.name}.{scope}"), fresh, bodies)
        for made in cached.outputs:
            made.buffer.scope = scope
        stage.op = op.rebuilt(tuple(Load(made.buffer, op.axis) for made in cached.outputs))
        stage.leaf_iter_vars = [iv for iv in stage.leaf_iter_vars if iv not in op.reduce_axis]
        self._attached_to(self._insert_before(stage, cached), stage, {iv: iv for iv in op.reduce_axis})
        if isinstance(tensor, Tensor):
            return cached.outputs[0]
        return [cached.outputs[each.value_index] for each in given]

    @te_method
    def cache_read(
        self, tensor: Tensor, scope: str, readers: Tensor | Operation | Sequence[Tensor | Operation]
    ) -> Tensor:
        """Copy `tensor` into a buffer of its own, which `readers` then read. Returns the new tensor.

        Raises:
            ScheduleError: an unknown scope, a reader does not read the tensor, or there is none.
        """
        _tensors("tensor", [tensor])
        check_scope(scope)
        wanted = "a tensor or an operation that reads it, or several of these"
        given = [readers] if isinstance(readers, Tensor | Operation) else readers
        given = check_list("readers", given, wanted, error=ScheduleError)
        stages = [self[reader] for reader in given]
        known = [stage.op.name for stage in self.stages if tensor.buffer in read_buffers(stage.op.body)]
        for stage in stages:
            if stage.op.name not in known:
                raise ScheduleError(
                    f"{stage.op.name} does not read {tensor.name}",
                    f"give stages that do: {', '.join(known)}",
                )
        if not stages:
            raise ScheduleError(
                "no readers given",
                f"give those that shall read the copy: {', '.join(known)}",
            )
        axis = tuple(IterVar(f"ax{i}", Range(0, extent), "spatial") for i, extent in enumerate(tensor.shape))
        cached = ComputeOp(self._name(f"{tensor.name}.{scope}"), axis, (Load(tensor.buffer, axis),))
        cached.outputs[0].buffer.scope = scope
        swap = {tensor.buffer: cached.outputs[0].buffer}
        for stage in stages:
            stage.op = stage.op.rebuilt(tuple(map_body(e, lambda x: replace_buffers(x, swap)) for e in stage.op.body))
        self._insert_before(min(stages, key=self.stages.index), cached)
        return cached.outputs[0]


def _tensors(name: str, given: object) -> list[Tensor]:
    wanted = "a tensor that te.placeholder or te.compute made"
    return check_list(name, given, wanted, error=ScheduleError, of=Tensor)


def _check_outputs(op: ComputeOp, given: Sequence[Tensor]) -> None:
    """Raises ScheduleError: the tensors are not exactly the outputs of the operation."""
    buffers = [t.buffer for t in op.outputs]
    names = ", ".join(b.name for b in buffers)
    for each in given:
        if each.buffer not in buffers:
            raise ScheduleError(
                f"{each.name} is not an output of {op.name}, whose outputs are {names}",
                "cache the outputs of one operation at a time",
            )
    if len({id(each.buffer) for each in given}) != len(given):
        raise ScheduleError(f"a tensor stands twice in {[t.name for t in given]}", "give each once")
    if len(given) != len(buffers):
        raise ScheduleError(f"{op.name} makes {names} at once, of which {len(given)} is given", f"give all: [{names}]")
