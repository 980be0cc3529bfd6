"""Which part of which buffer does a block read and write?"""

from __future__ import annotations

from collections.abc import Iterator

from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr
from pegbox.expr.visit import loads
from pegbox.loops.nodes import If, Region, Stmt, Store
from pegbox.loops.visit import walk


def point(buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
    """The region of one element."""
    return Region(buffer, tuple((index, 1) for index in indices))


def reads_and_writes(body: Stmt, init: Stmt | None = None) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """Element regions of a block without loops inside; what a reduction reads of its own output is left out."""
    writes: list[Region] = []
    for store in _stores(body):
        _append(writes, point(store.buffer, store.indices))
    own = {region.buffer for region in writes}
    reads: list[Region] = []
    for part in (body,) if init is None else (body, init):
        for stmt in walk(part):
            for expr in _expressions(stmt):
                for load in loads(expr):
                    if load.buffer not in own:
                        _append(reads, point(load.buffer, load.indices))
    return tuple(reads), tuple(writes)


def _stores(body: Stmt) -> Iterator[Store]:
    return (stmt for stmt in walk(body) if isinstance(stmt, Store))


def _expressions(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case Store(_, indices, value):
            return (*indices, value)
        case If(condition, _):
            return (condition,)
        case _:
            return ()


def _append(regions: list[Region], new: Region) -> None:
    for old in regions:
        if old.buffer is new.buffer and all(same(a[0], b[0]) for a, b in zip(old.box, new.box, strict=True)):
            return
    regions.append(new)
