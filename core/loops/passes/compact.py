"""Intermediate buffers need room only for what is alive at a time: allocate them where they are used, that large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pegbox.expr.affine import Linear
from pegbox.expr.bounds import Interval
from pegbox.expr.low_level import Stride, stored_box
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.simplify import simplified_linear
from pegbox.expr.visit import loads, rewrite
from pegbox.loops.access.interval import Relaxation, SymbolicInterval, caps_of, interval
from pegbox.loops.nodes import Alloc, Evaluate, For, ForKind, Function, If, Seq, Stmt, Store, seq
from pegbox.loops.threads.axes import is_shared
from pegbox.loops.visit import children, expressions, loop_ranges, map_exprs

_SMALL = 64 * 1024  # bytes up to which a buffer may grow beyond its tensor, so that whole tiles fit


@dataclass(frozen=True)
class _Access:
    """One load or store of `box` elements; `path` leads from the root to the statement it stands in."""

    path: tuple[Stmt, ...]
    indices: tuple[Expr, ...]
    box: tuple[int, ...]

    def relaxation(self, outer: set[Var], ranges: dict[Var, Interval], *, guards: bool) -> Relaxation:
        """The loops that run inside of the allocation, and what tests say of them.

        Guards count only where they will not be dropped.
        """
        running = {s.var for s in self.path if isinstance(s, For)} - outer
        tests = [s.condition for s in self.path if isinstance(s, If) and (guards or not s.guard)]
        return Relaxation(running, ranges, [cap for test in tests for cap in caps_of(test, running, ranges)])

    @property
    def guarded(self) -> bool:
        """Is there a test around it that may be dropped where the buffer has room?"""
        return any(isinstance(s, If) and s.guard for s in self.path)


@dataclass(frozen=True)
class _Placement:
    """`old` becomes `new`, allocated around `anchor`; `lows` are the lowest indices that its uses have."""

    anchor: Stmt
    old: Buffer
    new: Buffer
    lows: tuple[Linear, ...]


def compact_buffers(func: Function, *, grow: bool = True) -> Function:
    """Put each intermediate in an Alloc at the innermost place that holds all its uses, cut to the part used there.

    Args:
        grow: let a buffer end up a little larger than its tensor: whole tiles, so that their tails can be computed
            unguarded.
    """
    ranges = loop_ranges(func.body)
    accesses: dict[Buffer, list[_Access]] = {b: [] for b in func.allocs}
    _collect(func.body, (), accesses)
    placements = [_place(buffer, uses, ranges, grow) for buffer, uses in accesses.items() if uses]
    placed = {p.old: p.new for p in placements}
    notes = tuple((placed.get(buffer, buffer), key, value) for buffer, key, value in func.notes)
    return replace(func, body=_apply(func.body, placements, ranges), allocs=(), notes=notes)


def _collect(stmt: Stmt, path: tuple[Stmt, ...], accesses: dict[Buffer, list[_Access]]) -> None:
    here = (*path, stmt)
    if isinstance(stmt, Store) and stmt.buffer in accesses:
        accesses[stmt.buffer].append(_Access(here, stmt.indices, stored_box(stmt.indices, stmt.value)))
    for expr in expressions(stmt):
        for load in loads(expr):
            if load.buffer in accesses:
                accesses[load.buffer].append(_Access(here, load.indices, load.box))
    for child in children(stmt):
        _collect(child, here, accesses)


def _place(buffer: Buffer, uses: Sequence[_Access], ranges: dict[Var, Interval], grow: bool) -> _Placement:
    common = uses[0].path
    for use in uses[1:]:
        depth = 0
        while depth < min(len(common), len(use.path)) and common[depth] is use.path[depth]:
            depth += 1
        common = common[:depth]
    while len(common) > 1 and _is_vector(common):
        common = common[:-1]
    # What threads see together must have room for all of them.
    outer = {s.var for s in common[:-1] if isinstance(s, For) and not is_shared(buffer.scope, s)}
    asked = [(use, use.relaxation(outer, ranges, guards=not grow)) for use in uses]
    box = [_extent(buffer, d, asked, grow) for d in range(len(buffer.shape))]
    shape = tuple(extent for _, extent in box)
    new = Buffer(buffer.name, shape, buffer.dtype, buffer.scope)
    return _Placement(common[-1], buffer, new, tuple(lo for lo, _ in box))


def _is_vector(path: tuple[Stmt, ...]) -> bool:
    """Is the end of the path inside a vectorized loop? Allocations stay outside those."""
    return any(isinstance(s, For) and s.kind is ForKind.VECTORIZED for s in path[:-1])


def _extent(buffer: Buffer, dim: int, uses: Sequence[tuple[_Access, Relaxation]], grow: bool) -> tuple[Linear, int]:
    """Lowest index (in variables of the loops around) and the number of elements used."""
    whole = Linear({}, 0), buffer.shape[dim]
    hull: SymbolicInterval | None = None
    wanted = buffer.shape[dim] - 1  # the last index that has to have room
    for use, relax in uses:
        found = interval(use.indices[dim], relax)
        if found is None:
            return whole
        if use.box[dim] > 1:
            found = found.widened(use.box[dim] - 1)
        if grow and use.guarded and found.lo.is_const:
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


def _apply(body: Stmt, placements: Sequence[_Placement], ranges: dict[Var, Interval]) -> Stmt:
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

    def go(stmt: Stmt) -> Stmt:
        match stmt:
            case For():
                changed: Stmt = stmt.with_body(go(stmt.body))
            case Seq(stmts):
                changed = seq(*map(go, stmts))
            case If(condition, then, guard):
                changed = If(rewrite(condition, leaf), go(then), guard)
            case Evaluate(expr):
                changed = Evaluate(rewrite(expr, leaf))
            case Store():
                changed = _store(map_exprs(stmt, lambda e: rewrite(e, leaf)))
            case Alloc(buffer, inner):
                changed = Alloc(buffer, go(inner))
            case _:
                raise TypeError(f"unknown statement {type(stmt).__name__}")
        for buffer in anchors.get(id(stmt), ()):
            changed = Alloc(buffer, changed)
        return changed

    def _store(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, Store)
        if stmt.buffer not in new_buffers:
            return stmt
        new, lows = new_buffers[stmt.buffer]
        return Store(new, rebase(stmt.indices, lows), stmt.value)

    return go(body)
