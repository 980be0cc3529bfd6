"""Strip mining: a vectorized loop wider than a few machine vectors becomes a serial loop over blocks of vectors.

    for v in vectorized range(4100):   =>   for o in range(16):
        b[v] = a[v]                             for i in vectorized range(256): b[o * 256 + i] = a[o * 256 + i]
                                            for i in vectorized range(4): b[4096 + i] = a[4096 + i]

Writing every vector out, as is done for narrower loops, would make much code for no gain.
"""

from __future__ import annotations

from pegbox.codegen.emitter.placement import vector_lanes
from pegbox.expr.nodes import Var
from pegbox.loops.nodes import For, ForKind, Stmt, seq
from pegbox.loops.visit import map_children, substitute_vars

MAX_VECTORS = 32  # per vectorized loop
BLOCK = 16  # vectors per block of a wider one


def strip_mine(stmt: Stmt, vector_bits: int) -> Stmt:
    """Cut the vectorized loops of more than MAX_VECTORS vectors."""
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
        if stmt.extent <= MAX_VECTORS:  # so many even with one lane each
            return stmt
        lanes = vector_lanes(vector_bits, stmt.body)
        return _blocks(stmt, lanes * BLOCK) if stmt.extent > lanes * MAX_VECTORS else stmt
    return map_children(stmt, lambda child: strip_mine(child, vector_bits))


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
