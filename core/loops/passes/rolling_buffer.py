"""Pass: make the buffers circular that the notes `rolling_buffer` of blocks ask for; see `roll`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pegbox.errors import LoweringError
from pegbox.expr.affine import linear
from pegbox.expr.build import ONE, ZERO, any_of, compare, floormod, index, logical_and
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.visit import rewrite, substitute
from pegbox.loops.nodes import BlockRealize, Function, Region, Stmt, Store
from pegbox.loops.passes.notes import ROLLING, noted_buffer
from pegbox.loops.passes.roll import Kept, Roll, roll_of
from pegbox.loops.visit import map_children, map_own_exprs, realizes


def roll_buffers(func: Function, *, strict: bool = True) -> tuple[Function, dict[Buffer, Var]]:
    """The program with circular buffers in place of those with a note, and the loops that carry their values.

    Args:
        strict: refuse what cannot roll. False leaves it as it is, for programs that are only shown.

    Raises:
        LoweringError: a buffer with a note cannot roll.
    """
    rolls: list[Roll] = []
    for realize, buffer in rolling(func):
        found = roll_of(func, buffer)
        if isinstance(found, Roll):
            rolls.append(found)
        elif strict:
            where = f"{ROLLING} of {buffer.name} in block {realize.block.name}"
            raise LoweringError(f"{where}: {found.reason}; {found.remedy}")
    carried: dict[Buffer, Var] = {}
    for roll in rolls:
        buffer = roll.buffer
        shape = (*buffer.shape[: roll.dim], roll.extent, *buffer.shape[roll.dim + 1 :])
        new = Buffer(buffer.name, shape, buffer.dtype, buffer.scope)
        allocs = tuple(new if b is buffer else b for b in func.allocs)
        func = replace(func, body=_Circular(roll, new).stmt(func.body), allocs=allocs)
        carried[new] = roll.loop.var
    return func, carried


def rolling(func: Function) -> Iterator[tuple[BlockRealize, Buffer]]:
    """The blocks with a note, and the buffers that they mean, each buffer once."""
    found: set[Buffer] = set()
    for realize in realizes(func.body):
        for key, value in realize.block.annotations:
            if key == ROLLING and (buffer := noted_buffer(realize.block, key, value)) not in found:
                found.add(buffer)
                yield realize, buffer


class _Circular:
    """Everything that uses the buffer uses the circular one, and what is kept is not made again."""

    def __init__(self, roll: Roll, new: Buffer) -> None:
        self.roll, self.old, self.new = roll, roll.buffer, new

    def stmt(self, stmt: Stmt) -> Stmt:
        writes = isinstance(stmt, BlockRealize) and any(w.buffer is self.old for w in stmt.block.writes)
        kept = self.made_before(stmt) if isinstance(stmt, BlockRealize) and writes else ()
        changed = map_own_exprs(map_children(stmt, self.stmt), self.expr)
        match changed:
            case Store(buffer, indices, value) if buffer is self.old:
                return Store(self.new, self.indices(indices), value)
            case BlockRealize(values, block, predicate):
                regions = [tuple(map(self.region, side)) for side in (block.reads, block.writes)]
                notes = tuple(note for note in block.annotations if not (writes and note[0] == ROLLING))
                block = replace(block, reads=regions[0], writes=regions[1], annotations=notes)
                for condition in kept:
                    predicate = logical_and(predicate, condition)
                return BlockRealize(values, block, predicate)
            case _:
                return changed

    def made_before(self, realize: BlockRealize) -> Iterator[Expr]:
        """The conditions under which an element is new: in the first iteration, or beyond what is kept."""
        bound = dict(zip((it.var for it in realize.block.iters), realize.values, strict=True))
        region = next(w for w in realize.block.writes if w.buffer is self.old)
        return (self.is_new(kept, substitute(region.box[kept.dim][0], bound)) for kept in self.roll.kept)

    def is_new(self, kept: Kept, place: Expr) -> Expr:
        beyond = linear(place).minus(kept.low).to_expr()
        return any_of([compare("lt", kept.loop.var, ONE), compare("ge", beyond, index(kept.count))])

    def expr(self, expr: Expr) -> Expr:
        def leaf(e: Expr) -> Expr | None:
            if isinstance(e, Load) and e.buffer is self.old:
                return e.at(self.new, self.indices(tuple(rewrite(i, leaf) for i in e.indices)))
            return None

        return rewrite(expr, leaf)

    def indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self.around(i) if dim == self.roll.dim else i for dim, i in enumerate(indices))

    def around(self, place: Expr) -> Expr:
        return floormod(place, index(self.roll.extent))

    def region(self, region: Region) -> Region:
        """A box that may reach around the end is the whole circle."""
        if region.buffer is not self.old:
            return region
        lo, count = region.box[self.roll.dim]
        box = list(region.box)
        box[self.roll.dim] = (self.around(lo), 1) if count == 1 else (ZERO, self.roll.extent)
        return Region(self.new, tuple(box))
