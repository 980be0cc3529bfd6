"""Loop nests for features, made from the stages of a TE schedule without lowering it.

It computes the same extents as `pegbox.schedule.te.replay` on the loop IR, by interval arithmetic without questions
about the numbers, so that one traced run serves thousands of configurations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pegbox.compute.axis import IterVar
from pegbox.compute.reducer import map_body
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer, Expr, Load
from pegbox.expr.visit import rewrite, substitute
from pegbox.features.circular_buffers import per_iteration
from pegbox.features.index import Loop, Sum, digit, fixed, reach
from pegbox.features.nest import BufferAccess, Nest, Statement, statements_of, unroll_steps
from pegbox.features.symbol import Quantity, ceil_div, least, most
from pegbox.features.traced import quantity
from pegbox.loops.from_compute import block_of
from pegbox.loops.nodes import ForKind
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import At, Inline, Stage


@dataclass(frozen=True)
class _Placed:
    """A stage with its loops."""

    path: tuple[Loop, ...]
    by_var: Mapping[IterVar, Loop]
    statements: tuple[Statement, ...]


def nest_of_stages(schedule: TESchedule, args: Sequence[Tensor]) -> Nest:
    """Make the nest of a TE schedule.

    Raises:
        ScheduleError: a stage is attached to a loop that is not there.
    """
    inlined: dict[Buffer, ComputeOp] = {}
    placed: dict[int, _Placed] = {}
    ops: dict[int, ComputeOp] = {}
    for stage in schedule.stages:
        op = _without(stage.op, inlined)
        if isinstance(stage.attach, Inline):
            inlined[op.outputs[0].buffer] = op
        else:
            ops[id(stage)] = op
    for stage in reversed(schedule.stages):
        if id(stage) in ops:
            placed[id(stage)] = _place(stage, ops[id(stage)], placed)
    found = [s for stage in schedule.stages if id(stage) in ops for s in placed[id(stage)].statements]
    if others := _merged_loops(schedule, placed):
        found = [statement.joined(others) for statement in found]
    return Nest(tuple(found), tuple(t.buffer for t in args))


def _without(op: ComputeOp, inlined: Mapping[Buffer, ComputeOp]) -> ComputeOp:
    """Inline the elements of inlined stages where they are read."""
    if not any(t.buffer in inlined for t in op.inputs):
        return op

    def leaf(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in inlined:
            return None
        source = inlined[expr.buffer]
        indices = [rewrite(index, leaf) for index in expr.indices]
        return substitute(source.body[0], dict(zip(source.axis, indices, strict=True)))

    return op.rebuilt(tuple(map_body(body, lambda e: rewrite(e, leaf)) for body in op.body))


def _place(stage: Stage, op: ComputeOp, placed: Mapping[int, _Placed]) -> _Placed:
    place = stage.place
    around: tuple[Loop, ...] = ()
    extents = {iv: quantity(iv.extent) for iv in op.loop_axes}
    bases = {iv: Sum(()) for iv in extents}
    if isinstance(place, At):
        host = placed.get(id(place.stage))
        if host is None or place.loop not in host.by_var:
            raise ScheduleError(f"{op.name} is attached to {place.loop.name}, which is not there")
        loop = host.by_var[place.loop]
        around = host.path[: host.path.index(loop) + 1]
        _narrow(op, around, placed, extents, bases)
        if ("rolling_buffer",) in stage.steps:
            extents |= {iv: per_iteration(extents[iv], bases[iv], around) for iv in op.axis}
    by_var, values = _loops(stage, extents)
    path = (*around, *(by_var[iv] for iv in stage.leaf_iter_vars))
    at = [bases[iv].plus(values[iv]) for iv in op.loop_axes]
    return _Placed(path, by_var, tuple(statements_of(block_of(op, op.name), at, path)))


def _narrow(
    op: ComputeOp,
    around: Sequence[Loop],
    placed: Mapping[int, _Placed],
    extents: dict[IterVar, Quantity],
    bases: dict[IterVar, Sum],
) -> None:
    """Restrict the axes to the elements that one iteration of the surrounding loops needs."""
    own = {t.buffer for t in op.outputs}
    needed: list[tuple[BufferAccess, Statement]] = [
        (access, statement)
        for host in placed.values()
        for statement in host.statements
        for access in statement.accesses
        if access.buffer in own and not access.is_write
    ]
    outer = set(around)
    for dim, iv in enumerate(op.axis):
        first: Sum | None = None
        whole = quantity(iv.extent)
        low: Quantity = 0
        high: Quantity = 0
        for access, statement in needed:
            index = access.indices[dim]
            start = fixed(index, outer)
            end = start.const + reach(index, set(statement.loops) - outer, whole - 1)
            low, high = (start.const, end) if first is None else (least(low, start.const), most(high, end))
            first = first or start
        if first is not None:
            extents[iv] = least(whole, high - low + 1)
            bases[iv] = Sum(first.terms, low)


def _merged_loops(schedule: TESchedule, placed: Mapping[int, _Placed]) -> dict[Loop, Loop]:
    """Find, for each loop that is merged into another one, the loop that remains."""
    others: dict[Loop, Loop] = {}
    for stage in schedule.stages:
        for step in stage.steps.values():
            if step.primitive == "merge":
                loop, other, other_loop = step.args
                for one, two in zip(_path_to(loop, stage, placed), _path_to(other_loop, other, placed), strict=False):
                    kept, left = others.get(two, two), others.get(one, one)
                    others |= {each: kept for each in (one, *others) if others.get(each, each) is left}
    return {loop: other for loop, other in others.items() if loop is not other}


def _path_to(loop: IterVar, stage: Stage, placed: Mapping[int, _Placed]) -> tuple[Loop, ...]:
    """Return the loops around a stage's loop, and that loop; empty if it does not exist, which lowering refuses."""
    found = placed.get(id(stage))
    last = None if found is None else found.by_var.get(loop)
    return () if found is None or last is None else found.path[: found.path.index(last) + 1]


def _loops(stage: Stage, extents: Mapping[IterVar, Quantity]) -> tuple[dict[IterVar, Loop], dict[IterVar, Sum]]:
    """Make the loops that remain after all relations, and the values of the axes in terms of them."""
    extent = dict(extents)
    for relation in stage.relations:
        match relation:
            case Step("split", (parent, factor, nparts), _, (outer, inner)):
                whole = extent[parent]
                small = least(quantity(factor if factor is not None else nparts or 1), whole)
                large = ceil_div(whole, small)
                extent[outer], extent[inner] = (large, small) if factor is not None else (small, large)
            case Step("fuse", (outer, inner), _, (fused,)):
                extent[fused] = extent[outer] * extent[inner]
            case _:
                extent[relation.results[0]] = 1
    kinds, pragmas = stage.kinds, stage.pragmas
    by_var = {}
    for iv in stage.leaf_iter_vars:
        notes = {f"pragma_{name}": value for name, value in pragmas.get(iv, {}).items()}
        by_var[iv] = Loop(iv.name, extent[iv], kinds.get(iv, ForKind.SERIAL), unroll_steps(notes))
    values = {iv: Sum(((loop, 1),)) for iv, loop in by_var.items()}
    for relation in reversed(stage.relations):
        match relation:
            case Step("split", (parent, *_), _, (outer, inner)):
                values[parent] = values[inner].plus(values[outer], extent[inner])
            case Step("fuse", (outer, inner), _, (fused,)):
                values[outer] = digit("floordiv", values[fused], extent[inner])
                values[inner] = digit("floormod", values[fused], extent[inner])
    return by_var, values
