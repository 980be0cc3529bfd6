"""Updates of sums by values that are zero in some lanes, rewritten to leave these lanes as they are.

    for v in vectorized range(16):                           for v in vectorized range(16):
        s[v] = s[v] + (a[v - 1] * w[0] if v > 0 else 0)  =>      if v > 0: s[v] = s[v] + a[v - 1] * w[0]

With masks for arithmetic, a multiply-add under a mask is as cheap as one without, whereas zeros in the lanes of a load
take another operation. A sum of -0.0 stays -0.0, whereas adding zero makes it 0.0; a sum that begins with zero is never
-0.0.
"""

from __future__ import annotations

from collections.abc import Collection

from pegbox.codegen.targets.target import Target
from pegbox.expr import dtypes
from pegbox.expr.nodes import Binary, Buffer, Const, Expr, Select, Var
from pegbox.expr.visit import free_vars
from pegbox.loops.nodes import For, ForKind, If, Stmt, Store
from pegbox.loops.reductions.update import update
from pegbox.loops.visit import map_children

_WIDE = 512
"""The bits of vectors that have arithmetic under masks."""


def rewrite_updates(stmt: Stmt, target: Target, stack: Collection[Buffer]) -> Stmt:
    """Rewrite the updates of local buffers in vectorized loops, if the target has arithmetic under masks.

    Only sums on the stack may be registers; in memory, a load would wait for the masked store before it.
    """
    sums = frozenset(each for each in stack if each.scope == "local" and dtypes.is_float(each.dtype))
    return _rewritten(stmt, sums, frozenset()) if target.vector_bits >= _WIDE else stmt


def _rewritten(stmt: Stmt, sums: frozenset[Buffer], lanes: frozenset[Var]) -> Stmt:
    if isinstance(stmt, Store):
        return _skipping(stmt, lanes) if lanes and stmt.buffer in sums else stmt
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
        lanes |= {stmt.var}
    return map_children(stmt, lambda child: _rewritten(child, sums, lanes))


def _skipping(stmt: Store, lanes: frozenset[Var]) -> Stmt:
    found = update(stmt)
    if found is None:
        return stmt
    op, old, value = found
    if op != "add" or not isinstance(value, Select) or not is_zero(value.b) or lanes.isdisjoint(free_vars(value.cond)):
        return stmt
    return If(value.cond, Store(stmt.buffer, stmt.indices, Binary("add", old, value.a)))


def is_zero(expr: Expr) -> bool:
    """Decide if an expression is the constant zero, but not -0.0."""
    return isinstance(expr, Const) and not expr.value and not str(expr.value).startswith("-")
