"""A sketch rule: an elementwise output with short rows is computed in one loop, so that its vectors are full."""

from __future__ import annotations

from pegbox.codegen import lanes_of
from pegbox.plugins.sketch import Derived, Match, State


class FlatRows:
    """Fuses the axes of an elementwise output whose rows are shorter than a vector, such as the pixels of an image."""

    def match(self, state: State, stage: int) -> Match:
        name = state.stages[stage]
        op = state.op(name)
        if not state.is_output(name) or op.reduce_axis or len(op.axis) < 2:
            return Match.NO
        short = op.axis[-1].extent < lanes_of(state.target, op.outputs[0].dtype)
        return Match.ALSO if short else Match.NO

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        name = new.stages[stage]
        new.fuse(name, new.loops(name))
        new.applied.append("flat")
        return [(new, stage - 1)]
