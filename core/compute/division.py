"""Divisions that do not round down. Axes are known to count from zero or above, where the roundings agree."""

from __future__ import annotations

from pegbox.compute.axis import IterVar
from pegbox.expr import dtypes
from pegbox.expr.bounds import Interval, bounds
from pegbox.expr.build import add, as_expr, compare, floordiv, index, mul, neg, select, sub
from pegbox.expr.build import div as true_division
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.visit import free_vars


def div(a: object, b: object) -> Expr:
    """Division as in C: of integers towards zero (`truncdiv`), of floats as it is."""
    whole = all(dtypes.is_int(as_expr(each).dtype) for each in (a, b))
    return truncdiv(a, b) if whole else true_division(a, b)


def ceildiv(a: object, b: object) -> Expr:
    """Division of integers, rounding up.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    return floordiv(add(a, sub(b, 1)), b) if _is_positive(b) else neg(floordiv(neg(a), b))


def truncdiv(a: object, b: object) -> Expr:
    """Division of integers, rounding towards zero, as in C.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    down = floordiv(a, b)
    if _is_positive(b):
        return down if _least(a) >= 0 else select(compare("ge", a, 0), down, neg(floordiv(neg(a), b)))
    same_sign = compare("eq", _is_negative(a), _is_negative(b))
    return select(same_sign, floordiv(_size(a), _size(b)), neg(floordiv(_size(a), _size(b))))


def truncmod(a: object, b: object) -> Expr:
    """The remainder of `truncdiv`: it has the sign of `a`.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    if _is_positive(b) and _least(a) >= 0:
        return as_expr(a) % b
    return sub(a, mul(truncdiv(a, b), b))


def _is_negative(value: object) -> Expr:
    return select(compare("lt", value, 0), index(1), index(0))


def _size(value: object) -> Expr:
    return select(compare("lt", value, 0), neg(value), value)


def _is_positive(value: object) -> bool:
    return _least(value) > 0


def _least(value: object) -> float:
    """The smallest value that is known to be possible; -inf where none is."""
    expr = as_expr(value)
    ranges: dict[Var, Interval] = {
        var: (var.dom.min, var.dom.min + var.extent - 1) for var in free_vars(expr) if isinstance(var, IterVar)
    }
    between = bounds(expr, ranges)
    return float("-inf") if between is None else between[0]
