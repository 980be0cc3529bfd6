"""The read and write regions that a block declares: inferred from its body, or checked against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from pegbox.expr.bounds import Ranges, linear_bounds
from pegbox.expr.build import ZERO
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, hull, interval
from pegbox.loops.access.region import reads_and_writes
from pegbox.loops.nodes import Alloc, BlockIter, BlockRealize, For, Region, Stmt
from pegbox.loops.visit import iter_ranges, loop_ranges, walk


def derived_regions(
    iters: Sequence[BlockIter], body: Stmt, init: Stmt | None
) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """Derive a block's reads and writes as boxes over its variables, without its reads of elements that it writes."""
    found, relax = _inside(iters, body, init)
    if any(isinstance(s, For | BlockRealize | Alloc) for s in walk(body)):
        writes = _boxes([a.region for a in found if a.stores], relax)
        own = {region.buffer for region in writes}
        reads = _boxes([a.region for a in found if not a.stores and a.buffer not in own], relax)
    else:
        reads, writes = reads_and_writes(body, init)
        own = {region.buffer for region in writes}
        reads = tuple(region for region in reads if region.buffer not in own)
    own_reads = [a.region for a in found if not a.stores and a.buffer in own]
    elsewhere = [region for region in own_reads if not contained(region, writes, relax.ranges)]
    # Together they may make the very box that is written.
    apart = (region for region in _boxes(elsewhere, relax) if not contained(region, writes, relax.ranges))
    return (*reads, *apart), writes


def _inside(iters: Sequence[BlockIter], body: Stmt, init: Stmt | None) -> tuple[list[Access], Relaxation]:
    """Return the accesses of a block, and the loops that run inside it."""
    parts = [part for part in (init, body) if part is not None]
    loops = {var: between for part in parts for var, between in loop_ranges(part).items()}
    return [a for part in parts for a in accesses(part)], Relaxation(set(loops), {**iter_ranges(iters), **loops})


def _boxes(regions: Sequence[Region], relax: Relaxation) -> tuple[Region, ...]:
    """Make one box for each buffer, around all places."""
    boxes: dict[Buffer, list[list[SymbolicInterval | None]]] = {}
    for region in regions:
        boxes.setdefault(region.buffer, []).append([interval(lo, relax, count) for lo, count in region.box])
    return tuple(
        Region(buffer, tuple(map(_extent, map(hull, zip(*found, strict=True)), buffer.shape)))
        for buffer, found in boxes.items()
    )


def _extent(found: SymbolicInterval | None, extent: int) -> tuple[Expr, int]:
    if found is None or found.width >= extent:
        return ZERO, extent
    return found.lo.to_expr(), found.width + 1


def uncovered(
    iters: Sequence[BlockIter], body: Stmt, init: Stmt | None, reads: Sequence[Region], writes: Sequence[Region]
) -> Access | None:
    """Find an access of a block that is not provably within the stated regions."""
    found, relax = _inside(iters, body, init)
    for access in found:
        stated = writes if access.stores else (*reads, *writes)
        if not contained(access.region, stated, relax.ranges, relax.running):
            return access
    return None


def contained(region: Region, stated: Iterable[Region], ranges: Ranges, running: Set[Var] = frozenset()) -> bool:
    """Check if one of the stated regions contains this one."""
    candidates = [r for r in stated if r.buffer is region.buffer]
    # Most accesses are stated literally, and can be found without simplification.
    return any(repeats(r, region) for r in candidates) or any(contains(r, region, ranges, running) for r in candidates)


def repeats(outer: Region, inner: Region) -> bool:
    """Check if the inner region begins at the same indices, with a box no larger than the outer one's."""
    return all(width <= count and same(lo, at) for (lo, count), (at, width) in zip(outer.box, inner.box, strict=True))


def contains(outer: Region, inner: Region, ranges: Ranges, running: Set[Var] = frozenset()) -> bool:
    """Prove that the box `outer` contains the box `inner` while some loops are `running`; False without a proof."""
    relax = Relaxation(running, ranges)
    for (lo, count), (at, width), extent in zip(outer.box, inner.box, outer.buffer.shape, strict=True):
        if width <= count and same(lo, at):
            continue
        start = simplified_linear(lo, ranges)
        if start.is_const and start.const <= 0 and start.const + count >= extent:
            continue
        between = linear_bounds(simplified_linear(at, ranges).minus(start), ranges)
        if between is None or between[0] < 0 or between[1] + width > count:
            # For an index with `//` or `%`, the interval of its values says more.
            found = interval(at, relax, width)
            gap = None if found is None else found.lo.minus(start)
            if found is None or gap is None or not gap.is_const:
                return False
            if gap.const < 0 or gap.const + found.width >= count:
                return False
    return True
