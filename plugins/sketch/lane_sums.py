"""The rule `LaneSums`: the lanes of vectors reduce for neighbouring points of the output."""

from __future__ import annotations

from pegbox.codegen import lanes_of
from pegbox.expr import free_vars, linear
from pegbox.plugins.sketch.analysis import loads_of
from pegbox.plugins.sketch.rules import Derived, Match
from pegbox.plugins.sketch.state import State, spatial_and_reduce


class LaneSums:
    """A rule by which a reduction without reuse, over axes other than its input's last, handles several neighbours at
    once.

    The last axis is split, and its inner part moves inside the reduce loops, as in pooling with channels last. Ansor
    leaves such a stage unchanged, with the reduce loops innermost, which prevents vectors.
    """

    def __init__(self, max_innermost_factor: int = 64) -> None:
        self.max_innermost_factor = max_innermost_factor

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        op = state.op(name)
        if not op.reduce_axis or not op.axis or name in state.partials or state.needs_tiling(name):
            return Match.NO
        if not _reads_neighbours(state, name):
            return Match.NO
        lanes = lanes_of(state.target, op.outputs[0].dtype)
        last, (points, _) = op.axis[-1].extent, spatial_and_reduce(op)
        if last < lanes:
            return Match.NO
        return Match.ONLY if points >= lanes * state.target.num_cores else Match.ALSO

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        name = new.stages[stage]
        loops = new.loops(name)
        spatial = [loop for loop in loops if not new.is_reduce(loop)]
        reduced = [loop for loop in loops if new.is_reduce(loop)]
        _, (outer, inner) = new.tile(name, spatial[-1], 2, innermost=self.max_innermost_factor, tails=True)
        new.reorder(name, [*spatial[:-1], outer, *reduced, inner])
        new.applied.append("lanes")
        return [(new, stage - 1)]


def _reads_neighbours(state: State, name: str) -> bool:
    """Check if neighbours along the last axis read neighbours along the last axis of each operand that has it."""
    op = state.op(name)
    last = op.axis[-1]
    using = [load for load in loads_of(op) if any(last in free_vars(index) for index in load.indices)]
    return bool(using) and all(
        linear(load.indices[-1]).coefficient(last) == 1
        and not any(last in free_vars(index) for index in load.indices[:-1])
        and free_vars(load.indices[-1]).isdisjoint(op.reduce_axis)
        for load in using
    )
