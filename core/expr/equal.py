"""Structural equality of expressions."""

from __future__ import annotations

import math

from pegbox.expr.nodes import Binary, Compare, Const, Expr, Logic, Var

_OF_TWO = (Binary, Compare, Logic)  # a constant, because a union type would be built for each comparison


def same_number(a: float, b: float) -> bool:
    """Compare the values of two constants: NaN equals NaN here, and the two zeros differ."""
    if not isinstance(a, float) or not isinstance(b, float):
        return a == b
    return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)


def same(a: object, b: object) -> bool:
    """Compare by structure; variables, buffers and reductions are compared by identity."""
    if a is b:
        return True
    if not isinstance(a, Expr) or type(a) is not type(b) or isinstance(a, Var):
        return False
    if isinstance(a, _OF_TWO):  # the most frequent case
        return a.op == b.op and same(a.a, b.a) and same(a.b, b.b)  # type: ignore[attr-defined]
    if isinstance(a, Const):
        return a.dtype == b.dtype and same_number(a.value, b.value)  # type: ignore[attr-defined]
    # Reductions have no parts here, because they belong to the compute graph.
    parts = [(getattr(a, name), getattr(b, name)) for name in a.__match_args__]
    return bool(parts) and all(_same_part(x, y) for x, y in parts)


def _same_part(a: object, b: object) -> bool:
    """Compare operands, tuples of operands, names and numbers."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same_part, a, b))
    return same(a, b) if isinstance(a, Expr) else a == b
