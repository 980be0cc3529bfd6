"""Primitives cache_read and cache_write."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import BlockRealize
from pegbox.schedule.analysis import is_composed, written_buffers
from pegbox.schedule.errors import refuse
from pegbox.schedule.rewrites.copy import after_writers, before_readers, copy_block
from pegbox.schedule.state.buffers import (
    check_scope,
    choose_copied,
    choose_written,
    fresh_buffer_name,
    has_gaps,
    redirect,
)
from pegbox.schedule.state.handles import BlockRef
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
    """Copy a buffer before it is read; readers then read the copy. Gives the copying block.

    Args:
        block: a block that reads the buffer.
        read_buffer_index: which buffer: its number among those that `block` reads, or its name.
        storage_scope: where the copy lives: "global", "local", "shared", "shared.dyn" or "warp".
        consumer_blocks: the blocks that shall read the copy, besides `block`; by default all that read the buffer.

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

    Where the buffer is made inside of loops around its readers, the copy is made there too, of what one iteration
    needs. Otherwise the whole buffer is copied; `compute_at` moves the copy where it is needed.

    Raises:
        ScheduleError: no such buffer or scope, a block of `consumer_blocks` does not read the buffer, readers
            inside and outside of the loops in which the buffer is made, a part of it is never written, or what
            the readers need is not ready there.
    """
    tree, realize = sch.tree, sch.find_block(block)
    source = choose_copied(realize, read_buffer_index)
    check_scope(storage_scope)
    chosen = _readers(sch, realize.block.name, source, consumer_blocks)
    check_whole(tree, source, realize.block.name)
    copy = copy_buffer(tree, source, storage_scope)
    made = copy_block(copy.name, source.shape, source, copy)
    sch.update(before_readers(redirect(tree, chosen, source, copy), made, source, copy, chosen))
    return BlockRef(copy.name)


@primitive
def cache_write(
    sch: ScheduleState,
    block: BlockRef | str,
    write_buffer_index: int | str = 0,
    storage_scope: str = "global",
    consumer_blocks: Sequence[BlockRef | str] | None = None,
) -> BlockRef:
    """Let a block write to a new buffer, and copy that to the old one afterwards. Gives the copying block.

    Args:
        block: a block that writes the buffer.
        write_buffer_index: which buffer: its number among those that `block` writes, or its name.
        storage_scope: where the new buffer lives: "global", "local", "shared", "shared.dyn" or "warp".
        consumer_blocks: readers that shall read the new buffer; by default all go on reading the old one.

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

    Where a reader stands in the same loops, what one iteration makes is copied there. Otherwise the whole buffer
    is copied; `reverse_compute_at` moves the copy to the end of a tile.

    Raises:
        ScheduleError: no such buffer or scope, a block of `consumer_blocks` does not read the buffer, readers
            inside and outside of the loops in which the buffer is made, a part of it is never written, or the
            results are partial where the copy would be made.
    """
    tree, realize = sch.tree, sch.find_block(block)
    name = realize.block.name
    target = choose_written(realize, write_buffer_index)
    check_scope(storage_scope)
    served = [] if consumer_blocks is None else _readers(sch, None, target, consumer_blocks)
    _check_seen(tree, target, realize)
    check_whole(tree, target, name)
    copy = copy_buffer(tree, target, storage_scope)
    writers = [w.block.name for w in tree.writers(target)]
    rest = [r.block.name for r in tree.readers(target) if r.block.name not in {*served, *writers}]
    made = copy_block(copy.name, target.shape, copy, target)
    changed = redirect(tree, [*writers, *(n for n in served if n not in writers)], target, copy)
    sch.update(after_writers(changed, made, copy, target, writers, rest))
    return BlockRef(copy.name)


def _readers(sch: ScheduleState, own: str | None, buffer: Buffer, given: Sequence[BlockRef | str] | None) -> list[str]:
    """The chosen readers of a buffer, in program order."""
    names = [r.block.name for r in sch.tree.readers(buffer) if buffer not in written_buffers(r.block)]
    if given is None:
        return names
    chosen = {sch.find_block(c).block.name for c in given}
    wrong = sorted(chosen - set(names))
    if wrong:
        raise ScheduleError(f"{wrong[0]} does not read {buffer.name}", f"name some of {', '.join(names) or 'no block'}")
    return [n for n in names if n in chosen or n == own]


def _check_seen(tree: Tree, buffer: Buffer, realize: BlockRealize) -> None:
    """Raises ScheduleError: the buffer is a matter of the blocks inside of the block: each iteration has its own."""
    users = {r.block.name for r in (*tree.writers(buffer), *tree.readers(buffer))}
    if buffer not in tree.func.params and users == {realize.block.name} and is_composed(realize.block):
        name = realize.block.name
        raise refuse(
            tree,
            f"{buffer.name} is used inside of block {name} only",
            f"copy it there: give a block inside of {name}",
            name,
        )


def check_whole(tree: Tree, buffer: Buffer, name: str) -> None:
    """Raises ScheduleError: a part of the buffer, the padding of its layout, is never written: it cannot be copied."""
    if has_gaps(tree, buffer):
        raise refuse(
            tree,
            f"the padding of {buffer.name} is never written, so that no copy of all of it can be taken",
            "make the copy before transform_layout, or give transform_layout a pad_value",
            name,
        )


def copy_buffer(tree: Tree, original: Buffer, scope: str) -> Buffer:
    """A buffer like another one, in a scope, with a name of its own."""
    name = fresh_buffer_name(tree, f"{original.name}_{scope.replace('.', '_')}")
    return Buffer(name, original.shape, original.dtype, scope)
