"""Look-up of buffers by number or name, new buffer names, and memory scopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pegbox.errors import ExprError, ScheduleError
from pegbox.expr.index_layout import covers
from pegbox.expr.nodes import Buffer, Var
from pegbox.expr.printer import unused_name
from pegbox.loops.kind import SCOPES, is_global
from pegbox.loops.nodes import BlockRealize, Region
from pegbox.loops.visit import replace_buffer
from pegbox.schedule.analysis import read_buffers, written_buffers
from pegbox.schedule.analysis.write_cover import places_of
from pegbox.schedule.tree import Tree
from pegbox.shown import value_text


def check_scope(scope: object) -> None:
    """Check that a scope exists. "global.name" is global memory with a name that the user gave."""
    if not isinstance(scope, str) or (scope not in SCOPES and not is_global(scope)):
        raise ScheduleError(f"unknown scope {value_text(scope)}", f"use one of {', '.join(SCOPES)}")


def choose_read(realize: BlockRealize, which: int | str) -> Buffer:
    """Return a buffer that a block reads, by position or name."""
    return _choose(read_buffers(realize.block), which, realize.block.name, "reads")


def choose_accessed(realize: BlockRealize, which: int | str) -> Buffer:
    """Return a buffer that a block reads or writes, by position or name; those that it reads come first."""
    found = dict.fromkeys((*read_buffers(realize.block), *written_buffers(realize.block)))
    return _choose(list(found), which, realize.block.name, "accesses")


def choose_copied(realize: BlockRealize, which: int | str) -> Buffer:
    """Return a buffer of which a block can read a copy, by position or name.

    Raises:
        ScheduleError: there is none, or the block writes the buffer too, so that a copy would hold old values.
    """
    buffer = choose_read(realize, which)
    if buffer in written_buffers(realize.block):
        raise ScheduleError(
            f"block {realize.block.name} reads elements of {buffer.name} that it wrote itself",
            "copy another buffer, or copy its output with cache_write",
        )
    return buffer


def choose_written(realize: BlockRealize, which: int | str) -> Buffer:
    """Return a buffer that a block writes, by position or name."""
    return _choose(written_buffers(realize.block), which, realize.block.name, "writes")


def _choose(buffers: list[Buffer], which: int | str, name: str, access: str) -> Buffer:
    for number, buffer in enumerate(buffers):
        if which in (number, buffer.name) and not isinstance(which, bool):
            return buffer
    listed = ", ".join(f"{n}: {b.name}" for n, b in enumerate(buffers))
    raise ScheduleError(f"block {name} {access} no buffer {value_text(which)}", f"choose among {listed or 'none'}")


def check_intermediate(tree: Tree, buffer: Buffer, name: str, why: str, remedy: str) -> None:
    """Check that the buffer is not a parameter of the function (or local to a block)."""
    if buffer not in tree.func.allocs:
        kind = "a parameter of the function" if buffer in tree.func.params else "no buffer of this program"
        raise ScheduleError(f"{buffer.name} is {kind}, {why}", remedy, name)


def fresh_buffer_name(tree: Tree, base: str) -> str:
    """Return a name that no buffer and no block has."""
    taken = {b.name for b in (*tree.func.params, *tree.func.allocs)} | tree.names
    return unused_name(base, taken)


def redirect(tree: Tree, names: Sequence[str], old: Buffer, new: Buffer) -> Tree:
    """Return the program in which the named blocks use another buffer at the same indices."""
    mapping = {old: new}
    for name in names:
        realize = tree.blocks[name]
        tree = Tree(tree.replace(realize, replace_buffer(realize, mapping)))
    return tree


def has_gaps(tree: Tree, buffer: Buffer) -> bool:
    """Check if an intermediate buffer has places that no block writes, such as the padding of a layout.

    The result is also True if the places are not known.
    """
    written = [
        (region, {it.var: it.extent for it in writer.block.iters})
        for writer in tree.writers(buffer)
        for region in writer.block.writes
        if region.buffer is buffer
    ]
    if not written or any(_is_whole(region, extents) for region, extents in written):
        return False
    try:
        return not covers([places_of(*each) for each in written], buffer.shape)
    except ExprError:  # places that are read from memory, or depend on inner loops
        return True


def _is_whole(region: Region, extents: Mapping[Var, int]) -> bool:
    """Check that the iterations of a block write each element once, with a variable of the block as each index."""
    sizes = zip((low for low, _ in region.box), region.buffer.shape, strict=True)
    once = len({low for low, _ in region.box}) == len(region.box)
    return once and all(isinstance(low, Var) and extents.get(low) == size for low, size in sizes)
