"""Rolled buffers in features: an iteration makes what the one before has not left, so its loops are shorter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pegbox.expr.affine import linear
from pegbox.expr.nodes import Var
from pegbox.expr.visit import substitute
from pegbox.features.index import Loop, Sum, step
from pegbox.features.symbol import Quantity, ceil_div, least
from pegbox.features.traced import quantity
from pegbox.loops.nodes import BlockRealize, For, Function
from pegbox.loops.passes.roll import Kept, Roll, roll_of
from pegbox.loops.passes.rolling_buffer import rolling
from pegbox.loops.visit import paths


def per_iteration(extent: Quantity, base: Sum, around: Sequence[Loop]) -> Quantity:
    """Compute how many indices of a dimension an iteration makes on average.

    The first iteration of a loop around makes all `extent` indices from `base` on, the others as many as `base` moves.
    """
    for loop in around:
        moved = step(base, loop)
        if not isinstance(moved, int) or moved:
            extent = least(extent, _mean(extent, moved, loop.extent))
    return extent


def rolled_extents(func: Function) -> Mapping[Var, Quantity]:
    """Find the loops of a scheduled program that lowering shortens for rolled buffers, with their mean extents."""
    found: dict[Var, Quantity] = {}
    for realize, buffer in rolling(func):
        roll = roll_of(func, buffer)
        if isinstance(roll, Roll):
            path = next(path for path in paths(func.body) if path[-1] is realize)
            loops = [stmt for stmt in path if isinstance(stmt, For)]
            for kept in roll.kept:
                found |= _shorter(kept, _dimension_loops(realize, roll, kept, loops))
    return found


def _dimension_loops(realize: BlockRealize, roll: Roll, kept: Kept, loops: Sequence[For]) -> dict[For, int]:
    """The loops inside the carrying one that run through the dimension, with the stride of each."""
    block = realize.block
    region = next(write for write in block.writes if write.buffer is roll.buffer)
    values = realize.bindings
    terms = linear(substitute(region.box[kept.dim][0], values)).terms
    inner = loops[loops.index(kept.loop) + 1 :]
    return {loop: terms[loop.var] for loop in inner if loop.var in terms}


def _shorter(kept: Kept, loops: Mapping[For, int]) -> dict[Var, Quantity]:
    """The outermost of the dimension's loops takes the whole reduction: a split makes whole tiles."""
    if not loops:
        return {}
    whole = 1 + sum((loop.extent - 1) * stride for loop, stride in loops.items())
    mean = _mean(whole, whole - kept.count, kept.loop.extent)
    first, stride = max(loops.items(), key=lambda item: item[1])
    return {first.var: least(quantity(first.extent), ceil_div(mean, stride))}


def _mean(first: Quantity, other: Quantity, iterations: Quantity) -> Quantity:
    """The mean of one iteration of `first` indices and the others of `other`, rounded up."""
    return ceil_div(first + (iterations - 1) * other, iterations)
