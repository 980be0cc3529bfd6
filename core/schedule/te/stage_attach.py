"""Stage methods for the place of a stage: compute_at, compute_root, compute_inline."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.compute.axis import IterVar
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import ExternOp
from pegbox.errors import ScheduleError
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.te.replay_state import ReplayState
from pegbox.schedule.te.stage_base import PLACE, At, Inline, StageBase, loops_in, record, te_method
from pegbox.schedule.te.stage_storage import infer_scope
from pegbox.schedule.tree import with_allocs
from pegbox.shown import value_text


@te_method
def compute_at(stage: StageBase, parent: StageBase, loop: IterVar) -> None:
    """Compute this stage inside a loop of a consumer, as much as one iteration of the loop needs.

    Before `s[B].compute_at(s[C], i)`::

        for i in range(8):
            for j in range(4):
                B[i, j] = A[i, j] + 1.0
        for i in range(8):
            for j in range(4):
                C[i, j] = B[i, j] * 2.0

    After::

        for i in range(8):
            for j in range(4):
                B[0, j] = A[i, j] + 1.0
            for j in range(4):
                C[i, j] = B[0, j] * 2.0

    The loops of the two stages may be split, fused and ordered before or afterwards. If `loop` itself is split
    afterwards, the stage is computed in its inner part; it may be fused into the loop around it, but not with one
    inside.

    Raises:
        ScheduleError: this stage is an output, or `loop` is not a loop of `parent`; when lowered: another consumer
            is not inside the loop, the loop was fused with one inside, or runs as lanes.
    """
    if stage.is_output:
        raise ScheduleError(f"{stage.op.name} is an output and stays at the root")
    if not isinstance(parent, StageBase):
        raise ScheduleError(f"{value_text(parent)} is not a stage", "give the consumer's, as s[C]")
    parent.position(loop)
    if parent is stage:
        raise ScheduleError(f"{stage.op.name} cannot be computed inside itself", "give a consumer's stage")
    record(stage, PLACE, "compute_at", parent, loop)


@te_method
def compute_inline(stage: StageBase) -> None:
    """Compute this stage's elements where they are used; its loops and its buffer disappear.

    Before `s[B].compute_inline()`::

        for i in range(8):
            B[i] = A[i] + 1.0
        for i in range(8):
            C[i] = B[i] * 2.0

    After::

        for i in range(8):
            C[i] = (A[i] + 1.0) * 2.0

    Raises:
        ScheduleError: this stage is an output or a reduction, or has several outputs.
    """
    if stage.is_output:
        raise ScheduleError(f"{stage.op.name} is an output", "there is no consumer to inline it into")
    if isinstance(stage.op, ExternOp):
        raise ScheduleError(f"{stage.op.name} is a statement, which makes all elements at once", "leave it at the root")
    if isinstance(stage.op, ScanOp):
        raise ScheduleError(f"{stage.op.name} is a scan, which reads its own rows", "use compute_at instead")
    if stage.op.reduce is not None:
        raise ScheduleError(f"{stage.op.name} is a reduction", "use compute_at instead")
    if len(stage.op.outputs) > 1:
        raise ScheduleError(f"{stage.op.name} has {len(stage.op.outputs)} outputs", "use compute_at instead")
    record(stage, PLACE, "compute_inline")


@te_method
def compute_root(stage: StageBase) -> None:
    """Compute this stage in its own nest (the default)."""
    record(stage, PLACE, "compute_root")


def replay_place(replay: ReplayState, stage: StageBase) -> bool:
    """Move a stage to its loop, and set the scope of its buffer; return whether the stage is needed at all."""
    place, sch, block = stage.place, replay.sch, replay.block(stage)
    loop = None
    if isinstance(place, At):
        # Simplification may have removed its readers, such as a product by zero: then no loop needs any of it.
        if not sch.get_consumers(block) and any(
            t in other.op.inputs for other in replay.stages for t in stage.op.outputs
        ):
            realize = sch.tree.blocks[block.name]
            made = written_buffers(realize.block)
            if all(buffer in sch.func.allocs for buffer in made):
                sch.update(with_allocs(sch.tree.replace(realize, None), drop=tuple(made)))
                return False
        else:
            replay.step = stage.place_step
            loop = replay.loops.get(id(place.stage), {}).get(place.loop)
            if loop is None:
                raise _attach_error(stage, place, replay.stages)
    # The region computed there depends on the threads that share it.
    infer_scope(replay, stage, loop)
    if loop is not None:
        replay.step = stage.place_step
        sch.compute_at(block, loop)
    return True


def _attach_error(stage: StageBase, place: At, stages: Sequence[StageBase]) -> ScheduleError:
    """Explain why a stage cannot be computed where it is attached, if that place does not exist."""
    other, loop = place.stage, place.loop
    readers = [s for s in stages if any(t.buffer in {o.buffer for o in stage.op.outputs} for t in s.op.inputs)]
    if not any(other is s for s in stages):
        why = f"a stage of another schedule: attach it to {_names(readers)} of this one"
    elif isinstance(other.attach, Inline):
        takers = [s for s in stages if any(t.buffer in {o.buffer for o in other.op.outputs} for t in s.op.inputs)]
        why = f"which is inlined: attach it to {_names(takers)}, where {other.op.name} is computed now"
    elif any(iv is loop for iv in other.leaf_iter_vars):
        why = f"which does not need it: attach it to {_names(readers)}"
    else:
        became = ", ".join(iv.name for r in other.relations if loop in loops_in(r.args) for iv in r.results)
        where = f"became {became}" if became else "went over to another stage (cache_write, rfactor)"
        why = f"which is not one of its loops any more: it {where}; attach it to a loop that is there"
    return ScheduleError(f"compute_at: {stage.op.name} is attached to {loop.name} of {other.op.name}, {why}")


def _names(stages: Sequence[StageBase]) -> str:
    return " or ".join(stage.op.name for stage in stages) or "a stage that reads it"
