"""Stage methods for storage: set_scope, storage_align, double_buffer, and two that are refused."""

from __future__ import annotations

from typing import NoReturn

from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.schedule.state.buffers import check_scope
from pegbox.schedule.te.stage_base import StageBase, recorded, te_method


@recorded
def set_scope(stage: StageBase, scope: str) -> None:
    """Keep the stage's values in another kind of memory: "global", "local", "shared", "shared.dyn" or "warp".

    Raises:
        ScheduleError: an unknown scope, or the stage is an output.
    """
    check_scope(scope)
    _check_own(stage, "cache_write makes a stage of its own for it")
    stage.scope = scope


@recorded
def storage_align(stage: StageBase, axis: IterVar, factor: int, offset: int) -> None:
    """Pad the stage's buffer, so that neighbours along an axis stand `factor * n + offset` elements apart.

    Raises:
        ScheduleError: the axis is not an axis of the operation or the last one, a factor below one, an offset
            outside of `range(factor)`, or the stage is an output.
    """
    _check_own(stage, "cache_write makes a stage of its own for it")
    names = ", ".join(iv.name for iv in stage.op.axis)
    if not any(iv is axis for iv in stage.op.axis):
        raise ScheduleError("not one of its axes", f"give one of op.axis: {names}")
    if axis is stage.op.axis[-1]:
        raise ScheduleError("elements along its last axis are neighbours", f"give another one of {names}")
    size, rest = integer(factor), integer(offset)
    if size is None or size < 1:
        raise ScheduleError(f"factor = {factor!r}", "give a number of elements, 1 or more")
    if rest is None or not 0 <= rest < size:
        raise ScheduleError(f"offset = {offset!r}", f"give one in range({size})")
    stage.alignments[axis] = (size, rest)


@recorded
def double_buffer(stage: StageBase) -> None:
    """Make the values of the next iteration, of the loop where the stage is attached, while these are used.

    Raises:
        ScheduleError: the stage is an output.
    """
    _check_own(stage, "cache_write or cache_read makes a stage of its own")
    stage.doubled = True


@te_method
def rolling_buffer(stage: StageBase) -> NoReturn:
    """Refused: a buffer keeps no values from one iteration to the next.

    Raises:
        ScheduleError: always; it names the ways that there are.
    """
    raise ScheduleError(
        f"TE stages of pegbox have no rolling buffers ({stage.op.name})",
        "compute_at the consumer's loop computes rows anew, which costs little where few are needed twice",
    )


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
