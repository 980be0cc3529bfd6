"""Pass: make the buffers circular that blocks name in a note `rolling_buffer`; see `roll`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pegbox.errors import LoweringError
from pegbox.expr.affine import linear
from pegbox.expr.build import ONE, ZERO, any_of, compare, floormod, index, logical_and
from pegbox.expr.nodes import Buffer, Var
from pegbox.expr.visit import Box, substitute
from pegbox.loops.nodes import BlockRealize, Function, Stmt
from pegbox.loops.passes.notes import ROLLING, noted_buffer
from pegbox.loops.passes.roll import Roll, roll_of
from pegbox.loops.visit import map_blocks, realizes, redirect


def roll_buffers(func: Function, *, strict: bool = True) -> tuple[Function, dict[Buffer, Var]]:
    """Replace buffers with a note by circular ones; also return the loops that carry their values.

    Args:
        strict: refuse buffers that cannot roll; otherwise leave them unchanged, for programs that are only shown.

    Raises:
        LoweringError: a buffer with a note cannot roll.
    """
    circular_buffers: list[Roll] = []
    for realize, buffer in rolling(func):
        found = roll_of(func, buffer)
        if isinstance(found, Roll):
            circular_buffers.append(found)
        elif strict:
            where = f"{ROLLING} of {buffer.name} in block {realize.block.name}"
            raise LoweringError(f"{where}: {found.reason}; {found.remedy}")
    carried: dict[Buffer, Var] = {}
    for roll in circular_buffers:
        buffer = roll.buffer
        shape = (*buffer.shape[: roll.dim], roll.extent, *buffer.shape[roll.dim + 1 :])
        new = Buffer(buffer.name, shape, buffer.dtype, buffer.scope)
        allocs = tuple(new if b is buffer else b for b in func.allocs)
        func = replace(func, body=_circular(roll, new, func.body), allocs=allocs)
        carried[new] = roll.loop.var
    return func, carried


def rolling(func: Function) -> Iterator[tuple[BlockRealize, Buffer]]:
    """Yield the blocks with a note, and the buffers that they name, each buffer once."""
    found: set[Buffer] = set()
    for realize in realizes(func.body):
        for key, value in realize.block.annotations:
            if key == ROLLING and (buffer := noted_buffer(realize.block, key, value)) not in found:
                found.add(buffer)
                yield realize, buffer


def _circular(roll: Roll, new: Buffer, body: Stmt) -> Stmt:
    """Redirect all uses of the buffer to the circular one, and do not recompute values that are kept."""

    def around(box: Box) -> Box:
        # A box that may wrap around the end is the whole circle.
        lo, count = box[roll.dim]
        rolled = (floormod(lo, index(roll.extent)), 1) if count == 1 else (ZERO, roll.extent)
        return (*box[: roll.dim], rolled, *box[roll.dim + 1 :])

    def once(realize: BlockRealize) -> BlockRealize:
        block, predicate = realize.block, realize.predicate
        region = next((w for w in block.writes if w.buffer is roll.buffer), None)
        if region is None:
            return realize
        for reused in roll.reused:
            # An element is new in the first iteration, or beyond the kept ones.
            beyond = linear(substitute(region.box[reused.dim][0], realize.bindings)).minus(reused.low).to_expr()
            is_new = any_of([compare("lt", reused.loop.var, ONE), compare("ge", beyond, index(reused.count))])
            predicate = logical_and(predicate, is_new)
        notes = tuple(note for note in block.annotations if note[0] != ROLLING)
        return BlockRealize(realize.values, replace(block, annotations=notes), predicate)

    return redirect(map_blocks(body, once), {roll.buffer: (new, around)})
