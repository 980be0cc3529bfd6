"""Packing of operands: copies of the part of an input that a tile reads, for all the tiles that share it.

Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). Ansor lacks this on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.compute import PlaceholderOp
from pegbox.expr import Var, free_vars
from pegbox.plugins.sketch.analysis import loads_of, panel_axis
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.steps import Axes, Name, SketchStep, stage_call
from pegbox.plugins.sketch.tiles import PlaceKnob

AS_IT_LIES = "no"


def pack_operands(state: State, name: str, lanes: int) -> None:
    """Add a knob for each input that several tiles of a stage share: the loop in which to copy it, if any.

    A copy has the axis along the vectors last: a matrix that is read by columns is transposed in blocks with as many
    rows and columns as lanes. Such a matrix is always copied, because otherwise each of its elements would be read
    singly. A stage that shares the tiles of another one has its copies in the same loops.

    Args:
        lanes: the lanes of a vector.
    """
    tiles = state.tiles[name]
    if tiles.dot:
        return
    places = [level[-1] for level in tiles.levels[1:-2] if any(state.longest(loop) > 1 for loop in level)]
    others = [place for place in state.places if place.consumer == tiles.like and place.stage not in state.stages]
    shared = shared_inputs(state, name)
    for n, operand in enumerate(shared):
        copy = state.unused(f"{operand}_packed")
        order = _order(state, name, operand)
        arguments = Name(operand), "global", (Name(name),)
        read = stage_call(None, "cache_read", *arguments, results=(copy,), order=order)
        place = PlaceKnob(f"{name}_{operand}_pack", copy, name, tuple(places))
        elsewhere = AS_IT_LIES if order is None or not places else None
        like = others[n] if len(others) == len(shared) else None
        after = [] if order is None else _by_blocks(state, copy, order, lanes)
        state.place(place, elsewhere, [read], after, like)


def _order(state: State, name: str, operand: str) -> tuple[int, ...] | None:
    """Return the dimensions of an operand with that of the vectors last; None if it already is, or there is none."""
    op = state.op(name)
    indices = next(load.indices for load in loads_of(op) if state.name_of(load.buffer) == operand)
    along = [dim for dim, index in enumerate(indices) if index is op.axis[-1]]
    if len(along) != 1 or along[0] == len(indices) - 1:
        return None
    return (*(dim for dim in range(len(indices)) if dim != along[0]), along[0])


def _by_blocks(state: State, copy: str, order: Sequence[int], lanes: int) -> list[SketchStep]:
    """Return the loops of a transposing copy: blocks of vectors along the rows of its source."""
    axes = tuple(state.unused(f"{copy}_{dim}") for dim in order)
    *_, row, column = axes
    outer, rows = state.unused(f"{row}_outer"), state.unused(f"{row}_inner")
    blocks, vector = state.unused(f"{column}_outer"), state.unused(f"{column}_inner")
    return [
        Axes(copy, axes),
        stage_call(copy, "split", Name(row), lanes, results=(outer, rows)),
        stage_call(copy, "split", Name(column), lanes, results=(blocks, vector)),
        stage_call(copy, "reorder", Name(outer), Name(blocks), Name(rows), Name(vector)),
        stage_call(copy, "unroll", Name(rows)),
        stage_call(copy, "vectorize", Name(vector)),
    ]


def shared_inputs(state: State, name: str) -> list[str]:
    """Return the inputs whose reads leave out some of the stage's axes, in the order of their use.

    Packed inputs are excluded, as are those whose accesses leave out different axes: one copy would also hold
    everything between them.
    """
    op = state.op(name)
    long: set[Var] = {axis for axis in op.axis if axis.extent > 1}
    found: dict[str, list[set[Var]]] = {}
    for load in loads_of(op):
        operand = state.name_of(load.buffer)
        if operand is not None and isinstance(state.tensor(operand).op, PlaceholderOp):
            used = {var for index in load.indices for var in free_vars(index)}
            found.setdefault(operand, []).append(set() if panel_axis(load) is not None else long - used)
    return [operand for operand, free in found.items() if free[0] and all(each == free[0] for each in free)]
