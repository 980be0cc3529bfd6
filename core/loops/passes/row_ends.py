"""Pass: store zeros at the ends of an intermediate's rows, where vectors read elements that no statement writes.

    b = alloc(float32[9, 10])                     b = alloc(float32[9, 10])
    for y in range(9):                     =>     for ax0 in range(9):
        for x in vectorized range(8):                 for ax1 in vectorized range(2):
            b[y, x] = a[y, x]                             b[ax0, ax1 + 8] = 0.0
    ...                                           ...

Without guards, vectors reach beyond the end of a row. Their last lanes are dropped, but leftovers of the stack may be
subnormal: a multiply-add with a subnormal number may take a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Iterable

from pegbox.expr import dtypes
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import add, const, index
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.access.access import Access, accesses
from pegbox.loops.access.interval import SymbolicInterval, hull, interval, relaxation
from pegbox.loops.nodes import Alloc, For, ForKind, Function, If, Stmt, Store, seq
from pegbox.loops.visit import loop_ranges, map_children, walk

_MOST = 256
"""The largest number of elements to fill in a row; vectors and register tiles read no further."""


def fill_row_ends(func: Function) -> Function:
    """Store zeros at the ends of rows, right after the allocation.

    Local buffers are skipped, as they are in registers.
    """
    buffers = {s.buffer for s in walk(func.body) if isinstance(s, Alloc) and _may_need_zeros(s.buffer)}
    if not buffers:
        return func
    ranges, found = loop_ranges(func.body), accesses(_without_allocations(func.body))

    def go(stmt: Stmt, depth: int) -> Stmt:
        new = map_children(stmt, lambda child: go(child, depth + isinstance(stmt, For | If)))
        if not isinstance(new, Alloc) or new.buffer not in buffers:
            return new
        inside = [_from(access, depth) for access in found if access.buffer is new.buffer]
        first, end = _end_of_row([a for a in inside if a.stores], [a for a in inside if not a.stores], ranges)
        end = min(end, new.buffer.shape[-1])
        if not first < end <= first + _MOST:
            return new
        return Alloc(new.buffer, seq(_zeros(new.buffer, first, end), new.body))

    return func.with_body(go(func.body, 0))


def _without_allocations(stmt: Stmt) -> Stmt:
    new = map_children(stmt, _without_allocations)
    return new.body if isinstance(new, Alloc) else new


def _from(access: Access, depth: int) -> Access:
    """Skip the outermost loops and tests of a path."""
    return access._replace(path=tuple(s for s in access.path if isinstance(s, For | If))[depth:])


def _may_need_zeros(buffer: Buffer) -> bool:
    return buffer.scope != "local" and len(buffer.shape) > 0 and dtypes.is_float(buffer.dtype)


def _end_of_row(writes: Iterable[Access], reads: Iterable[Access], ranges: Ranges) -> tuple[int, int]:
    """Return the first column after all writes to a row, and the one after all reads; equal ones if one is unknown."""
    ends = []
    for group in writes, reads:
        found = hull(_columns(access, ranges) for access in group)
        if found is None or not found.lo.is_const:
            return 0, 0
        ends.append(found.lo.const + found.width + 1)
    return ends[0], ends[1]


def _columns(access: Access, ranges: Ranges) -> SymbolicInterval | None:
    place, count = access.region.box[-1]
    tests = (test.condition for test in access.tests)
    return interval(place, relaxation(access.loops, ranges, *tests), count)


def _zeros(buffer: Buffer, first: int, end: int) -> Stmt:
    *rows, last = (Var(f"ax{dim}") for dim in range(len(buffer.shape)))
    loops = [(var, extent) for var, extent in zip(rows, buffer.shape, strict=False) if extent > 1]
    at = [var if extent > 1 else index(0) for var, extent in zip(rows, buffer.shape, strict=False)]
    body: Stmt = Store(buffer, (*at, add(last, index(first))), const(0, buffer.dtype))
    body = For(last, end - first, body, ForKind.VECTORIZED)
    for var, extent in reversed(loops):
        body = For(var, extent, body)
    return body
