"""Primitives for the storage of buffers: set_scope, storage_align, rolling_buffer. (double_buffer is an annotation.)"""

from __future__ import annotations

from dataclasses import replace

from pegbox.errors import ScheduleError
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import BlockRealize
from pegbox.loops.passes.notes import ALIGN, ROLLING, alignment
from pegbox.loops.visit import replace_buffer
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.state.buffers import check_intermediate, check_scope, choose_written
from pegbox.schedule.state.circular_buffer import check_circular_buffer
from pegbox.schedule.state.handles import BlockRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import annotated
from pegbox.shown import value_text


@primitive(moves=False)
def set_scope(sch: ScheduleState, block: BlockRef | str, buffer_index: int | str, storage_scope: str) -> None:
    """Change the memory scope of an intermediate buffer.

    Before `set_scope("B", 0, "shared")`::

        B = alloc(float32[8], global)

    After::

        B = alloc(float32[8], shared)

    Args:
        buffer_index: the buffer: its position among those that `block` writes, or its name.
        storage_scope: "global", "local", "shared", "shared.dyn" or "warp".

    Raises:
        ScheduleError: the buffer or scope does not exist, or the buffer is a parameter of the function.
    """
    realize = sch.find_block(block)
    buffer = choose_written(realize, buffer_index)
    check_scope(storage_scope)
    check_intermediate(
        sch.tree,
        buffer,
        realize.block.name,
        "which stays where the caller has it",
        f'cache_write({realize.block.name!r}, {buffer.name!r}, "{storage_scope}") makes a buffer of its own',
    )
    new = buffer.in_scope(storage_scope)
    func = sch.func.with_body(replace_buffer(sch.func.body, {buffer: new}))
    sch.update(replace(func, allocs=tuple(new if b is buffer else b for b in func.allocs)))


@primitive
def rolling_buffer(sch: ScheduleState, block: BlockRef | str, write_buffer_index: int | str) -> None:
    """Keep values for the next iteration in a circular buffer, and compute only the new ones.

    The outermost loop whose steps overlap carries the buffer, which has room for the elements that one iteration needs.
    The block gets the annotation `rolling_buffer`; lowering makes the buffer circular, and puts a test around the
    block.

    Before `rolling_buffer("B", 0)`, lowered::

        for i_0 in range(2):
            B = alloc(float32[6], global)
            for i in range(6):
                B[i] = A[i_0 * 4 + i] + 1
            for i_1 in range(4):
                C[i_0 * 4 + i_1] = B[i_1] + B[i_1 + 2]

    After::

        B = alloc(float32[6], global)
        for i_0 in range(2):
            for i in range(6):
                if i_0 < 1 or i >= 2:
                    B[(i_0 * 4 + i) % 6] = A[i_0 * 4 + i] + 1
            for i_1 in range(4):
                C[i_0 * 4 + i_1] = B[(i_0 * 4 + i_1) % 6] + B[(i_0 * 4 + i_1 + 2) % 6]

    Later steps that would break this are refused.

    Args:
        write_buffer_index: the buffer: its position among those that `block` writes, or its name.

    Raises:
        ScheduleError: the buffer is a parameter, no loop is around it and its consumers, no such loop moves along one
            dimension in steps that overlap, it or one inside it is parallel, vectorized or bound to threads, or a
            statement accesses more than single elements of the buffer.
    """
    realize = sch.find_block(block)
    buffer = choose_written(realize, write_buffer_index)
    check_circular_buffer(sch.tree, realize.block.name, buffer)
    sch.update(sch.tree.replace(realize, annotated(realize, ROLLING, written_buffers(realize.block).index(buffer))))


@primitive(any_block=True)
def storage_align(
    sch: ScheduleState, block: BlockRef | str, buffer_index: int | str, axis: int, factor: int, offset: int = 0
) -> None:
    """Pad an intermediate buffer, so that neighbours along a dimension are `factor * n + offset` elements apart.

    Rows that start at different cache lines, or banks of a shared memory, do not conflict. The block gets the
    annotation `buffer_dim_align`; lowering enlarges the buffer.

    Before `storage_align("B", 0, 0, 32, 4)`, lowered::

        B = alloc(float32[8, 32], global)

    After::

        B = alloc(float32[8, 36], global)

    Args:
        buffer_index: the buffer: its position among those that `block` writes, or its name.
        axis: the dimension whose stride is set; a negative number counts from the end.

    Raises:
        ScheduleError: the buffer or dimension does not exist, the dimension is the last one, whose stride is one, the
            factor is below one, the offset is outside `range(factor)`, or the buffer is a parameter of the function.
    """
    realize = sch.find_block(block)
    buffer = choose_written(realize, buffer_index)
    name = realize.block.name
    check_intermediate(
        sch.tree,
        buffer,
        name,
        "whose layout the caller decides",
        f"cache_write({name!r}, {buffer.name!r}) makes a buffer of its own",
    )
    entry = (written_buffers(realize.block).index(buffer), *_alignment(realize, buffer, axis, factor, offset))
    known = alignment(dict(realize.block.annotations).get(ALIGN, ())) or ()
    entries = (*(e for e in known if e[:2] != entry[:2]), entry)
    sch.update(sch.tree.replace(realize, annotated(realize, ALIGN, entries)))


def _alignment(realize: BlockRealize, buffer: Buffer, axis: int, factor: int, offset: int) -> tuple[int, int, int]:
    """Check and return (axis, factor, offset), with the axis counted from the front."""
    rank, given = len(buffer.shape), axis
    axis, factor, offset = (integer(n) or 0 for n in (axis, factor, offset))
    axis = axis + rank if axis < 0 else axis
    problem = ""
    if not 0 <= axis < rank:
        problem = f"{buffer.name} has {rank} dimensions, so no dimension {value_text(given)}"
    elif axis == rank - 1:
        problem = f"dimension {given} is the last one, whose elements are neighbours: its stride is 1"
    elif factor < 1:
        problem = f"factor = {factor} is not a number of elements"
    elif not 0 <= offset < factor:
        problem = f"offset = {value_text(offset)} is not in range({factor}), as the remainder of a stride is"
    if problem:
        remedy = f"give an axis below {rank - 1}, a factor of at least 1, and an offset from 0 to factor - 1"
        raise ScheduleError(problem, remedy, realize.block.name)
    return axis, factor, offset
