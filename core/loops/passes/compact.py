"""Pass: allocate each intermediate inside the innermost loop around its uses, with the size needed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from pegbox.expr.affine import Linear, linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import conjuncts, floordiv
from pegbox.expr.dtypes import nbytes
from pegbox.expr.nodes import Binary, Buffer, Const, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import Box, free_vars
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, interval, relaxation
from pegbox.loops.nodes import Alloc, For, ForKind, Function, Stmt
from pegbox.loops.passes.partition import is_hinted
from pegbox.loops.visit import common_path, loop_ranges, map_children, redirect, walk

_SMALL = 64 * 1024  # the bytes up to which a buffer may outgrow its tensor, so that whole tiles fit


@dataclass(frozen=True)
class _Placement:
    """A replacement of `old` by `new`, allocated around `anchor`; `lows` are the lowest indices of the uses."""

    anchor: Stmt
    old: Buffer
    new: Buffer
    lows: tuple[Linear, ...]


def compact_buffers(func: Function, *, grow: bool = True, carried: Mapping[Buffer, Var] | None = None) -> Function:
    """Put each intermediate in an Alloc at the innermost place around all of its uses, cut to the part used there.

    Args:
        grow: let a buffer become a little larger than its tensor, so that whole tiles can be computed without guards.
        carried: the buffers whose values a loop carries from one iteration to the next; they are allocated around that
            loop.
    """
    ranges = loop_ranges(func.body)
    cut = {loop.var for loop in walk(func.body) if isinstance(loop, For) and is_hinted(loop)}
    uses: dict[Buffer, list[Access]] = {b: [] for b in func.allocs}
    for access in accesses(func.body):
        if access.buffer in uses:
            uses[access.buffer].append(access)
    carried = carried or {}
    placements = [
        _place(buffer, found, ranges, grow, cut, carried.get(buffer)) for buffer, found in uses.items() if found
    ]
    return replace(func, body=_apply(func.body, placements, ranges), allocs=())


def _place(
    buffer: Buffer, uses: Sequence[Access], ranges: Ranges, grow: bool, cut: Set[Var], loop: Var | None
) -> _Placement:
    common = common_path([use.path for use in uses])
    if loop is not None:
        # If another nest uses the buffer, too, it is allocated around both anyway.
        del common[1 + next((n for n, s in enumerate(common) if isinstance(s, For) and s.var is loop), len(common)) :]
    while any(isinstance(s, For) and s.kind is ForKind.VECTORIZED for s in common[:-1]):
        common.pop()
    # A buffer that iterations share must have room for all of them.
    outer = {s.var for s in common[:-1] if isinstance(s, For) and not s.kind.shares(buffer.scope)}
    asked = []
    for use in uses:
        # If buffers may grow, guards are dropped later, except for conditions at which loops are cut.
        tests = [c for s in use.tests for c in conjuncts(s.condition) if not grow or not s.guard or free_vars(c) & cut]
        asked.append((use, relaxation(use.loops - outer, ranges, *tests)))
    box = [_extent(buffer, d, asked, grow) for d in range(len(buffer.shape))]
    if nbytes(buffer.dtype) * prod(extent for _, extent in box) > max(_SMALL, buffer.nbytes * 5 // 4):
        pairs = zip(box, buffer.shape, strict=True)
        box = [(lo, extent) if extent <= size else (Linear({}, 0), size) for (lo, extent), size in pairs]
    shape = tuple(extent for _, extent in box)
    new = Buffer(buffer.name, shape, buffer.dtype, buffer.scope)
    return _Placement(common[-1], buffer, new, tuple(lo for lo, _ in box))


def _extent(buffer: Buffer, dim: int, uses: Sequence[tuple[Access, Relaxation]], grow: bool) -> tuple[Linear, int]:
    """Find the lowest index (in variables of the loops around) and the number of elements used."""
    whole = Linear({}, 0), buffer.shape[dim]
    hull: SymbolicInterval | None = None
    wanted = buffer.shape[dim] - 1  # the last index that needs room
    may_grow = grow and not any(_runs_on(use.region.box, dim, whole[1]) for use, _ in uses)
    for use, relax in uses:
        first_index, count = use.region.box[dim]
        found = interval(first_index, relax, count)
        if found is None:
            return whole
        # A guard may be dropped, so there must be room for the elements that it excludes.
        if may_grow and found.lo.is_const and any(s.guard for s in use.tests):
            wanted = max(wanted, found.lo.const + found.width)
        hull = found if hull is None else hull.hull(found)
        if hull is None:
            return whole
    assert hull is not None
    lo, extent = hull.lo, hull.width + 1
    if lo.is_const:
        # Elements beyond the ends are accessed only if a test fails.
        first, last = max(lo.const, 0), min(lo.const + hull.width, wanted)
        lo, extent = Linear({}, first), max(last - first, 0) + 1
    return whole if extent > buffer.shape[dim] and not grow else (lo, extent)


def _runs_on(box: Box, dim: int, extent: int) -> bool:
    """Decide if neighbours along a dimension run on in the next row, which elements between the rows would tear apart.

    Their indices are `place // extent` and `place % extent`.
    """
    match box[dim]:
        case (Binary("floormod", place, Const() as divisor), 1) if dim and divisor.integer == extent:
            return floordiv(place, divisor) in linear(box[dim - 1][0]).terms
    return False


def _apply(body: Stmt, placements: Sequence[_Placement], ranges: Ranges) -> Stmt:
    anchors: dict[int, list[Buffer]] = {}
    for placement in placements:
        anchors.setdefault(id(placement.anchor), []).append(placement.new)

    def place(lows: tuple[Linear, ...], box: Box) -> Box:
        return tuple(
            (simplified_linear(i, ranges).add(low, -1).to_expr() if low.terms or low.const else i, count)
            for (i, count), low in zip(box, lows, strict=True)
        )

    def go(stmt: Stmt) -> Stmt:
        changed = map_children(stmt, go)
        for buffer in anchors.get(id(stmt), ()):
            changed = Alloc(buffer, changed)
        return changed

    return redirect(go(body), {p.old: (p.new, partial(place, p.lows)) for p in placements})
