"""The rule `LaneAxis`: an axis other than the last one runs along vectors, if the last one is too short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pegbox.codegen import lanes_of
from pegbox.compute import IterVar
from pegbox.expr import Load, free_vars
from pegbox.plugins.sketch.analysis import loads_of, panel_axis
from pegbox.plugins.sketch.rules import Derived, Match, MultiLevelTiling
from pegbox.plugins.sketch.state import State, follow

_SHORT = 4  # vectors; a longer axis is worth its tail


class _Choice(NamedTuple):
    """An axis, the operand that it indexes, and the dimension, or None for a packed layout."""

    axis: int
    operand: str
    dim: int | None


class LaneAxis(MultiLevelTiling):
    """A rule by which, for example, the output channels of a convolution on a small image become the lanes.

    The stage is computed into a buffer with that axis last, the operand that has the axis is copied with it last, and
    the consumer, or the copy out of the buffer, is tiled alike. Not one of Ansor's rules; compilers for convolutions
    choose such layouts for whole networks (Liu et al., "Optimizing CNN Model Inference on CPUs", ATC 2019).
    """

    def match(self, state: State, stage: int) -> Match:
        return Match.NO if self._choice(state, state.stages[stage]) is None else Match.ALSO

    def apply(self, state: State, stage: int) -> list[Derived]:
        return [self._derive(state, stage, n) for n in (1, 2) if self.structure[n - 1] == "S"]

    def _derive(self, state: State, stage: int, level: int) -> Derived:
        new = state.copy()
        name = new.stages[stage]
        choice = self._choice(new, name)
        assert choice is not None  # match has asked
        axes = len(new.op(name).axis)
        order = [*(n for n in range(axes) if n != choice.axis), choice.axis]
        consumer = name if new.is_output(name) else new.matched_consumer(name) or name
        tile = new.cache_write(name, order=order)
        if choice.dim is not None:
            dims = range(len(new.tensor(choice.operand).shape))
            last = [*(d for d in dims if d != choice.dim), choice.dim]
            new.cache_read(choice.operand, tile, f"{choice.operand}_lanes", order=last)
        if consumer != name:
            new.compute_inline(name)
        knobs = self.tile(new, tile)
        own = [knobs[order.index(n)] for n in range(axes)]
        new.compute_at(tile, consumer, follow(new, consumer, own, level))
        new.applied.append(f"lanes({new.op(name).axis[choice.axis].name})+fuse({level})")
        return new, new.stages.index(tile) - 1

    def _choice(self, state: State, name: str) -> _Choice | None:
        op = state.op(name)
        if name in state.caches or not op.reduce_axis or len(op.outputs) > 1 or not state.needs_tiling(name):
            return None
        lanes = lanes_of(state.target, op.outputs[0].dtype)
        short = op.axis[-1].extent
        if short % lanes == 0 or short >= _SHORT * lanes:
            return None
        found = [(axis.extent, _index_of(state, loads_of(op), axis, n)) for n, axis in enumerate(op.axis[:-1])]
        good = [(extent, choice) for extent, choice in found if choice is not None and extent >= lanes]
        return max(good, key=lambda pair: pair[0])[1] if good else None


def _index_of(state: State, loads: Sequence[Load], axis: IterVar, number: int) -> _Choice | None:
    """Return the operand that has the axis itself as an index, if no other operand's index contains it."""
    places = {
        (load.buffer, None, True) if panel_axis(load) is axis else (load.buffer, dim, index is axis)
        for load in loads
        for dim, index in enumerate(load.indices)
        if axis in free_vars(index)
    }
    if len(places) != 1:
        return None
    buffer, dim, alone = places.pop()
    operand = state.name_of(buffer)
    return _Choice(number, operand, dim) if alone and operand is not None else None
