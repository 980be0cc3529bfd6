"""Rewrites of vectorized loops before emission: privatization, then strip mining.

A buffer allocated inside a vectorized loop gets a copy for each lane:

    for v in vectorized range(8):              t = alloc([2, 8])
        t = alloc([2])                         for v in vectorized range(8):
        t[0] = a[v]                      =>        t[0, v] = a[v]
        b[v] = t[0]                                b[v] = t[0, v]

A loop wider than a few machine vectors becomes a serial loop over blocks of vectors, because unrolling all vectors
would make much code for no gain:

    for v in vectorized range(4100):   =>   for o in range(16):
        b[v] = a[v]                             for i in vectorized range(256): b[o * 256 + i] = a[o * 256 + i]
                                            for i in vectorized range(4): b[4096 + i] = a[4096 + i]
"""

from __future__ import annotations

from typing import TypeAlias

from pegbox.codegen.emitter.placement import vector_lanes
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.expr.visit import rewrite
from pegbox.loops.nodes import Alloc, For, ForKind, Stmt, Store, seq
from pegbox.loops.visit import map_children, map_exprs, substitute_vars, walk

BLOCKS = 16, 4, 1
"""The numbers of vectors per block of a wide loop; the first whose code is not too long for LLVM is used."""
MAX_VECTORS = 2 * BLOCKS[0]
"""The most vectors of a vectorized loop that are unrolled."""

Copies: TypeAlias = "dict[Buffer, tuple[Buffer, tuple[Var, ...]]]"
"""A map from each lane's buffer to the buffer for all lanes, with the variables of the lanes."""


def privatize(stmt: Stmt) -> Stmt:
    """Move buffers allocated in vectorized loops out of them, with the lane as their last dimension."""
    is_vector = isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED
    if not is_vector or not any(isinstance(inner, Alloc) for inner in walk(stmt)):
        return map_children(stmt, privatize)
    copies: Copies = {}
    result = _index(_inside(stmt, (), copies), copies)
    for buffer, _ in copies.values():
        result = Alloc(buffer, result)
    return result


def _inside(stmt: Stmt, loops: tuple[For, ...], copies: Copies) -> Stmt:
    """Drop the allocations, noting the buffers that replace them."""
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
        loops = (*loops, stmt)
    if isinstance(stmt, Alloc):
        shape = stmt.buffer.shape + tuple(loop.extent for loop in loops)
        wide = Buffer(stmt.buffer.name, shape, stmt.buffer.dtype, stmt.buffer.scope)
        copies[stmt.buffer] = wide, tuple(loop.var for loop in loops)
        return _inside(stmt.body, loops, copies)
    return map_children(stmt, lambda child: _inside(child, loops, copies))


def _index(stmt: Stmt, copies: Copies) -> Stmt:
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


def strip_mine(stmt: Stmt, vector_bits: int, block: int) -> Stmt:
    """Cut vectorized loops that are longer than two blocks of `block` vectors."""
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
        if stmt.extent <= 2 * block:  # at most two blocks even with one lane per vector
            return stmt
        lanes = vector_lanes(vector_bits, stmt.body)
        return _blocks(stmt, lanes * block) if stmt.extent > lanes * 2 * block else stmt
    return map_children(stmt, lambda child: strip_mine(child, vector_bits, block))


def _blocks(loop: For, size: int) -> Stmt:
    full, rest = divmod(loop.extent, size)
    outer, inner = Var(f"{loop.var.name}_block"), loop.var.copy()
    body = substitute_vars(loop.body, {loop.var: outer * size + inner})
    result: Stmt = For(outer, full, For(inner, size, body, ForKind.VECTORIZED))
    if rest:
        last = loop.var.copy()
        tail = substitute_vars(loop.body, {loop.var: last + full * size})
        result = seq(result, For(last, rest, tail, ForKind.VECTORIZED))
    return result
