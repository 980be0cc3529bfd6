"""The rule `DotProduct`: a reduce axis runs along the vectors if operands are contiguous along it."""

from __future__ import annotations

import math

from pegbox.codegen import lanes_of
from pegbox.compute import ComputeOp, IterVar
from pegbox.expr import free_vars
from pegbox.plugins.sketch.analysis import loads_of, sums_along_lanes
from pegbox.plugins.sketch.rules import AddRfactor, Derived, Match, MultiLevelTilingWithFusion
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.tiles import Tiles

_FEW = 16  # the number of points sharing an element up to which a transposed copy costs more than it gains


class DotProduct(MultiLevelTilingWithFusion):
    """A product with transposed weights sums as many terms at a time as a vector has lanes.

    All operands of its terms are contiguous along the reduce axis, so that none needs a transposed copy. Each result of
    the innermost tile has a vector of partial sums, whose lanes are added after the last term, as in the matrix-vector
    products of BLAS libraries. Not one of Ansor's rules.

    Args:
        max_innermost_factor: as for `MultiLevelTiling`; it also limits the terms at a time.
    """

    def __init__(self, max_innermost_factor: int = 64) -> None:
        super().__init__("SSRSR", max_innermost_factor, tails=True)

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        if name in state.caches or name in state.partials or not state.needs_tiling(name):
            return Match.NO
        if dot_axis(state, name) is None:
            return Match.NO
        alone = _sharing(state.op(name)) <= _FEW and AddRfactor().match(state, stage) is Match.NO
        return Match.ONLY if alone else Match.ALSO

    def apply(self, state: State, stage: int) -> list[Derived]:
        if state.matched_consumer(state.stages[stage]) is not None:
            derived = super().apply(state, stage)
            for fused, _ in derived:
                fused.applied[-1] = f"dot+{fused.applied[-1]}"
            return derived
        new = state.copy()
        self.tile(new, new.stages[stage])
        new.applied.append("dot")
        return [(new, stage - 1)]

    def tile(self, state: State, stage: str, like: Tiles | None = None) -> list[str]:
        """Tile a stage with the contiguous reduce axis innermost; return the knobs of its spatial axes."""
        along = dot_axis(state, stage)
        given = iter(() if like is None else (*like.knobs, *like.sums))
        spatial: list[list[str]] = [[], [], []]
        knobs, sums = [], []
        for loop in (loops := state.loops(stage)):
            if not state.is_reduce(loop):
                most = self.max_innermost_factor
                knob, parts = state.tile(stage, loop, 3, innermost=most, tails=self.tails, knob=next(given, ""))
                knobs.append(knob)
                for level, part in zip(spatial, parts, strict=True):
                    level.append(part)
            elif state.axis(loop) is not along:
                sums.append(loop)
        lanes = next(loop for loop in loops if state.axis(loop) is along)
        split, (outer, inner) = state.tile(stage, lanes, 2, innermost=self.max_innermost_factor, knob=next(given, ""))
        levels = [spatial[0], spatial[1], [*sums, outer], spatial[2], [inner]]
        name = "" if like is None else like.stage
        state.tiles[stage] = Tiles(stage, self.structure, levels, tuple(knobs), (split,), like=name)
        state.reorder(stage, [loop for level in levels for loop in level])
        return knobs


def dot_axis(state: State, name: str) -> IterVar | None:
    """Return the reduce axis along which all operands of the terms are contiguous, if lanes can sum along it."""
    op = state.op(name)
    if len(op.outputs) > 1 or not sums_along_lanes(op):
        return None
    lanes = lanes_of(state.target, op.outputs[0].dtype)
    return next((axis for axis in op.reduce_axis if axis.extent >= lanes and _lie_along(axis, op)), None)


def _lie_along(axis: IterVar, op: ComputeOp) -> bool:
    """Check if an axis is the last index of each load that depends on it, and the output's last axis another index.

    Lanes of that axis would be read from as many rows.
    """
    found = [load.indices for load in loads_of(op) if any(axis in free_vars(index) for index in load.indices)]
    others = [free_vars(index) for indices in found for index in indices[:-1]]
    alone = all(indices[-1] is axis for indices in found) and not any(axis in each for each in others)
    return alone and any(op.axis[-1] in each for each in others)


def _sharing(op: ComputeOp) -> int:
    """Return the smallest number of output points that share an element of an operand that the last axis crosses."""
    shared = []
    for load in loads_of(op):
        used = {var for index in load.indices for var in free_vars(index)}
        if op.axis[-1] in used and load.indices[-1] is not op.axis[-1]:
            shared.append(math.prod(axis.extent for axis in op.axis if axis not in used))
    return min(shared)
