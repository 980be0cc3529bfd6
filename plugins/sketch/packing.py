"""Packing of operands: copies of what a tile reads of an input, made for all the tiles that share it.

Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). What Ansor lacks on a CPU.
"""

from __future__ import annotations

from pegbox.compute.tensor import PlaceholderOp
from pegbox.expr.nodes import Var
from pegbox.expr.visit import free_vars
from pegbox.plugins.sketch.analysis import loads_of, panel_axis
from pegbox.plugins.sketch.state import Place, State
from pegbox.plugins.sketch.steps import Call, Name

AS_IT_LIES = "no"


def pack_operands(state: State, name: str) -> None:
    """For each input that several tiles of a stage share: a knob says in which of its loops it is copied, if at all."""
    levels = state.tiles[name].levels
    places = [level[-1] for level in levels[1:-2] if any(state.longest(loop) > 1 for loop in level)]
    for operand in shared_inputs(state, name):
        copy = state.unused(f"{operand}_packed")
        read = Call(None, "cache_read", (Name(operand), "global", (Name(name),)), (copy,))
        state.place(Place(f"{name}_{operand}_pack", copy, name, tuple(places)), AS_IT_LIES, [read])


def shared_inputs(state: State, name: str) -> list[str]:
    """The inputs that a stage reads with some of its axes left out, in the order of their use.

    Not those that are packed already, nor those whose accesses leave out different axes: one copy would hold what lies
    between them too.
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
