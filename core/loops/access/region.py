"""Regions: the part of a buffer that a block reads or writes, as one interval per dimension."""

from __future__ import annotations

from pegbox.expr.build import ZERO
from pegbox.expr.equal import same
from pegbox.expr.low_level import Address, stored_box
from pegbox.expr.nodes import Buffer, Expr, Load
from pegbox.expr.visit import loads
from pegbox.loops.nodes import Region, Stmt, Store
from pegbox.loops.visit import expressions, walk


def point(buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
    """Make the region of one element."""
    return Region(buffer, tuple((index, 1) for index in indices))


def box(buffer: Buffer, indices: tuple[Expr, ...], extents: tuple[int, ...]) -> Region:
    """Return the region of some elements from `indices` on."""
    return Region(buffer, tuple(zip(indices, extents, strict=True)))


def whole_region(buffer: Buffer) -> Region:
    """Return the region of all elements."""
    return Region(buffer, tuple((ZERO, extent) for extent in buffer.shape))


def written(stmt: Stmt) -> list[Region]:
    """List the regions that a statement itself writes, through calls too."""
    found = [box(stmt.buffer, stmt.indices, stored_box(stmt.indices, stmt.value))] if isinstance(stmt, Store) else []
    return found + [box(x.buffer, x.indices, x.box) for x in _loads(stmt) if isinstance(x, Address) and "w" in x.access]


def read(stmt: Stmt) -> list[Region]:
    """List the regions that a statement itself reads."""
    return [box(x.buffer, x.indices, x.box) for x in _loads(stmt) if not isinstance(x, Address) or "r" in x.access]


def _loads(stmt: Stmt) -> list[Load]:
    return [load for expr in expressions(stmt) for load in loads(expr)]


def written_below(*stmts: Stmt) -> dict[Buffer, None]:
    """Return the buffers that statements and those below them write, in order."""
    return {region.buffer: None for stmt in stmts for s in walk(stmt) for region in written(s)}


def read_below(*stmts: Stmt) -> dict[Buffer, None]:
    """Return the buffers that statements and those below them read, in order."""
    return {region.buffer: None for stmt in stmts for s in walk(stmt) for region in read(s)}


def reads_and_writes(body: Stmt, init: Stmt | None = None) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """List the regions of a block without loops inside, without reads of the very places that it writes."""
    writes: list[Region] = []
    for stmt in walk(body):
        for region in written(stmt):
            _append(writes, region)
    reads: list[Region] = []
    for part in (body,) if init is None else (body, init):
        for stmt in walk(part):
            for region in read(stmt):
                if not _is_among(writes, region):
                    _append(reads, region)
    return tuple(reads), tuple(writes)


def _append(regions: list[Region], new: Region) -> None:
    if not _is_among(regions, new):
        regions.append(new)


def _is_among(regions: list[Region], one: Region) -> bool:
    return any(
        each.buffer is one.buffer
        and all(a[1] == b[1] and same(a[0], b[0]) for a, b in zip(each.box, one.box, strict=True))
        for each in regions
    )
