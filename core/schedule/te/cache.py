"""cache_read and cache_write of TE: add a copy stage to the compute graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from pegbox.checks import check_list
from pegbox.compute.axis import IterVar, Range
from pegbox.compute.reducer import Reduce, map_body
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import ComputeOp, ExternOp, Operation, Tensor, read_buffers
from pegbox.errors import ScheduleError
from pegbox.expr.build import all_of, cast, select
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Expr, Load, Var
from pegbox.expr.visit import rewrite, substitute
from pegbox.schedule.state.buffers import check_scope
from pegbox.schedule.te.base import TEScheduleBase
from pegbox.schedule.te.relations import axes_of_loops, loops_of_axes
from pegbox.schedule.te.stage import Stage
from pegbox.schedule.te.stage_base import loops_in, te_method
from pegbox.shown import value_text


class CacheRewrites(TEScheduleBase):
    """Copies of tensors that stages read and write."""

    @overload
    def cache_write(self, tensor: Tensor, scope: str = "local", *, order: Sequence[int] | None = None) -> Tensor: ...

    @overload
    def cache_write(
        self, tensor: Sequence[Tensor], scope: str = "local", *, order: Sequence[int] | None = None
    ) -> list[Tensor]: ...

    @te_method
    def cache_write(
        self, tensor: Tensor | Sequence[Tensor], scope: str = "local", *, order: Sequence[int] | None = None
    ) -> Tensor | list[Tensor]:
        """Compute `tensor` into a separate buffer first; the stage of `tensor` becomes the copy out of it.

        The new stage has fresh spatial axes and the original's reduce axes. Returns the new tensor.

        If the spatial loops of `tensor` were split, fused or ordered before, the new buffer has one dimension for each
        of them, in their order, as in TVM; the copy begins with plain axes again. There is padding if a split does not
        divide.

        Args:
            tensor: one tensor, or all outputs of one operation (such as argmax), for which a list is returned.
            order: the axes of `tensor` in the order of the new buffer: [1, 0] for a transposed one. The copy then keeps
                its loops.

        Raises:
            ScheduleError: the scope is unknown, the order is not one of the axes, not all outputs of one operation are
                given, or its reduce axes were scheduled already.
        """
        given = [tensor] if isinstance(tensor, Tensor) else _tensors("tensor", tensor)
        if not given:
            raise ScheduleError("no tensor given", "give one, or all outputs of one operation")
        stage = self[given[0]]
        op = stage.op
        if isinstance(op, ExternOp):
            raise ScheduleError(f"{op.name} is a statement of te.extern", "copy what it makes with a te.compute")
        if isinstance(op, ScanOp):
            raise ScheduleError(
                f"{op.name} is a scan, which reads its own rows", "copy what it makes with a te.compute"
            )
        check_scope(scope)
        _check_outputs(op, given)
        if any(map(stage.is_scheduled, op.reduce_axis)):
            raise ScheduleError(f"the reduce axes of {op.name} are scheduled already", "call cache_write first")
        layout = _Layout.of_order(op, _order(order, len(op.axis)))
        if order is None and layout.loops != (loops := tuple(iv for iv in stage.leaf_iter_vars if iv.kind != "reduce")):
            layout = _Layout.of_loops(stage, loops)
        body = tuple(map(layout.body, op.body))
        cached = ComputeOp(self._name(f"{op.name}.{scope}"), layout.axes, body).in_scope(scope)
        stage.op = op.rebuilt(tuple(Load(made.buffer, layout.places) for made in cached.outputs))
        stage.leaf_iter_vars = [iv for iv in stage.leaf_iter_vars if iv not in op.reduce_axis]
        moved = {iv: iv for iv in op.reduce_axis}
        if layout.relaid:
            moved |= dict(zip(layout.loops, layout.axes, strict=True))
            gone = {iv: stage.leaf_of(iv) for relation in stage.relations for iv in loops_in(relation.args)}
            moved |= {iv: moved[leaf] for iv, leaf in gone.items() if leaf in moved}
            stage.restart()
        self._attached_to(self._insert_before(stage, cached), stage, moved)
        if isinstance(tensor, Tensor):
            return cached.outputs[0]
        return [cached.outputs[each.value_index] for each in given]

    @te_method
    def cache_read(
        self,
        tensor: Tensor,
        scope: str,
        readers: Tensor | Operation | Sequence[Tensor | Operation],
        *,
        order: Sequence[int] | None = None,
    ) -> Tensor:
        """Copy `tensor` into a separate buffer, which `readers` then read. Returns the new tensor.

        Args:
            order: the axes of `tensor` in the order of the copy: [1, 0] for a transposed one.

        Raises:
            ScheduleError: the scope is unknown, the order is not one of the axes, a reader does not read the tensor, or
                there is none.
        """
        _tensors("tensor", [tensor])
        check_scope(scope)
        stages = self._readers(tensor, readers)
        places = _order(order, tensor.ndim)
        axis = tuple(IterVar(f"ax{i}", Range(0, extent), "spatial") for i, extent in enumerate(tensor.shape))
        ordered = tuple(axis[place] for place in places)
        body = (Load(tensor.buffer, axis),)
        cached = ComputeOp(self._name(f"{tensor.name}.{scope}"), ordered, body).in_scope(scope)
        copy = cached.outputs[0].buffer

        def moved(expr: Expr) -> Expr | None:
            if not isinstance(expr, Load) or expr.buffer is not tensor.buffer:
                return None
            return Load(copy, tuple(rewrite(expr.indices[place], moved) for place in places))

        for stage in stages:
            stage.op = stage.op.rebuilt(tuple(map_body(e, lambda x: rewrite(x, moved)) for e in stage.op.body))
        self._insert_before(min(stages, key=self.stages.index), cached)
        return cached.outputs[0]

    def _readers(self, tensor: Tensor, readers: Tensor | Operation | Sequence[Tensor | Operation]) -> list[Stage]:
        """Return the given stages, all of which read the tensor."""
        wanted = "a tensor or an operation that reads it, or several of these"
        given = [readers] if isinstance(readers, Tensor | Operation) else readers
        given = check_list("readers", given, wanted, error=ScheduleError)
        stages = [self[reader] for reader in given]
        known = [stage.op.name for stage in self.stages if tensor.buffer in read_buffers(stage.op.body)]
        for stage in stages:
            if isinstance(stage.op, ExternOp):
                raise ScheduleError(f"{stage.op.name} is a statement of te.extern", "give it a copy as its input")
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
        return stages


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a cached operation's result: an axis for each of `loops`.

    `places` are the indices of an element in terms of the operation's own axes, `values` these axes in terms of the
    new ones, where the conditions hold; beyond is padding.
    """

    loops: tuple[IterVar, ...]
    axes: tuple[IterVar, ...]
    places: tuple[Expr, ...]
    values: Mapping[Var, Expr]
    conditions: Sequence[Expr] = ()
    relaid: bool = False

    @staticmethod
    def of_order(op: ComputeOp, places: Sequence[int]) -> _Layout:
        """Return a layout of the operation's axes in some order."""
        ordered = tuple(op.axis[place] for place in places)
        axes = tuple(IterVar(f"{iv.name}.c", iv.dom, iv.kind) for iv in ordered)
        return _Layout(ordered, axes, ordered, dict(zip(ordered, axes, strict=True)))

    @staticmethod
    def of_loops(stage: Stage, loops: tuple[IterVar, ...]) -> _Layout:
        """Return a layout of the stage's spatial loops."""
        axes = tuple(IterVar(f"{iv.name}.c", Range(0, iv.extent), "spatial") for iv in loops)
        known, conditions = axes_of_loops(stage.relations, dict(zip(loops, axes, strict=True)))
        there = loops_of_axes(stage.relations, {iv: iv for iv in stage.op.axis})
        values: dict[Var, Expr] = {iv: known[iv] for iv in stage.op.axis}
        return _Layout(loops, axes, tuple(there[iv] for iv in loops), values, conditions, relaid=True)

    def body(self, expr: Expr) -> Expr:
        """Rewrite `expr` for the new operation."""
        inside = all_of(self.conditions)
        new = map_body(expr, lambda x: substitute(x, self.values))
        if isinstance(new, Reduce):
            return Reduce(new.reducer, new.sources, new.axes, all_of([inside, new.condition]), new.value_index)
        return select(inside, new, cast(new.dtype, 0))


