"""Thread axes, and the stage methods bind, env_threads and set_store_predicate with their replay."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.checks import check_flag, check_list, check_text
from pegbox.compute.axis import IterVar, Range
from pegbox.errors import ComputeError, ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Expr
from pegbox.expr.visit import free_vars
from pegbox.loops.kind import AXES
from pegbox.schedule.schedule import LoopRef
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.replay_state import ReplayState
from pegbox.schedule.te.stage_base import StageBase, kind_of, record, te_method
from pegbox.shown import value_text


class ThreadAxis(IterVar):
    """A thread axis with its `thread_tag`; `fixed_extent` is the number of threads, if it was given."""

    __slots__ = ("fixed_extent", "thread_tag")

    def __init__(self, name: str, extent: int | None, tag: str) -> None:
        super().__init__(name, Range(0, extent or 1), "thread")
        self.fixed_extent = extent
        self.thread_tag = tag


def thread_axis(dom: int | tuple[int, int] | Range | str | None = None, tag: str = "", name: str = "") -> ThreadAxis:
    """Make an axis for `s[T].bind(loop, axis)`.

    Args:
        dom: the number of threads, or (0, number); without it the loop's extent decides. The tag may be given here.
        tag: blockIdx.x/y/z (independent blocks), threadIdx.x/y/z (the threads of a block, which share memory), vthread
            or vthread.x/y/z (one thread's work, strided).
        name: by default the tag.

    Raises:
        ComputeError: the tag is unknown, or the domain does not start at zero.
    """
    if isinstance(dom, str):
        if check_flag("thread_axis: tag", tag, error=ComputeError):
            raise ComputeError(
                f"thread_axis({value_text(dom)}, {value_text(tag)}): two tags; write thread_axis((0, extent), "
                f"{value_text(tag)})"
            )
        tag, dom = dom, None
    check_text("thread_axis: name", name, error=ComputeError)
    if not isinstance(tag, str) or tag not in AXES:
        raise ComputeError(f"thread_axis: unknown thread axis {tag!r}; use one of {', '.join(AXES)}")
    if dom is None:
        return ThreadAxis(name or tag, None, tag)
    if isinstance(dom, Range):
        dom = (dom.min, dom.extent)
    low, extent = dom if isinstance(dom, tuple | list) and len(dom) == 2 else (0, dom)
    number = integer(extent)
    if integer(low) != 0 or number is None or number < 1:
        raise ComputeError(f"thread_axis({dom!r}, {tag!r}): threads count from 0; give (0, extent) with extent >= 1")
    return ThreadAxis(name or tag, number, tag)


@te_method
def bind(stage: StageBase, loop: IterVar, thread: ThreadAxis | str) -> None:
    """Let each iteration of a loop be a thread, a block of threads, or a virtual thread.

    Args:
        thread: an axis that `te.thread_axis` made, or its tag.

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
    axis = _checked(thread_axis(thread) if isinstance(thread, str) and thread in AXES else thread)
    before = stage.steps.get(("kind", loop))
    if before is not None:
        raise ScheduleError(f"{loop.name} is {kind_of(before).in_words} already", "bind a serial loop")
    record(stage, ("kind", loop), "bind", loop, axis.thread_tag, extent=axis.fixed_extent)


@te_method
def env_threads(stage: StageBase, threads: ThreadAxis | Sequence[ThreadAxis]) -> None:
    """Start threads around all loops of the stage, outermost first; loops bound to the same axes join them.

    The extent of an axis is its own, or that of a loop of the stage bound to it.

    Raises:
        ScheduleError: an argument is not a thread axis, or has no extent.
    """
    wanted = "thread axes, made with te.thread_axis"
    given = [threads] if isinstance(threads, IterVar) else check_list("threads", threads, wanted, error=ScheduleError)
    axes = [_checked(axis) for axis in given]
    record(stage, ("env_threads",), "env_threads", *((axis.thread_tag, axis.fixed_extent) for axis in axes))


@te_method
def set_store_predicate(stage: StageBase, predicate: Expr) -> None:
    """Store only in those threads where the predicate, a condition on thread axes, holds.

    >>> s[B].set_store_predicate(tx.var.equal(0))

    It may only drop stores that other threads perform as well.

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
    record(stage, ("set_store_predicate",), "set_store_predicate", predicate)


def _checked(axis: object) -> ThreadAxis:
    if isinstance(axis, ThreadAxis):
        return axis
    name = getattr(axis, "name", None) or value_text(axis)
    raise ScheduleError(f"{name} is not a thread axis", 'make one with te.thread_axis("threadIdx.x")')


def replay_env_threads(replay: ReplayState, stage: StageBase, step: Step) -> None:
    """Start the threads around a stage whose loops have their kinds."""
    block, own = replay.block(stage), _own_loops(replay, stage)
    around = replay.sch.tree.ancestors(replay.sch.tree.blocks[block.name])
    bound = {loop.kind.value: loop.extent for loop in reversed(around)}
    threads = []
    for tag, extent in step.args:
        if extent is None and tag not in bound:
            raise ScheduleError(
                f"env_threads of {stage.op.name}: {tag} has no extent",
                f'give it one, te.thread_axis((0, extent), "{tag}"), or bind a loop of the stage to it',
            )
        threads.append((tag, bound[tag] if extent is None else extent))
    replay.sch.env_threads(own[0] if own else block, threads)


def replay_store_predicate(replay: ReplayState, stage: StageBase, step: Step) -> None:
    try:
        replay.sch.set_store_predicate(replay.block(stage), step.args[0])
    except ScheduleError as error:
        replay.refuse(error, next(reversed(_own_loops(replay, stage)), None))


def _own_loops(replay: ReplayState, stage: StageBase) -> Sequence[LoopRef]:
    count = len(stage.leaf_iter_vars)
    return replay.sch.get_loops(replay.block(stage))[-count:] if count else ()
