"""Replay of a TE schedule on the loop IR: from stages to a scheduled program.

Stages go from the outputs back to the inputs. A stage that is attached is first moved to its consumer's loop, which
gives it one loop per axis, over the region that is needed there; then its own splits, orders and annotations apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pegbox.compute.axis import IterVar
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import ComputeOp, Tensor, TensorBuffer
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer
from pegbox.loops.foreign import with_code
from pegbox.loops.from_compute import block_names, function_from_ops
from pegbox.loops.nodes import ForKind, Function
from pegbox.schedule.analysis import read_buffers, written_buffers
from pegbox.schedule.analysis.recurrence import check_all_rows
from pegbox.schedule.schedule import BlockRef, LoopRef, Schedule
from pegbox.schedule.state.rolls import keeps_nothing
from pegbox.schedule.te.call import ReplayStep
from pegbox.schedule.te.draft import Draft
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import At, FuseRelation, Inline, Relation, SplitRelation, Stage, UnitRelation
from pegbox.schedule.te.stage_attach import attach_error
from pegbox.schedule.te.stage_threads import infer_scope, start_threads

_Placed: TypeAlias = Mapping[int, Mapping[IterVar, LoopRef]]
"""The loops of the stages that have their place, by the ids of the stages."""


def replay(schedule: TESchedule, args: Sequence[Tensor], name: str = "main", draft: Draft | None = None) -> Schedule:
    """A `tir.Schedule` on which everything that the TE schedule says has been done.

    Args:
        args: the function's parameters in call order; placeholders and outputs. An intermediate may stand there too:
            it is an output then, unless it is inlined: then nothing is written to it, as in TVM.
        draft: for a program that is only shown; it gets what would be refused otherwise, as far as it can be shown.

    Raises:
        ScheduleError: an output or input is missing from `args`, or a relation is not legal. It names the line of the
            user's code that asked for what is refused.
    """
    step = ReplayStep(draft)
    try:
        return _replay(schedule, args, name, step)
    except ScheduleError as error:
        step.locate(error)
        raise


def _replay(schedule: TESchedule, args: Sequence[Tensor], name: str, step: ReplayStep) -> Schedule:
    ops = [stage.op for stage in schedule.stages]
    outputs = check_arguments(schedule, args, step.draft)
    inlined = {t.buffer for stage in schedule.stages if isinstance(stage.attach, Inline) for t in stage.op.outputs}
    params = tuple(t.buffer for t in args)
    written = [b for b in outputs if b not in inlined]
    sch = Schedule(function_from_ops(ops, [b for b in params if b not in inlined], written, name))
    sch.legality.lift()
    names = {id(op): label for op, label in block_names(ops).items()}
    blocks = {id(stage): sch.get_block(names[id(stage.op)]) for stage in schedule.stages}
    for stage in schedule.stages:
        if isinstance(stage.attach, Inline):
            step.asked = stage, ("compute_inline",), None
            sch.compute_inline(blocks[id(stage)])
    loops: dict[int, dict[IterVar, LoopRef]] = {}
    for stage in reversed(schedule.stages):
        if not isinstance(stage.attach, Inline):
            loops[id(stage)] = _stage(sch, stage, blocks[id(stage)], loops, schedule.stages, step)
    step.asked = schedule.stages[0], (), None
    if any(isinstance(stage.op, ScanOp) for stage in schedule.stages):
        check_all_rows(sch.tree)
    for stage in schedule.stages:
        if id(stage) in loops:
            _prefetch(sch, stage, blocks[id(stage)], loops[id(stage)], step)
    for stage in schedule.stages:
        if stage.rolling and id(stage) in loops:
            _roll(sch, stage, blocks[id(stage)], loops, step)
    for stage in schedule.stages:
        if stage.tensorized is not None and id(stage) in loops:
            axis, intrin = stage.tensorized
            step.asked = stage, ("tensorize",), axis
            sch.tensorize(loops[id(stage)][axis], intrin)
    sch.update(with_code(sch.func, [code for stage in schedule.stages for code in stage.code]))
    if inlined & set(params):
        sch.update(replace(sch.func, params=params))
    if step.draft is not None:
        step.draft.finish(sch)
    return sch


def _prefetch(sch: Schedule, stage: Stage, block: BlockRef, live: Mapping[IterVar, LoopRef], step: ReplayStep) -> None:
    """Last of all: only when every stage has its place, it is known what is made where."""
    for hint in stage.prefetches:
        step.asked = stage, ("prefetch", "pragma"), hint.loop
        reads = read_buffers(sch.tree.blocks[block.name].block)
        # A stage whose scope was set has another buffer, of the same tensor.
        own = [n for n, b in enumerate(reads) if isinstance(b, TensorBuffer) and b.tensor is hint.tensor]
        if not own:
            raise ScheduleError(
                f"prefetch({hint.tensor.name}, {hint.loop.name}): {stage.op.name} does not read {hint.tensor.name} any "
                "more",
                f"it reads {', '.join(b.name for b in reads)}: prefetch one of these",
            )
        name = hint.tensor.name
        alone = [b.name for b in reads].count(name) == 1
        sch.prefetch(block, name if alone else own[0], live[hint.loop], hint.offset)


def _roll(sch: Schedule, stage: Stage, block: BlockRef, placed: _Placed, step: ReplayStep) -> None:
    """Roll the buffer once all loops are final. Where nothing is needed twice, nothing is kept, as in TVM."""
    step.asked = stage, ("rolling_buffer",), None
    if keeps_nothing(sch.tree, written_buffers(sch.tree.blocks[block.name].block)[0]):
        return
    try:
        sch.rolling_buffer(block, 0)
    except ScheduleError as error:
        place = stage.place
        around = placed[id(place.stage)].get(place.loop) if isinstance(place, At) else None
        step.refuse(error, around or next(iter(sch.get_loops(block)), None))


def check_arguments(schedule: TESchedule, args: Sequence[Tensor], draft: Draft | None = None) -> list[Buffer]:
    """The buffers among the arguments that the schedule writes.

    Raises:
        ScheduleError: an argument stands twice, an input or an output is missing, or another schedule computes one.
    """
    given = {t.buffer for t in args}
    if len(given) != len(args):
        raise ScheduleError(f"an argument stands twice in {[t.name for t in args]}")
    for tensor in schedule.placeholders:
        if tensor.buffer not in given:
            raise ScheduleError(
                f"the input {tensor.name} is missing from the arguments {[t.name for t in args]}", "add it to the list"
            )
    made = dict.fromkeys(t.buffer for stage in schedule.stages for t in stage.op.outputs)
    for stage in schedule.stages:
        for tensor in stage.op.outputs:
            if stage.is_output and tensor.buffer not in given:
                error = ScheduleError(
                    f"the output {tensor.name} is missing from the arguments {[t.name for t in args]}",
                    "add it to the list",
                )
                if draft is None:
                    raise error
                draft.add(error, None)
    for tensor in args:
        if isinstance(tensor.op, ComputeOp) and tensor.buffer not in made:
            error = ScheduleError(
                f"the argument {tensor.name} is computed, but not by this schedule, which makes "
                f"{', '.join(b.name for b in made)}"
            )
            if draft is None:
                raise error
            draft.add(error, None)
    return [t.buffer for t in args if t.buffer in made]


def _stage(
    sch: Schedule,
    stage: Stage,
    block: BlockRef,
    placed: _Placed,
    stages: Sequence[Stage],
    step: ReplayStep,
) -> dict[IterVar, LoopRef]:
    """Place one stage and give it its loops; returns the loops by iteration variable."""
    _place(sch, stage, block, placed, stages, step)
    axes = stage.op.loop_axes
    own = sch.get_loops(block)
    live = dict(zip(axes, own[len(own) - len(axes) :], strict=True))
    for relation in stage.relations:
        _relate(sch, stage, block, relation, live, step)
    step.asked = stage, ("reorder",), None
    _reorder(sch, block, [live[iv] for iv in stage.leaf_iter_vars])
    _annotate(sch, stage, live, step)
    step.asked = stage, ("env_threads", "set_store_predicate"), None
    start_threads(sch, stage, block, step)
    _store(sch, stage, block, step)
    return live


def _place(
    sch: Schedule, stage: Stage, block: BlockRef, placed: _Placed, stages: Sequence[Stage], step: ReplayStep
) -> None:
    """Move a stage to the loop that it is computed at, and set the scope of its buffer."""
    place = stage.place
    step.asked = stage, ("compute_at", "set_scope"), None
    if isinstance(place, At):
        other, loop = place.stage, place.loop
        around = placed.get(id(other), {})
        if loop not in around:
            raise attach_error(stage, place, stages)
        if not sch.get_consumers(block) and any(t in other.op.inputs for other in stages for t in stage.op.outputs):
            return  # simplification left out what reads it, such as a product by zero: it has no place
        # What is computed there depends on which threads share it.
        infer_scope(sch, stage, block, around[loop])
        sch.compute_at(block, around[loop])
    else:
        infer_scope(sch, stage, block)


def _relate(
    sch: Schedule, stage: Stage, block: BlockRef, relation: Relation, live: dict[IterVar, LoopRef], step: ReplayStep
) -> None:
    """Make the loops of a relation out of those that are there, in `live` too."""
    match relation:
        case SplitRelation(parent, outer, inner, factor, nparts):
            step.asked = stage, ("split",), parent
            whole = live.pop(parent)
            extent = sch.extent(whole)
            # A region may be smaller than the axis: a factor beyond it would only make empty iterations. But of
            # threads there are as many as were asked for.
            kind = stage.kinds.get(inner if factor is not None else outer, ForKind.SERIAL)
            most = 1 << 62 if kind.is_bound else extent
            factors = [None, min(factor, most)] if factor is not None else [min(nparts or 1, most), None]
            live[outer], live[inner] = sch.split(whole, factors=factors, names=(outer.name, inner.name))
        case FuseRelation(outer, inner, fused, order):
            step.asked = stage, ("fuse",), inner
            # The loops that become one may have been brought together by a reorder.
            _reorder(sch, block, [live[iv] for iv in order if iv in live])
            live[fused] = sch.fuse(live.pop(outer), live.pop(inner), name=fused.name)
        case UnitRelation(made):
            inside = [x for x in sch.get_loops(block) if x in live.values()]
            live[made] = sch.add_unit_loop(inside[0] if inside else block)
        case _:
            raise TypeError(f"unknown relation {relation!r}")


def _reorder(sch: Schedule, block: BlockRef, order: list[LoopRef]) -> None:
    if order and list(sch.get_loops(block)[-len(order) :]) != order:
        sch.reorder(*order)


def _annotate(sch: Schedule, stage: Stage, live: Mapping[IterVar, LoopRef], step: ReplayStep) -> None:
    for iv, kind in stage.kinds.items():
        step.asked = stage, ("vectorize", "unroll", "parallel", "bind", "pragma"), iv
        try:
            _set_kind(sch, live[iv], kind, stage.fixed_extents.get(iv))
        except ScheduleError as error:
            step.refuse(error, live[iv], kind)
    for iv, pragmas in stage.pragmas.items():
        step.asked = stage, ("pragma",), iv
        for name, value in pragmas.items():
            sch.annotate(live[iv], f"pragma_{name}", value)


def _set_kind(sch: Schedule, loop: LoopRef, kind: ForKind, extent: int | None) -> None:
    match kind:
        case ForKind.VECTORIZED:
            sch.vectorize(loop)
        case ForKind.UNROLLED:
            sch.unroll(loop)
        case ForKind.PARALLEL:
            sch.parallel(loop)
        case _ if kind.is_bound:
            sch.bind(loop, kind.value, extent=extent)
        case _:
            raise TypeError(f"unknown loop kind {kind!r}")


def _store(sch: Schedule, stage: Stage, block: BlockRef, step: ReplayStep) -> None:
    for number in range(len(stage.op.outputs)):
        for axis, (factor, offset) in stage.alignments.items():
            step.asked = stage, ("storage_align",), axis
            sch.storage_align(block, number, stage.op.axis.index(axis), factor, offset)
    step.asked = stage, ("double_buffer",), None
    if stage.doubled and not isinstance(stage.attach, At):
        raise ScheduleError(f"double_buffer: {stage.op.name} is made once, whole", "compute_at a loop of its consumer")
    if stage.doubled:
        sch.annotate(block, "double_buffer_scope", 0)


def lower_te(schedule: TESchedule, args: Sequence[Tensor], name: str = "main") -> Function:
    """The scheduled program (with blocks) that a TE schedule stands for."""
    return replay(schedule, args, name).func
