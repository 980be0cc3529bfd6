"""Buffers of a program: which one is meant, what a new one may be called, which scopes there are."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.errors import ExprError, ScheduleError
from pegbox.expr.index_map import IndexMap
from pegbox.expr.nodes import Buffer
from pegbox.loops.nodes import BlockRealize
from pegbox.loops.visit import replace_buffer
from pegbox.schedule.analysis import read_buffers, written_buffers
from pegbox.schedule.outline import refuse
from pegbox.schedule.tree import Tree

SCOPES = ("global", "local", "shared", "shared.dyn", "warp")


def check_scope(scope: str, what: str) -> None:
    """Raises ScheduleError: there is no such scope."""
    if scope not in SCOPES:
        raise ScheduleError(f"unknown scope {scope!r} for {what}; use one of {', '.join(SCOPES)}")


def choose_read(realize: BlockRealize, which: int | str) -> Buffer:
    """A buffer that a block reads, by number or name."""
    return _choose(read_buffers(realize.block), which, realize.block.name, "reads")


def choose_written(realize: BlockRealize, which: int | str) -> Buffer:
    """A buffer that a block writes, by number or name."""
    return _choose(written_buffers(realize.block), which, realize.block.name, "writes")


def _choose(buffers: list[Buffer], which: int | str, name: str, verb: str) -> Buffer:
    for number, buffer in enumerate(buffers):
        if which in (number, buffer.name) and not isinstance(which, bool):
            return buffer
    listed = ", ".join(f"{n}: {b.name}" for n, b in enumerate(buffers))
    raise ScheduleError(f"block {name} {verb} no buffer {which!r}; choose among {listed or 'none'}")


def check_intermediate(tree: Tree, what: str, buffer: Buffer, name: str, why: str, remedy: str) -> None:
    """Raises ScheduleError: the buffer is a parameter of the function (or lives inside of a block)."""
    if buffer not in tree.func.allocs:
        kind = "a parameter of the function" if buffer in tree.func.params else "no buffer of this program"
        raise refuse(tree, f"{what}: {buffer.name} is {kind}, {why}", remedy, name)


def fresh_buffer_name(tree: Tree, base: str) -> str:
    """A name that no buffer and no block has."""
    taken = {b.name for b in (*tree.func.params, *tree.func.allocs)} | tree.names
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    return name


def redirect(tree: Tree, names: Sequence[str], old: Buffer, new: Buffer) -> Tree:
    """The named blocks use another buffer at the same indices."""
    mapping = {old: new}
    for name in names:
        realize = tree.blocks[name]
        tree = Tree(tree.replace(realize, replace_buffer(realize, mapping)))
    return tree


def has_gaps(tree: Tree, buffer: Buffer) -> bool:
    """Are there places of an intermediate buffer that nobody writes: the padding of a layout?"""
    writers = tree.writers(buffer)
    return bool(writers) and all(_leaves_gaps(writer, buffer) for writer in writers)


def _leaves_gaps(writer: BlockRealize, buffer: Buffer) -> bool:
    iters = {it.var: it.extent for it in writer.block.iters if not it.is_reduce}
    for region in writer.block.writes:
        if region.buffer is not buffer or any(n > 1 for _, n in region.box):
            continue
        indices = [lo for lo, _ in region.box]
        if all(lo in iters and iters[lo] == n for lo, n in zip(indices, buffer.shape, strict=True)):  # type: ignore[index]
            continue
        try:
            layout = IndexMap(tuple(iters), indices).layout(tuple(iters.values()))
        except ExprError:
            return True  # who writes one place twice may well leave others out
        return not layout.onto or layout.shape != buffer.shape
    return False
