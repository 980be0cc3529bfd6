"""Primitives for copies in a chosen loop or layout: read_at, write_at, reindex_cache_read, reindex_cache_write."""

from __future__ import annotations

from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import BlockRealize, For
from pegbox.schedule.analysis import written_buffers
from pegbox.schedule.errors import refuse
from pegbox.schedule.primitives.cache import check_whole, copy_buffer
from pegbox.schedule.primitives.layout import Layouter, map_of
from pegbox.schedule.rewrites.copy import after_writers, before_readers, copy_block
from pegbox.schedule.rewrites.reindex import Copy, reindex_read, reindex_write
from pegbox.schedule.state.buffers import check_scope, choose_copied, choose_written, redirect
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree


@primitive
def read_at(
    sch: ScheduleState,
    loop: LoopRef,
    block: BlockRef | str,
    read_buffer_index: int | str,
    storage_scope: str = "global",
) -> BlockRef:
    """Copy what an iteration of a loop reads of a buffer; the blocks in the loop read the copy. Gives its block.

    Args:
        loop: a loop around `block`.
        read_buffer_index: which buffer: its number among those that `block` reads, or its name.
        storage_scope: where the copy lives: "global", "local", "shared", "shared.dyn" or "warp".

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
        ScheduleError: no such buffer or scope, the loop is not around the block, a part of the buffer is never
            written, or what is read is not ready there.
    """
    tree, realize, target = sch.tree, sch.find_block(block), sch.find_loop(loop)
    source = choose_copied(realize, read_buffer_index)
    check_scope(storage_scope)
    _check_around(tree, target, realize)
    check_whole(tree, source, realize.block.name)
    copy = copy_buffer(tree, source, storage_scope)
    users = [r for r in tree.readers(source) if tree.is_under(r, target)]
    readers = [r.block.name for r in users if source not in written_buffers(r.block)]
    changed = redirect(tree, readers, source, copy)
    made = copy_block(copy.name, source.shape, source, copy)
    sch.update(before_readers(changed, made, source, copy, readers, at=changed.loops[target.var]))
    return BlockRef(copy.name)


@primitive
def write_at(
    sch: ScheduleState,
    loop: LoopRef,
    block: BlockRef | str,
    write_buffer_index: int | str,
    storage_scope: str = "global",
) -> BlockRef:
    """Let the blocks in a loop write to a new buffer, which each iteration copies to the old one. Gives that block.

    Args:
        loop: a loop around all blocks that write the buffer.
        write_buffer_index: which buffer: its number among those that `block` writes, or its name.
        storage_scope: where the new buffer lives: "global", "local", "shared", "shared.dyn" or "warp".

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
        ScheduleError: no such buffer or scope, the loop is not around all blocks that write the buffer, what an
            iteration writes is not a box, or partial; or a block in the loop reads the buffer earlier.
    """
    tree, realize, target = sch.tree, sch.find_block(block), sch.find_loop(loop)
    written = choose_written(realize, write_buffer_index)
    check_scope(storage_scope)
    makers = tree.writers(written)
    for maker in makers:
        _check_around(tree, target, maker)
    check_whole(tree, written, realize.block.name)
    copy = copy_buffer(tree, written, storage_scope)
    writers = [w.block.name for w in makers]
    readers = [r.block.name for r in tree.readers(written) if r.block.name not in writers]
    changed = redirect(tree, writers, written, copy)
    made = copy_block(copy.name, written.shape, copy, written)
    sch.update(after_writers(changed, made, copy, written, writers, readers, at=target))
    return BlockRef(copy.name)


@primitive
def reindex_cache_read(
    sch: ScheduleState, block: BlockRef | str, read_buffer_index: int | str, storage_scope: str, index_map: Layouter
) -> BlockRef:
    """Copy what a block reads of a buffer into one where its variables say the place. Gives the copying block.

    Args:
        read_buffer_index: which buffer: its number among those that the block reads, or its name.
        storage_scope: where the copy lives: "global", "local", "shared", "shared.dyn" or "warp".
        index_map: a function of all variables of the block that gives the indices in the copy, or an `IndexMap`.

    Before `reindex_cache_read("C", "A", "local", lambda i, j, k: (k, i))`::

        block C:
            C[vi, vj] += A[vi, vk] * B[vk, vj]

    After::

        block A_local:
            A_local[v1, v0] = A[v0, v1]
        ...
        block C:
            C[vi, vj] += A_local[vk, vi] * B[vk, vj]

    Raises:
        ScheduleError: no such buffer or scope; the block uses the buffer at several places, or at places that are
            read from memory, or that may lie outside of it; the map is not one to one on what is read.
    """
    realize = sch.find_block(block)
    source = choose_copied(realize, read_buffer_index)
    copy = _laid_out(sch, realize, source, storage_scope, index_map)
    sch.update(reindex_read(sch.tree, realize, source, copy))
    return BlockRef(copy.name)


@primitive
def reindex_cache_write(
    sch: ScheduleState, block: BlockRef | str, write_buffer_index: int | str, storage_scope: str, index_map: Layouter
) -> BlockRef:
    """Let a block write to a new buffer where its variables say the place, and copy that to the old one afterwards.

    Gives the copying block.

    Args:
        write_buffer_index: which buffer: its number among those that the block writes, or its name.
        storage_scope: where the new buffer lives: "global", "local", "shared", "shared.dyn" or "warp".
        index_map: a function of all variables of the block that gives the indices in the new buffer, or an
            `IndexMap`.

    Before `reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))`::

        block C:
            C[vi, vj] += A[vi, vk] * B[vk, vj]

    After::

        block C:
            C_local[vj, vi] += A[vi, vk] * B[vk, vj]
        ...
        block C_local:
            C[v0, v1] = C_local[v1, v0]

    Raises:
        ScheduleError: no such buffer or scope; other blocks write the buffer too, or elements are written twice; the
            map is not one to one on what is written.
    """
    realize = sch.find_block(block)
    written = choose_written(realize, write_buffer_index)
    copy = _laid_out(sch, realize, written, storage_scope, index_map)
    sch.update(reindex_write(sch.tree, realize, written, copy))
    return BlockRef(copy.name)


def _laid_out(sch: ScheduleState, realize: BlockRealize, buffer: Buffer, scope: str, index_map: Layouter) -> Copy:
    check_scope(scope)
    found = map_of(sch, realize, index_map, len(realize.block.iters), "variables of the block")
    sch.amended["index_map"] = found
    return Copy(copy_buffer(sch.tree, buffer, scope).name, scope, found)


def _check_around(tree: Tree, loop: For, realize: BlockRealize) -> None:
    if not tree.is_under(realize, loop):
        name = realize.block.name
        raise refuse(tree, f"{name} is not inside of {loop.var.name}", "give a loop around it", loop.var, name)
