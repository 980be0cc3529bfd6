"""Recurrences: blocks that read elements written by earlier iterations of surrounding loops.

    for t in range(8):
        for i in range(4):
            S[t, i] = S[t - 1, i] + X[t, i]

The rows of S follow each other in one dimension. A row is read after it was written if the loops that count the rows
run in order, and this module checks only that: the other loops may have any place and order that provides each reader
with its elements of the other dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from pegbox.expr.affine import Linear, constant, linear
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import substitute
from pegbox.loops.access.block_region import contained
from pegbox.loops.access.region import read
from pegbox.loops.nodes import BlockRealize, For, Function, Region, Stmt
from pegbox.loops.visit import blocks_below, children, iter_ranges, walk


@dataclass(frozen=True, slots=True)
class Rows:
    """The dimension in which rows follow each other, and the loops that count them, outermost first."""

    dim: int
    loops: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class CarriedRead:
    """A read of a buffer before, or in, the block that writes it.

    Attributes:
        shared: the loops around both blocks.
        single: the variables of loops around one of them that run once.
    """

    writer: BlockRealize
    buffer: Buffer
    reader: BlockRealize
    shared: tuple[For, ...]
    single: frozenset[Var]


def carried_reads(body: Stmt, blocks: Iterable[BlockRealize]) -> list[CarriedRead]:
    """Find the reads of buffers by blocks that run no later than a block that writes them, in program order.

    Args:
        blocks: the outer blocks of the body, in program order.
    """
    read_before: set[Buffer] = set()
    for realize in blocks:
        read_before.update([region.buffer for region in realize.block.reads])
        if not read_before.isdisjoint([region.buffer for region in realize.block.writes]):
            break
    else:
        return []  # a shortcut, as most programs have none, and each step of a schedule asks
    found: list[CarriedRead] = []
    seen: dict[Buffer, list[tuple[BlockRealize, tuple[For, ...]]]] = {}
    for realize, around in _blocks(body, ()):
        for region in realize.block.reads:
            seen.setdefault(region.buffer, []).append((realize, around))
        for buffer in dict.fromkeys(region.buffer for region in realize.block.writes):
            for reader, loops in dict(seen.get(buffer, ())).items():
                shared = tuple(loop for loop in around if loop in loops)
                single = frozenset(loop.var for loop in (*around, *loops) if loop.extent == 1)
                found.append(CarriedRead(realize, buffer, reader, shared, single))
    return found


def _blocks(stmt: Stmt, around: tuple[For, ...]) -> Iterator[tuple[BlockRealize, tuple[For, ...]]]:
    """Yield the outer blocks in program order, and the loops around each."""
    if isinstance(stmt, BlockRealize):
        yield stmt, around
        return
    if isinstance(stmt, For):
        around = (*around, stmt)
    for child in children(stmt):
        yield from _blocks(child, around)


def rows_of(carried: CarriedRead) -> Rows | None:
    """Find the rows that justify a read: earlier iterations of the counting loops have written all its elements.

    None if that cannot be proven for the dimension of the rows. The other dimensions are not checked.
    """
    writes = [w for w in carried.writer.block.writes if w.buffer is carried.buffer]
    reads = list(_reads(carried))
    if len(writes) != 1 or not reads:
        return None
    loops = {loop.var: loop for loop in carried.shared}
    for dim, (lo, count) in enumerate(writes[0].box):
        row = _bound(lo, carried.writer, carried.single)
        if count != 1 or not row.terms.keys() <= loops.keys():
            continue
        firsts = [(_bound(r.box[dim][0], carried.reader, carried.single), r.box[dim][1]) for r in reads]
        gaps = [row.minus(first.add(constant(n - 1))) for first, n in firsts]
        counting = [loop for loop in carried.shared if loop.var in row.terms]
        if all(gap.is_const and gap.const >= 1 for gap in gaps) and in_order(row, counting):
            return Rows(dim, tuple(loop.var for loop in counting))
    return None


def _reads(carried: CarriedRead) -> Iterator[Region]:
    """Yield the regions that are read; for a block that reads its own output each load, which its regions may omit."""
    if carried.reader is not carried.writer:
        yield from (r for r in carried.reader.block.reads if r.buffer is carried.buffer)
        return
    for stmt in walk(carried.reader.block.body):
        if isinstance(stmt, For | BlockRealize):
            # Its indices are unknown here: it may read any element that the block writes.
            yield from (r for r in carried.reader.block.writes if r.buffer is carried.buffer)
        else:
            yield from (r for r in read(stmt) if r.buffer is carried.buffer)


def _bound(index: Expr, realize: BlockRealize, single: Set[Var]) -> Linear:
    """Write an index over a block's variables as a sum of loops that run more than once."""
    form = linear(substitute(index, realize.bindings))
    return Linear({term: c for term, c in form.terms.items() if term not in single}, form.const)


def in_order(row: Linear, loops: Sequence[For]) -> bool:
    """Decide if loops visit the rows from the first on, one after the other. A single row needs no loop."""
    inside = 0
    for loop in reversed(loops):
        coefficient = row.terms[loop.var]
        if coefficient <= inside:
            return False
        inside += coefficient * (loop.extent - 1)
    return row.const == 0


def reduces_in_order(realize: BlockRealize, around: Sequence[For]) -> bool:
    """Decide if loops count up the reduce variables of a block, the last of which runs fastest.

    Args:
        around: the loops around the block, outermost first.
    """
    single = frozenset(loop.var for loop in around if loop.extent == 1)
    last = -1
    for it in realize.block.iters:
        if it.is_reduce:
            row = _bound(it.var, realize, single)
            counting = [n for n, loop in enumerate(around) if loop.var in row.terms]
            loops = [around[n] for n in counting]
            if row.terms.keys() != {loop.var for loop in loops} or not in_order(row, loops):
                return False
            if counting and counting[0] < last:
                return False
            last = max([last, *counting])
    return True


def is_update(carried: CarriedRead) -> bool:
    """Check if a block updates the same element that it reads, as reductions do."""
    block = carried.reader.block
    reads = [region for region in block.reads if region.buffer is carried.buffer]
    ranges = iter_ranges(block.iters)
    return carried.reader is carried.writer and all(contained(region, block.writes, ranges) for region in reads)


def carrying_loops(func: Function) -> dict[Buffer, Var]:
    """Find the intermediates read in later iterations, and the outermost loop that may carry them."""
    found: dict[Buffer, Var] = {}
    for carried in carried_reads(func.body, blocks_below(func.body)):
        if carried.buffer in func.allocs and carried.shared and not is_update(carried):
            rows = rows_of(carried)
            known = {
                found.get(carried.buffer),
                *((loop.var for loop in carried.shared) if rows is None else rows.loops),
            }
            found[carried.buffer] = next((x.var for x in carried.shared if x.var in known), carried.shared[0].var)
    return found
