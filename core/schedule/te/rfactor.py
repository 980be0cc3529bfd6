"""rfactor of TE: adds a stage of partial results to the compute graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pegbox.compute.axis import IterVar, Range
from pegbox.compute.reducer import Reduce
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import ScheduleError
from pegbox.expr.build import TRUE, all_of, index, select
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Expr, Load, Var
from pegbox.expr.visit import substitute
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.base import TEScheduleBase
from pegbox.schedule.te.relations import axes_of_loops, touched_by
from pegbox.schedule.te.stage import Stage
from pegbox.schedule.te.stage_base import Subject, loops_in, moved, te_method
from pegbox.shown import value_text


class RfactorRewrites(TEScheduleBase):
    """Partial results of reductions."""

    @te_method
    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Tensor | tuple[Tensor, ...]:
        """Let each iteration of a reduce axis reduce into its own element; `tensor` then combines these elements.

        The new stage `B.rf` has the axes `axis` and those of `tensor`. It reduces over the reduce axes unrelated to
        `axis`, as they are scheduled now, then over the other loops made from the same axis. The stage of `tensor`
        keeps its spatial loops and reduces over `AXIS.v`.

        Args:
            axis: a present reduce loop of the stage, after splits and fusions.
            factor_axis: the place of `axis` among the axes of the new stage; negative counts from the end.

        Returns the new tensor, or a tuple of tensors if the reduction has several outputs.

        Before `rfactor(B, k.inner)`::

            for i in range(8):
                B[i] = 0.0
                for k.outer in range(3):
                    for k.inner in range(4):
                        if k.outer * 4 + k.inner < 10:
                            B[i] = B[i] + A[i, k.outer * 4 + k.inner]

        After::

            for k.inner in range(4):
                for i in range(8):
                    B.rf[k.inner, i] = 0.0
                    for k.outer in range(3):
                        if k.outer * 4 + k.inner < 10:
                            B.rf[k.inner, i] = B.rf[k.inner, i] + A[i, k.outer * 4 + k.inner]
            for i in range(8):
                B[i] = 0.0
                for k.inner.v in range(4):
                    B[i] = B[i] + B.rf[k.inner.v, i]

        Raises:
            ScheduleError: the tensor is not a reduction, `axis` is not a reduce loop of it, a loop was fused from
                spatial and reduce ones, or `factor_axis` is not a place among the axes.
        """
        stage = self[tensor]
        reduce, place = _checked(stage, axis, factor_axis)
        split = _Split.of(stage, axis)
        partial = ComputeOp(self._name(f"{stage.op.name}.rf"), *_partial(stage.op, reduce, split, place))
        partial = partial.in_scope(stage.op.outputs[0].buffer.scope)
        over = IterVar(f"{axis.name}.v", Range(0, axis.extent), "reduce")
        where = (*stage.op.axis[:place], over, *stage.op.axis[place:])
        values = tuple(Load(t.buffer, where) for t in partial.outputs)
        stage.op = stage.op.rebuilt(tuple(Reduce(reduce.reducer, values, (over,), TRUE, n) for n in range(len(values))))
        new = self._insert_before(stage, partial)
        new.leaf_iter_vars = [*partial.axis, *split.loops]
        loops = {axis: split.factor} | {iv: iv for iv in split.loops}
        stage.leaf_iter_vars = [iv for iv in stage.leaf_iter_vars if iv not in loops]
        taken = {subject: step for subject, step in stage.steps.items() if _is_reduce(subject)}
        stage.steps = {subject: step for subject, step in stage.steps.items() if subject not in taken}
        kept = {s: step for s, step in taken.items() if s[0] != "loops" or step in split.relations}
        new.steps |= moved(kept, lambda value: loops.get(value, value) if isinstance(value, IterVar) else value)
        self._attached_to(new, stage, loops)
        stage.leaf_iter_vars.append(over)
        return partial.outputs if len(partial.outputs) > 1 else partial.outputs[0]


@dataclass(frozen=True, slots=True)
class _Split:
    """A stage's reduce loops: `factor` replaces one of them, `loops` are the others.

    `axes` are those of the partial results' reduction: first the operation's own axes unrelated to the factored loop,
    with their splits and fusions (`relations`), then the other loops of its axis. `values` are the operation's other
    reduce axes in terms of those, `conditions` keep them in their domains.
    """

    factor: IterVar
    axes: tuple[IterVar, ...]
    loops: tuple[IterVar, ...]
    relations: tuple[Step, ...]
    values: Mapping[Var, Expr]
    conditions: Sequence[Expr]

    @staticmethod
    def of(stage: Stage, axis: IterVar) -> _Split:
        factor = IterVar(axis.name, Range(0, axis.extent), "spatial")
        relations = [r for r in stage.relations if _is_reduce(r.results)]
        touched = touched_by(relations, axis)
        own = tuple(iv for iv in stage.op.reduce_axis if iv not in touched)
        leaves = [iv for iv in stage.leaf_iter_vars if iv.kind == "reduce" and iv is not axis]
        rest = tuple(iv for iv in leaves if iv in touched)
        # Loops count from zero; an axis of the operation may not.
        known: dict[IterVar, Expr] = {iv: iv - index(iv.dom.min) if iv.dom.min else iv for iv in rest}
        of_axis = [r for r in relations if touched.issuperset(loops_in(r.args))]
        known, conditions = axes_of_loops(of_axis, {**known, axis: factor})
        inside = (*own, *rest)
        values: dict[Var, Expr] = {iv: known[iv] + index(iv.dom.min) for iv in stage.op.reduce_axis if iv not in inside}
        loops = (*(iv for iv in leaves if iv not in touched), *rest)
        return _Split(factor, inside, loops, tuple(r for r in relations if r not in of_axis), values, conditions)


def _is_reduce(values: Subject) -> bool:
    return any(loop.kind == "reduce" for loop in loops_in(values))


def _partial(op: ComputeOp, reduce: Reduce, split: _Split, place: int) -> tuple[tuple[IterVar, ...], tuple[Expr, ...]]:
    """Return the axes and the body of the stage of partial results."""
    own = tuple(IterVar(iv.name, iv.dom, iv.kind) for iv in op.axis)
    mapping: dict[Var, Expr] = {**dict(zip(op.axis, own, strict=True)), **split.values}
    sources = tuple(substitute(source, mapping) for source in reduce.sources)
    condition = all_of([*split.conditions, substitute(reduce.condition, mapping)])
    axes = (*own[:place], split.factor, *own[place:])
    if split.axes:
        return axes, tuple(Reduce(reduce.reducer, sources, split.axes, condition, n) for n in range(len(sources)))
    identity = reduce.reducer.identity(tuple(s.dtype for s in sources))
    return axes, tuple(select(condition, s, e) for s, e in zip(sources, identity, strict=True))


def _checked(stage: Stage, axis: IterVar, factor_axis: object) -> tuple[Reduce, int]:
    """Return the reduction, and the place of the new axis."""
    op = stage.op

    if op.reduce is None:
        raise ScheduleError(f"{op.name} is not a reduction", "give a stage that reduces")
    if op.reduce.reducer.ordered:
        raise ScheduleError(
            f"the reduction of {op.name} is ordered, and partial results would not be combined in order",
            "write the partial results as a stage of the computation",
        )
    stage.position(axis)
    for relation in stage.relations:
        if len({loop.kind for loop in loops_in(relation.args)}) > 1:
            raise ScheduleError(
                f"{relation.results[0].name} was fused from a spatial and a reduce loop",
                "fuse spatial loops with each other, and reduce loops with each other",
            )
    if axis.kind != "reduce":
        leaves = ", ".join(iv.name for iv in stage.leaf_iter_vars if iv.kind == "reduce")
        raise ScheduleError(f"{axis.name} is a spatial loop", f"give a reduce loop: {leaves}")
    if stage.tensorized is not None:
        raise ScheduleError(
            f"{op.name} is tensorized by {stage.tensorized.args[1]} already", "rfactor first, then tensorize"
        )
    rank, given = len(op.axis), integer(factor_axis)
    if given is None or not -rank - 1 <= given <= rank:
        raise ScheduleError(
            f"factor_axis={value_text(factor_axis)} is not a place among {rank} axes",
            f"give one from {-rank - 1} to {rank}",
        )
    return op.reduce, given if given >= 0 else given + rank + 1
