"""Updates: stores that combine an element with a value, as each step of a reduction does."""

from __future__ import annotations

from pegbox.expr.equal import same
from pegbox.expr.nodes import Binary, BinaryOp, Buffer, Expr, Load
from pegbox.expr.visit import loads
from pegbox.loops.nodes import Store

_OPS = ("add", "mul", "min", "max")


def reads(expr: Expr, buffer: Buffer) -> bool:
    return any(load.buffer is buffer for load in loads(expr))


def update(stmt: Store) -> tuple[BinaryOp, Load, Expr] | None:
    """(op, old element, value) of a store `buf[i] = buf[i] op value` whose value reads nothing of the buffer."""
    value = stmt.value
    if not isinstance(value, Binary) or value.op not in _OPS:
        return None
    for old, new in ((value.a, value.b), (value.b, value.a)):
        if isinstance(old, Load) and old.buffer is stmt.buffer and all(map(same, old.indices, stmt.indices)):
            return None if reads(new, stmt.buffer) else (value.op, old, new)
    return None
