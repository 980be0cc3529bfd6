"""Checks that circular buffers (see `rolling_buffer`) can be, and stay, circular."""

from __future__ import annotations

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer
from pegbox.loops.passes.notes import ROLLING
from pegbox.loops.passes.roll import NothingReused, RollFailure, roll_of
from pegbox.loops.passes.rolling_buffer import rolling
from pegbox.schedule.tree import BlockBody, Tree


def has_circular_buffers(tree: Tree) -> bool:
    """Check if a block of the program keeps values for the next iteration."""
    return any(key == ROLLING for realize in tree.blocks.values() for key, _ in realize.block.annotations)


def check_circular_buffer(tree: Tree, name: str, buffer: Buffer) -> None:
    """Check that the buffer that the block `name` writes can be circular."""
    if isinstance(tree.func, BlockBody):
        raise ScheduleError(
            f"{buffer.name} is used inside a block, whose place is not fixed",
            "call rolling_buffer before blockize",
            name,
        )
    found = roll_of(tree.func, buffer)
    if isinstance(found, RollFailure):
        raise ScheduleError(found.reason, found.remedy, *found.place)


def keeps_nothing(tree: Tree, buffer: Buffer) -> bool:
    """Check if a circular buffer would be legal but useless, because no iteration needs values of another one."""
    return isinstance(roll_of(tree.func, buffer), NothingReused)


def check_circular_buffers(before: Tree, after: Tree) -> None:
    """Check that, after a step, all circular buffers can still be circular."""
    for realize, buffer in rolling(after.func):
        found = roll_of(after.func, buffer)
        if isinstance(found, RollFailure):
            raise ScheduleError(
                f"{buffer.name} of block {realize.block.name} could no longer be a rolling buffer: {found.reason}",
                'do this first and rolling_buffer last, or unannotate(block, "rolling_buffer")',
                *(mark for mark in found.place if mark in before.blocks or mark in before.loops),
            )