def _order(order: object, ndim: int) -> list[int]:
    """Return a permutation of the axes; raise ScheduleError for anything else."""
    if order is None:
        return list(range(ndim))
    wanted = f"the numbers 0 to {ndim - 1} in some order"
    given = [integer(place) for place in check_list("order", order, wanted, error=ScheduleError)]
    if sorted(place for place in given if place is not None) != list(range(ndim)) or len(given) != ndim:
        raise ScheduleError(f"order={value_text(order)} is not an order of the {ndim} axes", f"give {wanted}")
    return [place for place in given if place is not None]


def _tensors(name: str, given: object) -> list[Tensor]:
    wanted = "a tensor that te.placeholder or te.compute made"
    return check_list(name, given, wanted, error=ScheduleError, of=Tensor)


def _check_outputs(op: ComputeOp, given: Sequence[Tensor]) -> None:
    """Raise ScheduleError unless the tensors are exactly the outputs of the operation."""
    buffers = [t.buffer for t in op.outputs]
    names = ", ".join(b.name for b in buffers)
    for each in given:
        if each.buffer not in buffers:
            raise ScheduleError(
                f"{each.name} is not an output of {op.name}, whose outputs are {names}",
                "cache the outputs of one operation at a time",
            )
    if len({id(each.buffer) for each in given}) != len(given):
        raise ScheduleError(f"a tensor is given twice in {[t.name for t in given]}", "give each once")
    if len(given) != len(buffers):
        raise ScheduleError(f"{op.name} makes {names} at once, of which {len(given)} is given", f"give all: [{names}]")
