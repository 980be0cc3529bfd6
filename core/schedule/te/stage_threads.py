"""Thread axes of TE stages: bind, env_threads and set_store_predicate, their replay, and the scopes that follow."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.checks import check_list
from pegbox.compute.axis import IterVar
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Expr
from pegbox.expr.visit import free_vars
from pegbox.loops.nodes import ForKind
from pegbox.loops.threads.axis import ThreadAxis
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.schedule import BlockRef, LoopRef, Schedule
from pegbox.schedule.te.call import ReplayStep
from pegbox.schedule.te.stage_base import StageBase, recorded
from pegbox.shown import value_text


@recorded
def bind(stage: StageBase, loop: IterVar, thread: ThreadAxis) -> None:
    """Let each iteration of a loop be a thread, a block of threads, or a virtual thread (see `te.thread_axis`).

    Before `bind(i.inner, te.thread_axis("threadIdx.x"))`::

        for i.outer in range(4):
            for i.inner in range(32):
                B[i.outer * 32 + i.inner] = A[i.outer * 32 + i.inner] + 1.0

    After::

        for i.outer in range(4):
            for i.inner in thread(threadIdx.x) range(32):
                B[i.outer * 32 + i.inner] = A[i.outer * 32 + i.inner] + 1.0

    Raises:
        ScheduleError: not a loop of this stage, no thread axis, or the loop is bound, vectorized, parallel or
            unrolled already; when lowered: as `tir.Schedule.bind`.
    """
    stage.position(loop)
    _check_axis(thread)
    if loop in stage.kinds:
        raise ScheduleError(
            f"{loop.name} is {stage.kinds[loop].in_words} already",
            "bind a serial loop",
        )
    stage.kinds[loop] = ForKind(thread.thread_tag)
    if thread.fixed_extent is not None:
        stage.fixed_extents[loop] = thread.fixed_extent


@recorded
def env_threads(stage: StageBase, threads: ThreadAxis | Sequence[ThreadAxis]) -> None:
    """Start threads around all loops of the stage, outermost first; loops bound to the same axes join them.

    The extent of an axis is the one that it was given, or that of a loop of the stage which is bound to it.

    Raises:
        ScheduleError: not thread axes, or one that has no extent.
    """
    wanted = "thread axes, made with te.thread_axis"
    given = [threads] if isinstance(threads, IterVar) else check_list("threads", threads, wanted, error=ScheduleError)
    for axis in given:
        _check_axis(axis)
    stage.env = given


@recorded
def set_store_predicate(stage: StageBase, predicate: Expr) -> None:
    """Store only in those threads where the predicate, a condition on thread axes, holds.

    >>> s[B].set_store_predicate(tx.var.equal(0))

    It may only drop stores that other threads do as well.

    Raises:
        ScheduleError: no condition on thread axes; when lowered: as `tir.Schedule.set_store_predicate`.
    """
    if not isinstance(predicate, Expr) or predicate.dtype != "bool":
        raise ScheduleError(
            f"{value_text(predicate)} is not a condition",
            "give one such as tx.var.equal(0)",
        )
    for var in free_vars(predicate):
        if not isinstance(var, ThreadAxis):
            raise ScheduleError(
                f"{var.name} is not a thread axis",
                "give a condition on thread axes such as tx.var.equal(0)",
            )
    stage.store_predicate = predicate


def _check_axis(axis: object) -> None:
    if not isinstance(axis, ThreadAxis):
        name = getattr(axis, "name", None) or value_text(axis)
        raise ScheduleError(f"{name} is not a thread axis", 'make one with te.thread_axis("threadIdx.x")')


def start_threads(sch: Schedule, stage: StageBase, block: BlockRef, step: ReplayStep) -> None:
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


def _own_loops(sch: Schedule, stage: StageBase, block: BlockRef) -> Sequence[LoopRef]:
    return sch.get_loops(block)[-len(stage.leaf_iter_vars) :] if stage.leaf_iter_vars else ()


def _extent(sch: Schedule, stage: StageBase, block: BlockRef, axis: ThreadAxis) -> int:
    if axis.fixed_extent is not None:
        return axis.fixed_extent
    for loop in sch.tree.ancestors(sch.tree.blocks[block.name]):
        if loop.kind.value == axis.thread_tag:
            return loop.extent
    raise ScheduleError(
        f"env_threads of {stage.op.name}: {axis.thread_tag} has no extent",
        f'give it one, te.thread_axis((0, extent), "{axis.thread_tag}"), or bind a loop of the stage to it',
    )


def infer_scope(sch: Schedule, stage: StageBase, block: BlockRef, loop: LoopRef | None = None) -> None:
    """The scope that the stage has; without one, what goes to a loop below threads is local, below blocks shared."""
    scope = stage.scope or (None if loop is None else _scope_below(sch, loop))
    if scope is None:
        return
    for number, buffer in enumerate(written_buffers(sch.tree.blocks[block.name].block)):
        if stage.scope or (buffer.scope == "global" and buffer in sch.func.allocs):
            sch.set_scope(block, number, scope)


def _scope_below(sch: Schedule, loop: LoopRef) -> str | None:
    target = sch.tree.loops[loop.var]
    above = [x.kind for x in (*sch.tree.ancestors(target), target) if x.kind.is_bound]
    if not above:
        return None
    return "local" if any(kind.waits for kind in above) else "shared"
