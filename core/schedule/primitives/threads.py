"""Primitives bind and env_threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Var
from pegbox.loops.kind import AXES
from pegbox.loops.nodes import For, ForKind, Stmt
from pegbox.schedule.analysis.loop_kinds import check_kinds
from pegbox.schedule.errors import showing, shown
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree
from pegbox.shown import value_text


@primitive
def bind(sch: ScheduleState, loop: LoopRef, thread_axis: str, *, extent: int | None = None) -> None:
    """Bind a loop to a thread axis: each iteration is a block of threads, a thread, or a virtual thread.

    Args:
        thread_axis: blockIdx.x/y/z, threadIdx.x/y/z, vthread or vthread.x/y/z.
        extent: the number of iterations that the loop must have; by default, any.

    Before `bind(i_1, "threadIdx.x")`::

        for i_0 in range(4):
            for i_1 in range(32):
                block C: ...

    After::

        for i_0 in range(4):
            for i_1 in thread(threadIdx.x) range(32):
                block C: ...

    Below a loop over threads, a second loop with the same axis shares its work among them: a stage of scope "shared"
    that is placed there computes the values that all threads need, and each thread does its part, between two barriers.
    A loop that only reduces may be bound to threadIdx: the threads reduce together.

    On a CPU the loops run one iteration after the other; shared values are computed once.

    Raises:
        ScheduleError: the axis is unknown; the loop is vectorized, parallel, unrolled or bound already, or is inside a
            parallel or vectorized loop or around a parallel one; two iterations would write one element; the loop's
            extent is not `extent`, or not that of the axis elsewhere in the kernel; or a loop around it is bound to the
            axis, and the work is not shared.
    """
    old = sch.find_loop(loop)
    if thread_axis not in AXES:
        raise ScheduleError(f"unknown thread axis {thread_axis!r}", f"use one of {', '.join(AXES)}", old.var)
    if old.kind is not ForKind.SERIAL:
        raise ScheduleError(
            f"{old.var.name} is {old.kind.in_words} already",
            "bind a serial loop; to bind a part of the loop, split it first",
            old.var,
        )
    if extent is not None and extent != old.extent:
        raise ScheduleError(
            f"{thread_axis} has {value_text(extent)} threads, but {old.var.name} {old.extent} iterations",
            "split the loop so that it has as many iterations, or give the axis no extent",
            old.var,
        )
    changed = Tree(sch.tree.replace(old, replace(old, kind=ForKind(thread_axis))))
    check_kinds(changed, [old.var])
    sch.update(changed)


@primitive
def env_threads(
    sch: ScheduleState, block_or_loop: BlockRef | LoopRef | str, threads: Sequence[tuple[str, int]]
) -> None:
    """Start threads around a loop, or around a block; inner loops that are bound to the same axes use them.

    Args:
        threads: (thread axis, number of threads), outermost first.

    Before `env_threads(i, [("threadIdx.x", 32)])`::

        for i in range(4):
            for j in thread(threadIdx.x) range(32):
                block C: ...

    After::

        for threadIdx_x in thread(threadIdx.x) range(32):
            for i in range(4):
                for j in thread(threadIdx.x) range(32):
                    block C: ...

    Raises:
        ScheduleError: an axis is unknown, or its number of threads is not positive; the axis has another extent in the
            kernel, or its threads would conflict.
    """
    old: Stmt = sch.find_loop(block_or_loop) if isinstance(block_or_loop, LoopRef) else sch.find_block(block_or_loop)
    new, loops = old, []
    for pair in reversed(threads):
        tag, extent = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, pair)
        if tag not in AXES or not isinstance(extent, int) or extent < 1:
            raise ScheduleError(
                f"({tag!r}, {extent!r}) is not a thread axis and its number of threads",
                f"give pairs of one of {', '.join(AXES)} and a number of threads",
                program=shown(sch.tree),
            )
        loops.append(Var(tag.replace(".", "_")))
        new = For(loops[-1], extent, new, ForKind(tag))
    changed = Tree(sch.tree.replace(old, new))
    with showing(changed):
        check_kinds(changed, loops)
    sch.update(changed)
