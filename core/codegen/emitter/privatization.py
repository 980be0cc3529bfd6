"""Privatization: a buffer allocated inside a vectorized loop gets a copy for each lane.

for v in vectorized range(8):              t = alloc([2, 8])
    t = alloc([2])                         for v in vectorized range(8):
    t[0] = a[v]                      =>        t[0, v] = a[v]
    b[v] = t[0]                                b[v] = t[0, v]
"""

from __future__ import annotations

from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.visit import rewrite
from pegbox.loops.nodes import Alloc, For, ForKind, Stmt, Store
from pegbox.loops.visit import map_children, map_exprs, walk


def privatize(stmt: Stmt) -> Stmt:
    """Move such buffers out of the vectorized loops, with the lane as their last dimension."""
    if not any(_holds_alloc(node) for node in walk(stmt)):
        return stmt
    return _outside(stmt)


def _holds_alloc(stmt: Stmt) -> bool:
    return (
        isinstance(stmt, For)
        and stmt.kind is ForKind.VECTORIZED
        and any(isinstance(inner, Alloc) for inner in walk(stmt.body))
    )


def _outside(stmt: Stmt) -> Stmt:
    if not _holds_alloc(stmt):
        return map_children(stmt, _outside)
    copies: dict[Buffer, tuple[Buffer, tuple[Var, ...]]] = {}
    result = _index(_inside(stmt, (), copies), copies)
    for buffer, _ in copies.values():
        result = Alloc(buffer, result)
    return result


def _inside(stmt: Stmt, loops: tuple[For, ...], copies: dict[Buffer, tuple[Buffer, tuple[Var, ...]]]) -> Stmt:
    """Drop the allocations, noting what takes their place."""
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
        loops = (*loops, stmt)
    if isinstance(stmt, Alloc):
        shape = stmt.buffer.shape + tuple(loop.extent for loop in loops)
        wide = Buffer(stmt.buffer.name, shape, stmt.buffer.dtype, stmt.buffer.scope)
        copies[stmt.buffer] = wide, tuple(loop.var for loop in loops)
        return _inside(stmt.body, loops, copies)
    return map_children(stmt, lambda child: _inside(child, loops, copies))


def _index(stmt: Stmt, copies: dict[Buffer, tuple[Buffer, tuple[Var, ...]]]) -> Stmt:
    def leaf(expr: Expr) -> Expr | None:
        if isinstance(expr, Load) and expr.buffer in copies:
            wide, lanes = copies[expr.buffer]
            return expr.at(wide, tuple(rewrite(index, leaf) for index in expr.indices) + lanes)
        return None

    def stores(node: Stmt) -> Stmt:
        node = map_children(node, stores)
        if isinstance(node, Store) and node.buffer in copies:
            wide, lanes = copies[node.buffer]
            return Store(wide, node.indices + lanes, node.value)
        return node

    return stores(map_exprs(stmt, lambda expr: rewrite(expr, leaf)))
