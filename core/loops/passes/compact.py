"""Pass: allocate each intermediate inside the innermost loop around its uses, with the size used there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pegbox.expr.affine import Linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.low_level import Stride
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import rewrite
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, interval, relaxation
from pegbox.loops.nodes import Alloc, For, ForKind, Function, Seq, Stmt, Store
from pegbox.loops.visit import common_path, loop_ranges, map_children, map_own_exprs

_SMALL = 64 * 1024  # bytes up to which a buffer may grow beyond its tensor, so that whole tiles fit


@dataclass(frozen=True)
class _Placement:
    """`old` becomes `new`, allocated around `anchor`; `lows` are the lowest indices that its uses have."""

    anchor: Stmt
    old: Buffer
    new: Buffer
    lows: tuple[Linear, ...]


def compact_buffers(func: Function, *, grow: bool = True, carried: Mapping[Buffer, Var] | None = None) -> Function:
    """Put each intermediate in an Alloc at the innermost place that holds all its uses, cut to the part used there.

    Args:
        grow: let a buffer end up a little larger than its tensor: whole tiles, so that their tails can be computed
            unguarded.
        carried: buffers whose values a loop carries from one iteration to the next: they stand around that loop.
    """
    ranges = loop_ranges(func.body)
    uses: dict[Buffer, list[Access]] = {b: [] for b in func.allocs}
    for access in accesses(func.body):
        if access.buffer in uses:
            uses[access.buffer].append(access)
    carried = carried or {}
    placements = [_place(buffer, found, ranges, grow, carried.get(buffer)) for buffer, found in uses.items() if found]
    return replace(func, body=_apply(func.body, placements, ranges), allocs=())


def _place(buffer: Buffer, uses: Sequence[Access], ranges: Ranges, grow: bool, loop: Var | None) -> _Placement:
    common = common_path([use.path for use in uses])
    if loop is not None:
        # If another nest uses the buffer too, it stands around both anyway.
        del common[1 + next((n for n, s in enumerate(common) if isinstance(s, For) and s.var is loop), len(common)) :]
    while len(common) > 1 and _is_vector(common):
        common.pop()
    # What threads see together must have room for all of them.
    outer = {s.var for s in common[:-1] if isinstance(s, For) and not s.kind.shares(buffer.scope)}
    asked = [(use, _relaxation(use, outer, ranges, guards=not grow)) for use in uses]
    box = [_extent(buffer, d, asked, grow) for d in range(len(buffer.shape))]
    shape = tuple(extent for _, extent in box)
    new = Buffer(buffer.name, shape, buffer.dtype, buffer.scope)
    return _Placement(common[-1], buffer, new, tuple(lo for lo, _ in box))


def _relaxation(use: Access, outer: set[Var], ranges: Ranges, *, guards: bool) -> Relaxation:
    """The loops that run inside of the allocation, and what tests say of them.

    Guards count only where they will not be dropped.
    """
    tests = [s.condition for s in use.tests if guards or not s.guard]
    return relaxation(use.loops - outer, ranges, *tests)


def _is_vector(path: Sequence[Stmt]) -> bool:
    """Is the end of the path inside a vectorized loop? Allocations stay outside those."""
    return any(isinstance(s, For) and s.kind is ForKind.VECTORIZED for s in path[:-1])


def _extent(buffer: Buffer, dim: int, uses: Sequence[tuple[Access, Relaxation]], grow: bool) -> tuple[Linear, int]:
    """Lowest index (in variables of the loops around) and the number of elements used."""
    whole = Linear({}, 0), buffer.shape[dim]
    hull: SymbolicInterval | None = None
    wanted = buffer.shape[dim] - 1  # the last index that has to have room
    for use, relax in uses:
        first_index, count = use.region.box[dim]
        found = interval(first_index, relax, count)
        if found is None:
            return whole
        # Where a test may be dropped, there must be room for what it kept out.
        if grow and found.lo.is_const and any(s.guard for s in use.tests):
            wanted = max(wanted, found.lo.const + found.width)
        hull = found if hull is None else hull.hull(found)
        if hull is None:
            return whole
    assert hull is not None
    lo, extent = hull.lo, hull.width + 1
    if lo.is_const:
        # Elements beyond the ends are asked for only where some test fails.
        first, last = max(lo.const, 0), min(lo.const + hull.width, wanted)
        lo, extent = Linear({}, first), max(last - first, 0) + 1
    if extent > buffer.shape[dim]:
        row = buffer.nbytes // buffer.shape[dim]
        if not grow or extent * row > max(_SMALL, buffer.nbytes * 5 // 4):
            return whole
    return lo, extent


def _apply(body: Stmt, placements: Sequence[_Placement], ranges: Ranges) -> Stmt:
    new_buffers = {p.old: (p.new, p.lows) for p in placements}
    anchors: dict[int, list[Buffer]] = {}
    for placement in placements:
        anchors.setdefault(id(placement.anchor), []).append(placement.new)

    def rebase(indices: tuple[Expr, ...], lows: tuple[Linear, ...]) -> tuple[Expr, ...]:
        return tuple(
            simplified_linear(i, ranges).add(low, -1).to_expr() if low.terms or low.const else i
            for i, low in zip(indices, lows, strict=True)
        )

    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in new_buffers:
            new, lows = new_buffers[e.buffer]
            return e.at(new, rebase(tuple(rewrite(i, leaf) for i in e.indices), lows))
        if isinstance(e, Stride) and e.buffer in new_buffers:
            return Stride(new_buffers[e.buffer][0], e.dim)
        return None

    def moved(expr: Expr) -> Expr:
        return rewrite(expr, leaf)

    def go(stmt: Stmt) -> Stmt:
        changed = map_children(stmt, go)
        if not isinstance(stmt, For | Seq):
            changed = map_own_exprs(changed, moved)
        if isinstance(changed, Store) and changed.buffer in new_buffers:
            new, lows = new_buffers[changed.buffer]
            changed = Store(new, rebase(changed.indices, lows), changed.value)
        for buffer in anchors.get(id(stmt), ()):
            changed = Alloc(buffer, changed)
        return changed

    return go(body)
