"""Divisions that do not round down. For axes and sizes known to be positive, the roundings agree."""

from __future__ import annotations

from math import inf

from pegbox.compute.axis import IterVar, SizeVar
from pegbox.expr import dtypes
from pegbox.expr.bounds import Interval, bounds
from pegbox.expr.build import add, all_of, as_expr, compare, floordiv, floormod, index, select, sub
from pegbox.expr.build import div as true_division
from pegbox.expr.equal import same
from pegbox.expr.nodes import Binary, Expr, Select, Var
from pegbox.expr.visit import free_vars

_LARGEST = 2**40


def div(a: object, b: object) -> Expr:
    """Divide as in C: integers towards zero (`truncdiv`), floats exactly rounded."""
    whole = all(dtypes.is_int(as_expr(each).dtype) for each in (a, b))
    return truncdiv(a, b) if whole else true_division(a, b)


def ceildiv(a: object, b: object) -> Expr:
    """Divide integers, rounding up.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    down, divisor = floordiv(a, b), _between(b)
    if divisor[0] > 0 and _between(a)[1] + divisor[1] - 1 <= dtypes.value_range(down.dtype)[1]:
        return floordiv(add(a, sub(b, 1)), b)
    return _rounded_up(a, b)


def truncdiv(a: object, b: object) -> Expr:
    """Divide integers, rounding towards zero, as in C.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    return floordiv(a, b) if _are_natural(a, b) else _truncated(a, b, _is_positive(b))


def truncmod(a: object, b: object) -> Expr:
    """Return the remainder of `truncdiv`: it has the sign of `a`.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    return floormod(a, b) if _are_natural(a, b) else _rest(a, b, _is_positive(b))


def as_division(expr: Expr) -> Expr:
    """Find the division, rounding down, inside an expression that emulates another rounding.

    Any other expression is returned unchanged.
    """
    match expr:
        case Select(_, _, Binary("floordiv", a, b) as down):
            made = [_truncated(a, b, positive) for positive in (True, False)]
        case Select(_, _, Binary("floormod", a, b) as down):
            made = [_rest(a, b, positive) for positive in (True, False)]
        case Select(_, Binary("floordiv", a, b) as down, _):
            made = [_rounded_up(a, b)]
        case _:
            return expr
    return down if any(same(expr, each) for each in made) else expr


def _rounded_up(a: object, b: object) -> Expr:
    down = floordiv(a, b)
    return select(compare("eq", floormod(a, b), 0), down, add(down, 1))


def _truncated(a: object, b: object, positive: bool) -> Expr:
    down = floordiv(a, b)
    return select(_rounds_apart(a, b, positive), add(down, 1), down)


def _rest(a: object, b: object, positive: bool) -> Expr:
    rest = floormod(a, b)
    return select(_rounds_apart(a, b, positive), sub(rest, b), rest)


def _rounds_apart(a: object, b: object, positive: bool) -> Expr:
    """Test for a negative quotient that is not whole, for which down is not towards zero. `positive`: `b` always is."""
    opposite = compare("lt", a, 0) if positive else compare("ne", _is_negative(a), _is_negative(b))
    return all_of([compare("ne", floormod(a, b), 0), opposite])


def _is_negative(value: object) -> Expr:
    return select(compare("lt", value, 0), index(1), index(0))


def _is_positive(value: object) -> bool:
    return _between(value)[0] > 0


def _are_natural(a: object, b: object) -> bool:
    """Prove that neither is negative. Division by 0 gives 0 under every rounding."""
    return _between(a)[0] >= 0 and _between(b)[0] >= 0


def _between(value: object) -> tuple[float, float]:
    """Return the known bounds of a value; infinities if there are none."""
    expr, ranges = as_expr(value), dict[Var, Interval]()
    for var in free_vars(expr):  # sizes, and loops up to them, are below 2**40
        ranges[var] = 1 if isinstance(var, SizeVar) else -_LARGEST, _LARGEST
        if isinstance(var, IterVar):
            last = _LARGEST if isinstance(var.extent, Expr) else var.dom.min + var.extent - 1
            ranges[var] = var.dom.min, last
    between = bounds(expr, ranges)
    return (0 if dtypes.is_unsigned(expr.dtype) else -inf, inf) if between is None else between
