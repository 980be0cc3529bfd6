"""Unification: values of pattern variables that make patterns equal to given expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from pegbox.expr.equal import same
from pegbox.expr.nodes import Binary, Compare, Expr, Var
from pegbox.expr.visit import children

_COMMUTATIVE = frozenset({"add", "mul", "min", "max"})
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}

Found = Mapping[Var, Expr]


def unify(patterns: Sequence[Expr], exprs: Sequence[Expr], values: Found, free: Set[Var]) -> Iterator[Found]:
    """Yield every choice of the `free` variables that makes each pattern equal to its expression.

    Args:
        values: variables of the patterns with given expressions.

    Operands of sums, products, min and max may be swapped, and comparisons reversed.
    """
    if not patterns:
        yield values
        return
    for found in _one(patterns[0], exprs[0], values, free):
        yield from unify(patterns[1:], exprs[1:], found, free)


def _one(pattern: Expr, expr: Expr, values: Found, free: Set[Var]) -> Iterator[Found]:
    if isinstance(pattern, Var):
        value = values.get(pattern)
        if value is not None:
            if same(value, expr):
                yield values
        elif pattern in free and pattern.dtype == expr.dtype:
            yield {**values, pattern: expr}
        return
    if type(pattern) is not type(expr) or pattern.dtype != expr.dtype:
        return
    parts, given = children(pattern), children(expr)
    if not parts:
        if same(pattern, expr):
            yield values
        return
    if len(parts) != len(given):
        return
    op = getattr(expr, "op", None)
    if _head(pattern) == _head(expr):
        yield from unify(parts, given, values, free)
    turns = (isinstance(expr, Binary) and op in _COMMUTATIVE) or isinstance(expr, Compare)
    if turns and getattr(pattern, "op", None) == _TURNED.get(str(op), op):
        yield from unify(parts, given[::-1], values, free)


def _head(expr: Expr) -> tuple[object, ...]:
    """Describe a node without its operands."""
    return (getattr(expr, "op", None), getattr(expr, "name", None), getattr(expr, "buffer", None))
