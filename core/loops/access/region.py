"""Which part of which buffer does a block read and write?"""

from __future__ import annotations

from pegbox.expr.equal import same
from pegbox.expr.low_level import Address, stored_box
from pegbox.expr.nodes import Buffer, Expr
from pegbox.expr.visit import loads
from pegbox.loops.nodes import Region, Stmt, Store
from pegbox.loops.visit import expressions, walk


def point(buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
    """The region of one element."""
    return Region(buffer, tuple((index, 1) for index in indices))


def box(buffer: Buffer, indices: tuple[Expr, ...], extents: tuple[int, ...]) -> Region:
    """The region of some elements from `indices` on."""
    return Region(buffer, tuple(zip(indices, extents, strict=True)))


def own_regions(stmt: Stmt) -> tuple[list[Region], list[Region]]:
    """What a statement itself reads, and what it writes, through calls too."""
    reads: list[Region] = []
    writes: list[Region] = []
    if isinstance(stmt, Store):
        writes.append(box(stmt.buffer, stmt.indices, stored_box(stmt.indices, stmt.value)))
    for expr in expressions(stmt):
        for load in loads(expr):
            region = box(load.buffer, load.indices, load.box)
            if not isinstance(load, Address) or "r" in load.access:
                reads.append(region)
            if isinstance(load, Address) and "w" in load.access:
                writes.append(region)
    return reads, writes


def read(stmt: Stmt) -> list[Region]:
    """What a statement itself reads."""
    return own_regions(stmt)[0]


def written(stmt: Stmt) -> list[Region]:
    """What a statement itself writes."""
    return own_regions(stmt)[1]


def written_below(*stmts: Stmt) -> dict[Buffer, None]:
    """The buffers that statements and what is below them write, in order."""
    return {region.buffer: None for stmt in stmts for s in walk(stmt) for region in written(s)}


def read_below(*stmts: Stmt) -> dict[Buffer, None]:
    """The buffers that statements and what is below them read, in order."""
    return {region.buffer: None for stmt in stmts for s in walk(stmt) for region in read(s)}


def reads_and_writes(body: Stmt, init: Stmt | None = None) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """Regions of a block without loops inside; what a reduction reads of its own output is left out."""
    writes: list[Region] = []
    for stmt in walk(body):
        for region in written(stmt):
            _append(writes, region)
    own = {region.buffer for region in writes}
    reads: list[Region] = []
    for part in (body,) if init is None else (body, init):
        for stmt in walk(part):
            for region in read(stmt):
                if region.buffer not in own:
                    _append(reads, region)
    return tuple(reads), tuple(writes)


def _append(regions: list[Region], new: Region) -> None:
    for old in regions:
        if old.buffer is new.buffer and all(
            a[1] == b[1] and same(a[0], b[0]) for a, b in zip(old.box, new.box, strict=True)
        ):
            return
    regions.append(new)
