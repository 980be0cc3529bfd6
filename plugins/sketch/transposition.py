"""The rule `Transposition`: elements read along an axis other than the last are moved in small tiles."""

from __future__ import annotations

from pegbox.compute import IterVar
from pegbox.expr import BITS, free_vars, linear
from pegbox.plugins.sketch.analysis import loads_of
from pegbox.plugins.sketch.rules import Derived, Match
from pegbox.plugins.sketch.state import State


class Transposition:
    """A rule that moves the axis along which an input is contiguous next to a part of the last axis.

    The cache lines that the part reads then hold the elements of the following steps. Ansor's sketches read one element
    of each line, and the line again after it has left the cache.
    """

    def __init__(self, max_innermost_factor: int = 64) -> None:
        self.max_innermost_factor = max_innermost_factor

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        op = state.op(name)
        lanes = state.target.vector_bits // BITS[op.outputs[0].dtype]
        if len(op.axis) < 2 or op.reduce_axis or not state.is_output(name) or op.axis[-1].extent < lanes:
            return Match.NO
        if _axis_read_along(state, name) is None:
            return Match.NO
        # Checked last, because it names the loops, which an unchanged stage should not have among its steps.
        return Match.ONLY if len(state.loops(name)) == len(op.axis) else Match.NO

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        name = new.stages[stage]
        along = _axis_read_along(new, name)
        loops = new.loops(name)
        assert along is not None  # match has asked
        moved = loops[new.op(name).axis.index(along)]
        _, (outer, inner) = new.tile(name, loops[-1], 2, innermost=self.max_innermost_factor, tails=True)
        new.reorder(name, [*(loop for loop in loops[:-1] if loop != moved), outer, moved, inner])
        new.applied.append("transpose")
        return [(new, stage - 1)]


def _axis_read_along(state: State, name: str) -> IterVar | None:
    """Return the axis along which an operand with the last axis as another index is contiguous."""
    op = state.op(name)
    last = op.axis[-1]
    for load in loads_of(op):
        if not load.indices or not any(last in free_vars(index) for index in load.indices[:-1]):
            continue
        axes = [axis for axis in op.axis[:-1] if linear(load.indices[-1]).coefficient(axis) == 1]
        if last not in free_vars(load.indices[-1]) and axes and axes[0].extent > 1:
            return axes[0]
    return None
