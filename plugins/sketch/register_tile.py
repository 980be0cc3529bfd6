"""Register tiles of sketches: limits of a stage's innermost tile, so that it fits a target's registers."""

from __future__ import annotations

import math
from dataclasses import replace

from pegbox.codegen import LATENCY, Target, fits_registers, lanes_of
from pegbox.compute import ComputeOp
from pegbox.expr import Binary, Const
from pegbox.plugins.sketch.analysis import loads_of, panel_axis
from pegbox.plugins.sketch.limit import TileLimit, vectors_of
from pegbox.plugins.sketch.state import State, spatial_and_reduce
from pegbox.plugins.sketch.steps import Name

_FULL = 0.75  # share of the lanes filled by the best extent; with fewer, another tile cannot make up for the loss
_ENOUGH = 0.8  # share of the lanes; if no divisor fills as many, a tail is cheaper
_LONG = 64  # terms of a sum from which the latency of additions matters; tiles of shorter ones overlap


def keep_in_registers(state: State, name: str, target: Target) -> None:
    """Unroll the innermost tile; limit it to sizes that fill vectors, hide the latency, and fit the registers."""
    tiles, op = state.tiles[name], state.op(name)
    loops, knobs = tiles.register_tile
    for loop in loops[:-1]:
        state.call(name, "unroll", Name(loop))
    lanes = lanes_of(target, op.outputs[0].dtype)
    last = knobs[-1]
    exact: set[int] = set()
    divisors = state.knobs[last].innermosts()
    kept = [extent for extent in divisors if fits_registers(target, 1, vectors_of(extent, lanes))]
    if not fills_vectors(divisors, lanes) or max(kept) < lanes <= (state.knobs[last].extent or 0):
        state.knobs[last] = replace(state.knobs[last], policy="verbose")
        exact.add(max(kept, key=lambda extent: _filled(extent, lanes)))
    full = full_extents(aligned_extents(state.knobs[last].innermosts(), op), lanes)
    state.knobs[last] = replace(state.knobs[last], allowed=tuple(sorted({*full, *exact})))
    if tiles.like:
        return  # the limit of that stage is one of these knobs
    registers = target.vector_registers
    most = _largest([state.knobs[knob].innermosts() for knob in knobs], lanes, target)
    least = min(LATENCY, most) if spatial_and_reduce(op)[1] >= _LONG else 1
    enough = f"takes at least {least} vectors, and " if least > 1 else ""
    message = f"the tile of {name} {enough}fits the {registers} vector registers"
    state.limits.append(TileLimit(knobs, lanes, least, registers, message))


def fills_vectors(extents: list[int], lanes: int) -> bool:
    """Check if one of the extents fills its vectors well, or none is as long as a vector."""
    return max(extents) < lanes or max(_filled(extent, lanes) for extent in extents) >= _ENOUGH


def aligned_extents(extents: list[int], op: ComputeOp) -> list[int]:
    """Select the extents whose tiles begin and end with panels of packed operands, or divide them; else all.

    A vector across two panels would be read element by element.
    """
    axis = op.axis[-1]
    packed = [load.indices[-1] for load in loads_of(op) if panel_axis(load) is axis]
    widths = [index.b.value for index in packed if isinstance(index, Binary) and isinstance(index.b, Const)]
    return [n for n in extents if all(n % width == 0 or width % n == 0 for width in widths)] or extents


def full_extents(extents: list[int], lanes: int) -> tuple[int, ...]:
    """Select the extents that fill their vectors almost as well as the best of them."""
    full = {extent: _filled(extent, lanes) for extent in extents}
    return tuple(extent for extent in extents if full[extent] >= _FULL * max(full.values()))


def _filled(extent: int, lanes: int) -> float:
    """Return the share of the lanes of its vectors that a loop fills."""
    return extent / (lanes * vectors_of(extent, lanes))


def _largest(extents: list[list[int]], lanes: int, target: Target) -> int:
    """Return the largest number of vectors of accumulators in a tile."""
    rows = {1}
    for each in extents[:-1]:
        rows = {found for n in rows for extent in each if fits_registers(target, found := n * extent, 1)}
    vectors = {vectors_of(extent, lanes) for extent in extents[-1]}
    return max(math.prod(tile) for r in rows for v in vectors if fits_registers(target, *(tile := (r, v))))
