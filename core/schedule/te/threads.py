"""Replay of the thread axes, store predicates and default scopes of TE stages."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.errors import ScheduleError
from pegbox.loops.threads.axis import ThreadAxis
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.schedule import BlockRef, LoopRef, Schedule
from pegbox.schedule.te.call import Step
from pegbox.schedule.te.stage import Stage


def start_threads(sch: Schedule, stage: Stage, block: BlockRef, step: Step) -> None:
    """The threads around a stage whose loops are what they shall be, and the predicate of its stores."""
    if stage.env:
        own = _own_loops(sch, stage, block)
        threads = [(axis.thread_tag, _extent(sch, stage, block, axis)) for axis in stage.env]
        sch.env_threads(own[0] if own else block, threads)
    if stage.store_predicate is not None:
        try:
            sch.set_store_predicate(block, stage.store_predicate)
        except ScheduleError as error:
            step.refuse(error, next(reversed(_own_loops(sch, stage, block)), None))


def _own_loops(sch: Schedule, stage: Stage, block: BlockRef) -> Sequence[LoopRef]:
    return sch.get_loops(block)[-len(stage.leaf_iter_vars) :] if stage.leaf_iter_vars else ()


def _extent(sch: Schedule, stage: Stage, block: BlockRef, axis: ThreadAxis) -> int:
    if axis.fixed_extent is not None:
        return axis.fixed_extent
    for loop in sch.tree.ancestors(sch.tree.blocks[block.name]):
        if loop.kind.value == axis.thread_tag:
            return loop.extent
    raise ScheduleError(
        f"env_threads of {stage.op.name}: {axis.thread_tag} has no extent",
        f'give it one, te.thread_axis((0, extent), "{axis.thread_tag}"), or bind a loop of the stage to it',
    )


def infer_scope(sch: Schedule, stage: Stage, block: BlockRef, loop: LoopRef | None = None) -> None:
    """The scope that the stage has; without one, what goes to a loop below threads is local, below blocks shared."""
    scope = stage.scope or (None if loop is None else _scope_below(sch, loop))
    if scope is None:
        return
    for number, buffer in enumerate(written_buffers(sch.tree.blocks[block.name].block)):
        if stage.scope or (buffer.scope == "global" and buffer in sch.func.allocs):
            sch.set_scope(block, number, scope)


def _scope_below(sch: Schedule, loop: LoopRef) -> str | None:
    target = sch.tree.loops[loop.var]
    above = [x.kind for x in (*sch.tree.ancestors(target), target) if x.kind.is_thread]
    if not above:
        return None
    return "local" if any(kind.in_block for kind in above) else "shared"
