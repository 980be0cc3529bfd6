"""Stage methods for thread axes: bind, env_threads, set_store_predicate."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.checks import check_list
from pegbox.compute.axis import IterVar
from pegbox.compute.thread_axis import ThreadAxis
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Expr
from pegbox.expr.visit import free_vars
from pegbox.loops.nodes import ForKind
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
            f"{loop.name} is {stage.how_it_runs(loop)} already",
            "bind a serial loop",
        )
    stage.kinds[loop] = ForKind.THREAD
    stage.threads[loop] = thread


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
