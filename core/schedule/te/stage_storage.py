"""Stage methods for storage: the place and form of values; transform_layout is refused."""

from __future__ import annotations

from typing import NoReturn

from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.loops.passes.notes import STORED
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.schedule import LoopRef
from pegbox.schedule.state.buffers import check_scope
from pegbox.schedule.state.circular_buffer import keeps_nothing
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.replay_state import ReplayState
from pegbox.schedule.te.stage_base import At, StageBase, record, te_method
from pegbox.shown import value_text


@te_method
def set_scope(stage: StageBase, scope: str) -> None:
    """Keep the stage's values in another kind of memory: "global", "local", "shared", "shared.dyn" or "warp".

    Raises:
        ScheduleError: an unknown scope, or the stage is an output.
    """
    check_scope(scope)
    _check_own(stage, "cache_write makes a stage of its own for it")
    record(stage, ("scope",), "set_scope", scope)


@te_method
def storage_align(stage: StageBase, axis: IterVar, factor: int, offset: int) -> None:
    """Pad the stage's buffer, so that neighbours along an axis are `factor * n + offset` elements apart.

    Raises:
        ScheduleError: the axis is not an axis of the operation, or is the last one, the factor is below one, the offset
            is outside `range(factor)`, or the stage is an output.
    """
    _check_own(stage, "cache_write makes a stage of its own for it")
    names = ", ".join(iv.name for iv in stage.op.axis)
    if not any(iv is axis for iv in stage.op.axis):
        raise ScheduleError("not one of its axes", f"give one of op.axis: {names}")
    if axis is stage.op.axis[-1]:
        raise ScheduleError("elements along its last axis are neighbours", f"give another one of {names}")
    size, rest = integer(factor), integer(offset)
    if size is None or size < 1:
        raise ScheduleError(f"factor = {value_text(factor)}", "give a number of elements, 1 or more")
    if rest is None or not 0 <= rest < size:
        raise ScheduleError(f"offset = {value_text(offset)}", f"give one in range({size})")
    record(stage, ("storage_align", axis), "storage_align", axis, size, rest)


@te_method
def double_buffer(stage: StageBase) -> None:
    """Make the values of the next iteration, of the loop where the stage is attached, while these are used.

    Raises:
        ScheduleError: the stage is an output.
    """
    _check_own(stage, "cache_write or cache_read makes a stage of its own")
    record(stage, ("double_buffer",), "double_buffer")


@te_method
def rolling_buffer(stage: StageBase) -> None:
    """Keep an iteration's values for the next one, of the loop where the stage is attached or one around it.

    Before, with a window of 3::

        for i.outer in range(2):
            B = alloc(float32[6], global)
            for i in range(6):
                B[i] = A[i.outer * 4 + i] + 1.0
            ... B[i.inner], B[i.inner + 1], B[i.inner + 2]

    After::

        B = alloc(float32[6], global)
        for i.outer in range(2):
            for i in range(6):
                if i.outer < 1 or i >= 2:
                    B[(i.outer * 4 + i) % 6] = A[i.outer * 4 + i] + 1.0
            ... B[(i.outer * 4 + i.inner) % 6] ...

    If no iteration needs another one's values, nothing changes.

    Raises:
        ScheduleError: the stage is an output; when lowered: it is not attached, or the loop or one inside it is
            parallel, vectorized or bound to threads.
    """
    _check_own(stage, "cache_write makes a stage of its own for it")
    record(stage, ("rolling_buffer",), "rolling_buffer")


