"""Primitives for copies of buffers: cache_read, cache_write, read_at, write_at."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import BlockRealize
from pegbox.schedule.analysis import is_composed, written_buffers
from pegbox.schedule.analysis.checks import check_inside
from pegbox.schedule.rewrites.cache_copy import read_through_copy, write_through_copy
from pegbox.schedule.state.buffers import check_scope, choose_copied, choose_written
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree


@primitive
def cache_read(
    sch: ScheduleState,
    block: BlockRef | str,
    read_buffer_index: int | str,
    storage_scope: str = "global",
    consumer_blocks: Sequence[BlockRef | str] | None = None,
) -> BlockRef:
    """Copy a buffer before it is read, and let readers read the copy; return the copying block.

    Args:
        block: a block that reads the buffer.
        read_buffer_index: the buffer: its position among those that `block` reads, or its name.
        storage_scope: the scope of the copy: "global", "local", "shared", "shared.dyn" or "warp".
        consumer_blocks: further blocks that read the copy; by default all blocks that read the buffer.

    Before `cache_read("C", "A", "local")`::

        for i in range(8):
            block C:
                C[vi] = A[vi] * 2.0

    After::

        for ax0 in range(8):
            block A_local:
                A_local[v0] = A[v0]
        for i in range(8):
            block C:
                C[vi] = A_local[vi] * 2.0

    If the buffer is computed inside loops around its readers, the copy is made in those loops, too, of the elements
    that one iteration needs. Otherwise the whole buffer is copied; `compute_at` can move the copy.

    Raises:
        ScheduleError: the buffer or scope does not exist, a block of `consumer_blocks` does not read the buffer, some
            readers are inside and some outside the loops in which the buffer is computed, a part of it is never
            written, or the elements that the readers need are not ready there.
    """
    realize = sch.find_block(block)
    source = choose_copied(realize, read_buffer_index)
    check_scope(storage_scope)
    chosen = _readers(sch, realize.block.name, source, consumer_blocks)
    return _updated(sch, read_through_copy(sch.tree, source, storage_scope, realize.block.name, chosen))


@primitive
def cache_write(
    sch: ScheduleState,
    block: BlockRef | str,
    write_buffer_index: int | str = 0,
    storage_scope: str = "global",
    consumer_blocks: Sequence[BlockRef | str] | None = None,
) -> BlockRef:
    """Let a block write to a new buffer, and copy that to the old one afterwards; return the copying block.

    Args:
        block: a block that writes the buffer.
        write_buffer_index: the buffer: its position among those that `block` writes, or its name.
        storage_scope: the scope of the new buffer: "global", "local", "shared", "shared.dyn" or "warp".
        consumer_blocks: the readers that read the new buffer; by default, all readers keep the old one.

    Before `cache_write("C", 0, "local")`::

        for i in range(8):
            block C:
                C[vi] = A[vi] * 2.0

    After::

        for i in range(8):
            block C:
                C_local[vi] = A[vi] * 2.0
        for ax0 in range(8):
            block C_local:
                C[v0] = C_local[v0]

    If a reader is in the same loops, the elements that one iteration computes are copied there. Otherwise the whole
    buffer is copied; `reverse_compute_at` moves the copy to the end of a tile.

    Raises:
        ScheduleError: the buffer or scope does not exist, a block of `consumer_blocks` does not read the buffer, some
            readers are inside and some outside the loops in which the buffer is computed, a part of it is never
            written, or the results would be copied before they are complete.
    """
    realize = sch.find_block(block)
    target = choose_written(realize, write_buffer_index)
    check_scope(storage_scope)
    served = [] if consumer_blocks is None else _readers(sch, None, target, consumer_blocks)
    _check_seen(sch.tree, target, realize)
    return _updated(sch, write_through_copy(sch.tree, target, storage_scope, realize.block.name, served))


@primitive
def read_at(
    sch: ScheduleState,
    loop: LoopRef,
    block: BlockRef | str,
    read_buffer_index: int | str,
    storage_scope: str = "global",
) -> BlockRef:
    """Copy the part of a buffer that each iteration of a loop reads, for the blocks inside; return the copying block.

    Args:
        loop: a loop around `block`.
        read_buffer_index: the buffer: its position among those that `block` reads, or its name.
        storage_scope: the scope of the copy: "global", "local", "shared", "shared.dyn" or "warp".

    Before `read_at(i, "C", "A", "local")`::

        for i in range(4):
            for j in range(8):
                block C:
                    C[vi, vj] = A[vj, vi] * 2.0

    After::

        for i in range(4):
            for ax0 in range(8):
                for ax1 in range(1):
                    block A_local:
                        A_local[v0, v1] = A[v0, v1]
            for j in range(8):
                block C:
                    C[vi, vj] = A_local[vj, vi] * 2.0

    Raises:
        ScheduleError: the buffer or scope does not exist, the loop is not around the block, a part of the buffer is
            never written, or elements that are read are not ready there.
    """
    tree, realize, target = sch.tree, sch.find_block(block), sch.find_loop(loop)
    source = choose_copied(realize, read_buffer_index)
    check_scope(storage_scope)
    check_inside(tree, realize, target)
    users = [r for r in tree.readers(source) if tree.is_under(r, target)]
    readers = [r.block.name for r in users if source not in written_buffers(r.block)]
    return _updated(sch, read_through_copy(tree, source, storage_scope, realize.block.name, readers, at=target.var))


@primitive
def write_at(
    sch: ScheduleState,
    loop: LoopRef,
    block: BlockRef | str,
    write_buffer_index: int | str,
    storage_scope: str = "global",
) -> BlockRef:
    """Let the blocks in a loop write to a new buffer, which each iteration copies to the old one; return that block.

    Args:
        loop: a loop around all blocks that write the buffer.
        write_buffer_index: the buffer: its position among those that `block` writes, or its name.
        storage_scope: the scope of the new buffer: "global", "local", "shared", "shared.dyn" or "warp".

    Before `write_at(i, "C", 0, "local")`::

        for i in range(4):
            for j in range(8):
                block C:
                    C[vi, vj] = A[vi, vj] * 2.0

    After::

        for i in range(4):
            for j in range(8):
                block C:
                    C_local[vi, vj] = A[vi, vj] * 2.0
            for ax0 in range(1):
                for ax1 in range(8):
                    block C_local:
                        C[v0, v1] = C_local[v0, v1]

    Raises:
        ScheduleError: the buffer or scope does not exist, the loop is not around all blocks that write the buffer, the
            elements that an iteration writes do not form a box or are incomplete, or a block in the loop reads the
            buffer earlier.
    """
    tree, realize, target = sch.tree, sch.find_block(block), sch.find_loop(loop)
    written = choose_written(realize, write_buffer_index)
    check_scope(storage_scope)
    for writer in tree.writers(written):
        check_inside(tree, writer, target)
    return _updated(sch, write_through_copy(tree, written, storage_scope, realize.block.name, at=target))


def _updated(sch: ScheduleState, copied: tuple[Tree, str]) -> BlockRef:
    """Install the program with a copy; return the copying block."""
    changed, name = copied
    sch.update(changed)
    return BlockRef(name)


def _readers(sch: ScheduleState, own: str | None, buffer: Buffer, given: Sequence[BlockRef | str] | None) -> list[str]:
    """Return the chosen readers of a buffer, in program order."""
    names = [r.block.name for r in sch.tree.readers(buffer) if buffer not in written_buffers(r.block)]
    if given is None:
        return names
    chosen = {sch.find_block(c).block.name for c in given}
    wrong = sorted(chosen - set(names))
    if wrong:
        raise ScheduleError(f"{wrong[0]} does not read {buffer.name}", f"name some of {', '.join(names) or 'no block'}")
    return [n for n in names if n in chosen or n == own]


def _check_seen(tree: Tree, buffer: Buffer, realize: BlockRealize) -> None:
    """Check that the buffer is not used inside the block only, where each iteration has its own."""
    users = {r.block.name for r in (*tree.writers(buffer), *tree.readers(buffer))}
    if buffer not in tree.func.params and users == {realize.block.name} and is_composed(realize.block):
        name = realize.block.name
        raise ScheduleError(
            f"{buffer.name} is used inside block {name} only",
            f"copy it there: give a block inside {name}",
            name,
        )
