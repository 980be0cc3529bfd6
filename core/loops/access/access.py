"""What the body of a block touches, loops and blocks inside of it included; whether the regions it states hold that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from pegbox.expr.affine import Linear
from pegbox.expr.bounds import Interval, Ranges, linear_bounds
from pegbox.expr.build import ZERO
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import substitute
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, interval
from pegbox.loops.access.region import read, reads_and_writes, written
from pegbox.loops.nodes import Alloc, BlockIter, BlockRealize, For, Region, Stmt
from pegbox.loops.visit import children, iter_ranges, walk


@dataclass(frozen=True, slots=True)
class Touch:
    """One access, over the block's variables and those of loops inside (blocks inside are bound already)."""

    region: Region
    stores: bool


def touched(stmt: Stmt, ranges: dict[Var, Interval], values: Mapping[Var, Expr] | None = None) -> Iterator[Touch]:
    """Every access below, apart from those to buffers allocated there; fills in the ranges of the loops."""
    known = values or {}
    if isinstance(stmt, BlockRealize):
        bound = {it.var: substitute(v, known) for it, v in zip(stmt.block.iters, stmt.values, strict=True)}
        known = {**known, **bound}
    else:
        for stores, regions in ((False, read(stmt)), (True, written(stmt))):
            for region in regions:
                box = tuple((substitute(lo, known), count) for lo, count in region.box)
                yield Touch(Region(region.buffer, box), stores)
    if isinstance(stmt, For):
        ranges[stmt.var] = (0, stmt.extent - 1)
    for child in children(stmt):
        for touch in touched(child, ranges, known):
            if not (isinstance(stmt, Alloc) and touch.region.buffer is stmt.buffer):
                yield touch


def derived_regions(
    iters: Sequence[BlockIter], body: Stmt, init: Stmt | None
) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """What a block reads and writes, as boxes over its variables; what it reads where it writes is left out."""
    ranges = iter_ranges(iters)
    touches = [t for part in (init, body) if part is not None for t in touched(part, ranges)]
    relax = Relaxation(set(ranges) - {it.var for it in iters}, ranges)
    if any(isinstance(s, For | BlockRealize | Alloc) for s in walk(body)):
        writes = _boxes([t.region for t in touches if t.stores], relax)
        own = {region.buffer for region in writes}
        reads = _boxes([t.region for t in touches if not t.stores and t.region.buffer not in own], relax)
    else:
        reads, writes = reads_and_writes(body, init)
        own = {region.buffer for region in writes}
    elsewhere = [
        t.region for t in touches if not t.stores and t.region.buffer in own if not held(t.region, writes, ranges)
    ]
    # Together they may make the very box that is written.
    apart = (region for region in _boxes(elsewhere, relax) if not held(region, writes, ranges))
    return (*reads, *apart), writes


def _boxes(regions: Sequence[Region], relax: Relaxation) -> tuple[Region, ...]:
    """One box a buffer, around all places."""
    spans: dict[Buffer, list[SymbolicInterval | None]] = {}
    for region in regions:
        found = [_span(lo, count, relax) for lo, count in region.box]
        known = spans.get(region.buffer)
        spans[region.buffer] = found if known is None else [_hull(a, b) for a, b in zip(known, found, strict=True)]
    return tuple(Region(buffer, tuple(map(_extent, found, buffer.shape))) for buffer, found in spans.items())


def _span(lo: Expr, count: int, relax: Relaxation) -> SymbolicInterval | None:
    found = interval(lo, relax)
    return found if found is None or count == 1 else found.widened(count - 1)


def _hull(a: SymbolicInterval | None, b: SymbolicInterval | None) -> SymbolicInterval | None:
    return None if a is None or b is None else a.hull(b)


def _extent(span: SymbolicInterval | None, extent: int) -> tuple[Expr, int]:
    if span is None or span.width >= extent:
        return ZERO, extent
    return span.lo.to_expr(), span.width + 1


def uncovered(
    iters: Sequence[BlockIter], body: Stmt, init: Stmt | None, reads: Sequence[Region], writes: Sequence[Region]
) -> Touch | None:
    """An access that the stated regions cannot be shown to hold, if there is one."""
    ranges = iter_ranges(iters)
    touches = [t for part in (init, body) if part is not None for t in touched(part, ranges)]
    for touch in touches:
        stated = writes if touch.stores else (*reads, *writes)
        inside = set(ranges) - {it.var for it in iters}
        if not any(r.buffer is touch.region.buffer and holds(r, touch.region, ranges, inside) for r in stated):
            return touch
    return None


def held(region: Region, stated: Iterable[Region], ranges: Ranges) -> bool:
    """Does one of the stated regions hold this one?"""
    return any(r.buffer is region.buffer and holds(r, region, ranges) for r in stated)


def holds(outer: Region, inner: Region, ranges: Ranges, running: Set[Var] = frozenset()) -> bool:
    """Does the box `outer` hold the box `inner` while some loops are `running`, as far as can be shown?"""
    relax = Relaxation(running, ranges)
    for (lo, count), (at, width), extent in zip(outer.box, inner.box, outer.buffer.shape, strict=True):
        if width <= count and same(lo, at):
            continue
        start: Linear = simplified_linear(lo, ranges)
        if start.is_const and start.const <= 0 and start.const + count >= extent:
            continue
        between = linear_bounds(simplified_linear(at, ranges).minus(start), ranges)
        if between is None or between[0] < 0 or between[1] + width > count:
            # Of an index with `//` or `%`, the values that it takes meanwhile say more.
            found = interval(at, relax)
            gap = None if found is None else found.lo.minus(start)
            if found is None or gap is None or not gap.is_const:
                return False
            if gap.const < 0 or gap.const + found.width + width > count:
                return False
    return True
