"""Divisions that do not round down. Where axes and sizes are known to be positive, the roundings agree."""

from __future__ import annotations

from math import inf

from pegbox.compute.axis import IterVar, SizeVar
from pegbox.expr import dtypes
from pegbox.expr.bounds import Interval, bounds
from pegbox.expr.build import add, all_of, as_expr, compare, floordiv, floormod, index, select, sub
from pegbox.expr.build import div as true_division
from pegbox.expr.nodes import Expr, Var
from pegbox.expr.visit import free_vars

_LARGEST = 2**40


def div(a: object, b: object) -> Expr:
    """Division as in C: of integers towards zero (`truncdiv`), of floats as it is."""
    whole = all(dtypes.is_int(as_expr(each).dtype) for each in (a, b))
    return truncdiv(a, b) if whole else true_division(a, b)


def ceildiv(a: object, b: object) -> Expr:
    """Division of integers, rounding up.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    down, divisor = floordiv(a, b), _between(b)
    if divisor[0] > 0 and _between(a)[1] + divisor[1] - 1 <= dtypes.value_range(down.dtype)[1]:
        return floordiv(add(a, sub(b, 1)), b)
    return select(compare("eq", floormod(a, b), 0), down, add(down, 1))


def truncdiv(a: object, b: object) -> Expr:
    """Division of integers, rounding towards zero, as in C.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    down = floordiv(a, b)
    return down if _are_natural(a, b) else select(_rounds_apart(a, b), add(down, 1), down)


def truncmod(a: object, b: object) -> Expr:
    """The remainder of `truncdiv`: it has the sign of `a`.

    Raises:
        ExprError: the operands are floats, or the divisor is written as 0.
    """
    rest = floormod(a, b)
    return rest if _are_natural(a, b) else select(_rounds_apart(a, b), sub(rest, b), rest)


def _rounds_apart(a: object, b: object) -> Expr:
    """Whether the quotient is negative and not whole, so that down is not towards zero."""
    opposite = compare("lt", a, 0) if _between(b)[0] > 0 else compare("ne", _is_negative(a), _is_negative(b))
    return all_of([compare("ne", floormod(a, b), 0), opposite])


def _is_negative(value: object) -> Expr:
    return select(compare("lt", value, 0), index(1), index(0))


def _are_natural(a: object, b: object) -> bool:
    """Whether both are known not to be negative."""
    return _between(a)[0] >= 0 and _between(b)[0] > 0


def _between(value: object) -> tuple[float, float]:
    """The least and the largest value that are known to be possible; infinities where none are."""
    expr = as_expr(value)
    between = bounds(expr, {var: _range(var) for var in free_vars(expr)})
    return (-inf, inf) if between is None else between


def _range(var: Var) -> Interval:
    """Where a variable lies. Sizes, and what runs up to them, are below 2**40."""
    if isinstance(var, IterVar):
        return var.dom.min, _LARGEST if isinstance(var.extent, Expr) else var.dom.min + var.extent - 1
    return 1 if isinstance(var, SizeVar) else -_LARGEST, _LARGEST
