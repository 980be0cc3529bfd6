"""Checks of blocks and loops that several primitives share."""

from __future__ import annotations

from collections.abc import Iterable

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.nodes import BlockRealize, For, ForKind
from pegbox.schedule.tree import Tree


def check_only_writer(
    tree: Tree, realize: BlockRealize, buffers: Iterable[Buffer], remedy: str, *marked: Var | str
) -> None:
    """Check that no other block writes one of the buffers."""
    for buffer in buffers:
        others = [w.block.name for w in tree.writers(buffer) if w is not realize]
        if others:
            problem = f"{buffer.name} is also written by {', '.join(others)}"
            raise ScheduleError(problem, remedy, *marked, realize.block.name, *others)


def check_inside(tree: Tree, realize: BlockRealize, loop: For, remedy: str = "give a loop around it") -> None:
    """Check that the block is inside the loop."""
    if not tree.is_under(realize, loop):
        name = realize.block.name
        raise ScheduleError(f"{name} is not inside {loop.var.name}", remedy, loop.var, name)


def check_serial(loop: For, remedy: str, *, notes: bool = False) -> None:
    """Check that the loop is serial and, unless `notes` are allowed, has no annotations."""
    is_serial, has_notes = loop.kind is ForKind.SERIAL, bool(loop.annotations) and not notes
    if not is_serial or has_notes:
        why = "has annotations" if has_notes else f"is {loop.kind.in_words}"
        raise ScheduleError(f"the loop {why}", remedy, loop.var)


def check_no_lanes(tree: Tree, loop: For | None, remedy: str, *marked: Var | str) -> None:
    """Check that neither the loop nor one around it is vectorized."""
    for above in () if loop is None else (*tree.ancestors(loop), loop):
        if above.kind is ForKind.VECTORIZED:
            raise ScheduleError(f"{above.var.name} is vectorized: its iterations are lanes", remedy, above.var, *marked)
