"""Rolled buffers in features: an iteration reuses elements of the one before, so its loops are shorter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pegbox.expr.affine import linear
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.visit import substitute
from pegbox.features.index import Loop, Sum, step
from pegbox.features.symbol import Quantity, ceil_div, least
from pegbox.features.traced import quantity
from pegbox.loops.nodes import For, Function
from pegbox.loops.passes.roll import ReusedRegion, Roll, roll_of
from pegbox.loops.passes.rolling_buffer import rolling
from pegbox.loops.visit import paths


def per_iteration(extent: Quantity, base: Sum, around: Sequence[Loop]) -> Quantity:
    """Compute the average number of a dimension's indices that an iteration computes.

    The first iteration of a surrounding loop computes all `extent` indices from `base` on, the others as many as `base`
    moves.
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
            region = next(write for write in realize.block.writes if write.buffer is roll.buffer)
            values = realize.bindings
            for reused in roll.reused:
                terms = linear(substitute(region.box[reused.dim][0], values)).terms
                found |= _shortened(
                    reused, [loop for loop in loops[loops.index(reused.loop) + 1 :] if loop.var in terms], terms
                )
    return found


def _shortened(reused: ReusedRegion, loops: Sequence[For], strides: Mapping[Expr, int]) -> dict[Var, Quantity]:
    """Shorten only the outermost of the dimension's loops, because a split makes whole tiles."""
    if not loops:
        return {}
    whole = 1 + sum((loop.extent - 1) * strides[loop.var] for loop in loops)
    mean = _mean(whole, whole - reused.count, reused.loop.extent)
    first = max(loops, key=lambda loop: strides[loop.var])
    return {first.var: least(quantity(first.extent), ceil_div(mean, strides[first.var]))}


def _mean(first: Quantity, other: Quantity, iterations: Quantity) -> Quantity:
    """Compute the mean of one iteration with `first` indices and others with `other`, rounded up."""
    return ceil_div(first + (iterations - 1) * other, iterations)
