"""The size of programs after inlining, which multiplies: above some size a step takes minutes."""

from __future__ import annotations

from collections.abc import Collection

from pegbox.expr.nodes import Buffer, Expr
from pegbox.expr.visit import loads, walk
from pegbox.loops.visit import expressions
from pegbox.loops.visit import walk as walk_statements
from pegbox.schedule import Schedule
from pegbox.schedule.te.schedule import TESchedule
from pegbox.schedule.te.stage import Stage

MOST_NODES = 20_000


def too_large(s: TESchedule, inlined: Collection[Stage]) -> bool:
    """Tell whether some stage becomes too large where these are inlined."""
    sizes: dict[Buffer, int] = {}
    for stage in s.stages:
        values = stage.op.reduce.sources if stage.op.reduce is not None else stage.op.body
        size = sum(_size(expr, sizes) for expr in values)
        if size > MOST_NODES:
            return True
        if stage in inlined:
            sizes.update((t.buffer, size) for t in stage.op.outputs)
    return False


def block_too_large(sch: Schedule, block: str) -> bool:
    """Tell whether inlining a block into its consumers, or into its producer, makes any of them too large."""
    tree = sch.tree
    if block not in tree.blocks:  # it is inside another one, and refused
        return False
    expand = {region.buffer: _block_size(sch, block, {}) for region in tree.blocks[block].block.writes}
    consumers = [b.name for b in sch.get_consumers(block)]
    if any(_block_size(sch, name, expand) > MOST_NODES for name in consumers):
        return True
    for producer in (b.name for b in sch.get_producers(block)):
        size = _block_size(sch, producer, {})
        made = {region.buffer: size for region in tree.blocks[producer].block.writes}
        if _block_size(sch, block, made) > MOST_NODES:
            return True
    return False


def _block_size(sch: Schedule, block: str, expand: dict[Buffer, int]) -> int:
    body = sch.tree.blocks[block].block.body
    return sum(_size(expr, expand) for stmt in walk_statements(body) for expr in expressions(stmt))


def _size(expr: Expr, expand: dict[Buffer, int]) -> int:
    """The nodes of an expression, where loads of some buffers become expressions of a size."""
    return sum(1 for _ in walk(expr)) + sum(expand.get(load.buffer, 0) for load in loads(expr))