@te_method
def store_in(stage: StageBase, output: StageBase) -> None:
    """Keep the stage's values in an output, each at the element computed from it.

    Before `s[P].store_in(s[B])`::

        for i in range(8):
            P = alloc(float32[16], global)
            for j in range(16):
                P[j] = exp(A[i, j])
            ...
            for j in range(16):
                B[i, j] = P[j] * s[0]

    After::

        for i in range(8):
            for j in range(16):
                B[i, j] = exp(A[i, j])
            ...
            for j in range(16):
                B[i, j] = B[i, j] * s[0]

    Raises:
        ScheduleError: the stage is an output, or the other stage is none, does not read it, or has other shapes or
            types.
        LoweringError: when lowered: the output's element needs others than its own, or is not the last that needs it,
            or an iteration of the loops around would overwrite elements of another one.
    """
    _check_own(stage, "its values are there")
    if not isinstance(output, StageBase) or not output.is_output:
        raise ScheduleError(f"{value_text(output)} is not an output's stage", "give one, as s[B]")
    (own, *more), target = stage.op.outputs, output.op.outputs[0]
    if more or own not in output.op.inputs or (own.shape, own.dtype) != (target.shape, target.dtype):
        problem = f"{output.op.name} is not computed from {stage.op.name} element by element"
        raise ScheduleError(problem, "store only a stage with the same axes and type there")
    record(stage, ("store_in",), "store_in", output)


@te_method
def transform_layout(stage: StageBase, mapping_function: object) -> NoReturn:
    """Refused: `tir.Schedule` has it.

    Raises:
        ScheduleError: always; it names the ways that there are.
    """
    raise ScheduleError(
        f"TE stages of pegbox store {stage.op.name} in the order of its axes",
        "cache_write after splits and reorders stores tiles, order= of cache_read and cache_write another order of the "
        "axes; tir.Schedule(te.create_prim_func(...)).transform_layout does any mapping",
    )


def _check_own(stage: StageBase, remedy: str) -> None:
    if stage.is_output:
        raise ScheduleError(f"{stage.op.name} is an output, kept where and as the caller has it", remedy)


def infer_scope(replay: ReplayState, stage: StageBase, loop: LoopRef | None = None) -> None:
    """Set the scope of a stage's buffers; without one, below threads they are local, below blocks of threads shared."""
    replay.step = stage.steps.get(("scope",))
    sch, block = replay.sch, replay.block(stage)
    scope = None if replay.step is None else replay.step.args[0]
    if scope is None and loop is not None:
        target = sch.tree.loops[loop.var]
        above = [x.kind for x in (*sch.tree.ancestors(target), target) if x.kind.is_bound]
        scope = "local" if any(kind.waits for kind in above) else "shared" if above else None
    if scope is None:
        return
    for number, buffer in enumerate(written_buffers(sch.tree.blocks[block.name].block)):
        if replay.step or (buffer.scope == "global" and buffer in sch.func.allocs):
            sch.set_scope(block, number, scope)


def replay_storage_align(replay: ReplayState, stage: StageBase, step: Step) -> None:
    axis, factor, offset = step.args
    for number in range(len(stage.op.outputs)):
        replay.sch.storage_align(replay.block(stage), number, stage.op.axis.index(axis), factor, offset)


def replay_double_buffer(replay: ReplayState, stage: StageBase, step: Step) -> None:
    if not isinstance(stage.attach, At):
        raise ScheduleError(f"double_buffer: {stage.op.name} is made once, whole", "compute_at a loop of its consumer")
    replay.sch.annotate(replay.block(stage), "double_buffer_scope", 0)


def replay_store_in(replay: ReplayState, stage: StageBase, step: Step) -> None:
    (output,) = step.args
    replay.sch.annotate(replay.block(stage), STORED, output.op.outputs[0].name)


def replay_rolling_buffer(replay: ReplayState, stage: StageBase, step: Step) -> None:
    """Roll the buffer once all loops are final. If nothing is needed twice, nothing is kept, as in TVM."""
    sch, block, place = replay.sch, replay.block(stage), stage.place
    if keeps_nothing(sch.tree, written_buffers(sch.tree.blocks[block.name].block)[0]):
        return
    try:
        sch.rolling_buffer(block, 0)
    except ScheduleError as error:
        around = replay.live(place.stage).get(place.loop) if isinstance(place, At) else None
        replay.refuse(error, around or next(iter(sch.get_loops(block)), None))
