"""Rolling buffers of a program: may they be, and do they stay right?"""

from __future__ import annotations

from pegbox.expr.nodes import Buffer
from pegbox.loops.obstacle import Obstacle
from pegbox.loops.passes.notes import ROLLING
from pegbox.loops.passes.roll import NothingKept, roll_of
from pegbox.loops.passes.rolling_buffer import rolling
from pegbox.schedule.errors import refuse
from pegbox.schedule.tree import BlockBody, Tree


def has_rolls(tree: Tree) -> bool:
    """Does a block keep what an iteration has made for the next one?"""
    return any(key == ROLLING for realize in tree.blocks.values() for key, _ in realize.block.annotations)


def check_roll(tree: Tree, name: str, buffer: Buffer) -> None:
    """Raises ScheduleError: the buffer that the block `name` writes cannot roll."""
    if isinstance(tree.func, BlockBody):
        raise refuse(
            tree,
            f"{buffer.name} is used inside of a block, which may be run anywhere",
            "call rolling_buffer before blockize",
            name,
        )
    found = roll_of(tree.func, buffer)
    if isinstance(found, Obstacle):
        raise refuse(tree, found.reason, found.remedy, *found.place)


def keeps_nothing(tree: Tree, buffer: Buffer) -> bool:
    """Could the buffer roll, but without any use: no iteration needs what another one has made?"""
    return isinstance(roll_of(tree.func, buffer), NothingKept)


def check_rolls(before: Tree, after: Tree) -> None:
    """Raises ScheduleError: a step has made it impossible that a buffer goes on rolling."""
    for realize, buffer in rolling(after.func):
        found = roll_of(after.func, buffer)
        if isinstance(found, Obstacle):
            raise refuse(
                before,
                f"{buffer.name} of block {realize.block.name} could not be a rolling buffer any more: {found.reason}",
                'do this first and rolling_buffer last, or unannotate(block, "rolling_buffer")',
                *(mark for mark in found.place if mark in before.blocks or mark in before.loops),
            )
