"""The rule `SharedTiles`: stages that one consumer combines elementwise are tiled by the same knobs."""

from __future__ import annotations

from pegbox.plugins.sketch.dot_product import dot_axis
from pegbox.plugins.sketch.rules import Derived, Match, MultiLevelTiling
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.tiles import Tiles


class SharedTiles:
    """A rule by which, for example, the two products of a gated unit have one set of tiles, and one place in the loops
    of their consumer.

    With separate knobs, the space would be that of one product squared, and one of them could not be fused, since the
    loops of the consumer follow the tiles of the other.

    Args:
        tilings: the tiling rules, each with its own structure.
    """

    def __init__(self, *tilings: MultiLevelTiling) -> None:
        self.tilings = {rule.structure: rule for rule in tilings}

    def match(self, state: State, stage: int) -> Match:
        like = sibling(state, state.stages[stage])
        return Match.NO if like is None or like.structure not in self.tilings else Match.ONLY

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        name = new.stages[stage]
        like = sibling(new, name)
        assert like is not None  # match has asked
        self.tilings[like.structure].tile(new, name, like)
        (consumer,) = new.consumers(name)
        places = dict(new.attached(consumer))
        if like.stage in places:
            new.compute_at(name, consumer, places[like.stage])
        return [(new, stage - 1)]


def sibling(state: State, name: str) -> Tiles | None:
    """Return the tiles of a stage with the same loops that the same consumer combines with this one."""
    consumers = state.consumers(name)
    if len(consumers) != 1 or not state.needs_tiling(name) or state.is_output(name):
        return None
    if not state.is_elementwise(name, consumers[0]):
        return None
    for tiles in state.tiles.values():
        own = not tiles.like and tiles.stage not in state.caches and state.consumers(tiles.stage) == consumers
        alike = own and _shape(state, name, dot=tiles.dot) == _shape(state, tiles.stage, dot=tiles.dot)
        if alike and state.is_elementwise(tiles.stage, consumers[0]):
            return tiles
    return None


def _shape(state: State, name: str, *, dot: bool) -> tuple[object, ...]:
    """Return the type and the loops of a stage, and its loop along the vectors."""
    op = state.op(name)
    along = dot_axis(state, name) if dot else op.axis[-1]
    extents = [axis.extent for axis in op.axis], [axis.extent for axis in op.reduce_axis]
    return op.outputs[0].dtype, *extents, [axis is along for axis in op.loop_axes]
