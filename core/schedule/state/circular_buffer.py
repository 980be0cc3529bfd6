"""Circular buffers of a program (`rolling_buffer`): the checks that they can be, and stay, circular."""

from __future__ import annotations

from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Buffer
from pegbox.loops.passes.notes import ROLLING
from pegbox.loops.passes.roll import NothingReused, RollFailure, roll_of
from pegbox.loops.passes.rolling_buffer import rolling
from pegbox.schedule.tree import BlockBody, Tree


def has_circular_buffers(tree: Tree) -> bool:
    """Check if a block keeps values of an iteration for the next one."""
    return any(key == ROLLING for realize in tree.blocks.values() for key, _ in realize.block.annotations)


def check_circular_buffer(tree: Tree, name: str, buffer: Buffer) -> None:
    """Raises ScheduleError: the buffer that the block `name` writes cannot be circular."""
    if isinstance(tree.func, BlockBody):
        raise ScheduleError(
            f"{buffer.name} is used inside a block, which may be run anywhere",
            "call rolling_buffer before blockize",
            name,
        )
    found = roll_of(tree.func, buffer)
    if isinstance(found, RollFailure):
        raise ScheduleError(found.reason, found.remedy, *found.place)


def keeps_nothing(tree: Tree, buffer: Buffer) -> bool:
    """Could the buffer be circular, but without any use, as no iteration needs values of another one?"""
    return isinstance(roll_of(tree.func, buffer), NothingReused)


def check_circular_buffers(before: Tree, after: Tree) -> None:
    """Raises ScheduleError: after a step, a circular buffer could not be one any more."""
    for realize, buffer in rolling(after.func):
        found = roll_of(after.func, buffer)
        if isinstance(found, RollFailure):
            raise ScheduleError(
                f"{buffer.name} of block {realize.block.name} could not be a rolling buffer any more: {found.reason}",
                'do this first and rolling_buffer last, or unannotate(block, "rolling_buffer")',
                *(mark for mark in found.place if mark in before.blocks or mark in before.loops),
            )
