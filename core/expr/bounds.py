"""Bounds of integer expressions, given the ranges of their variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pegbox.expr import dtypes
from pegbox.expr.affine import Linear, fits_int64, linear
from pegbox.expr.nodes import Binary, Cast, Const, Expr, Select, Var

Interval: TypeAlias = tuple[int, int]
Ranges: TypeAlias = Mapping[Var, Interval]


def bounds(expr: Expr, ranges: Ranges) -> Interval | None:
    """Find the smallest and the largest value while each variable stays in its range; None if unknown.

    The result is exact for linear expressions, and an over-approximation otherwise. Values that may wrap around are
    unknown.
    """
    match expr:
        case Const():
            return (expr.integer, expr.integer) if not dtypes.is_float(expr.dtype) else None
        case Var():
            return ranges.get(expr)
        case Binary("add" | "sub" | "mul") if expr.dtype == dtypes.INDEX:
            form = linear(expr)
            opaque = len(form.terms) == 1 and next(iter(form.terms)) is expr
            between = _product(expr, ranges) if opaque else linear_bounds(form, ranges)
            return between if between is not None and _fits(between) else None
        case Binary(op, left, right):
            a, b = bounds(left, ranges), bounds(right, ranges)
            if op in ("floordiv", "floormod"):
                return _divided(op, a, b) if b is not None and b[0] > 0 else None
            if op not in ("min", "max") or a is None or b is None:
                return None
            return (min(a[0], b[0]), min(a[1], b[1])) if op == "min" else (max(a[0], b[0]), max(a[1], b[1]))
        case Select(_, a, b):
            ba, bb = bounds(a, ranges), bounds(b, ranges)
            return None if ba is None or bb is None else (min(ba[0], bb[0]), max(ba[1], bb[1]))
        case Cast(dtype, a) if dtypes.is_int(dtype) and not dtypes.is_float(a.dtype):
            inner = (0, 1) if a.dtype == "bool" else bounds(a, ranges)
            lo, hi = dtypes.value_range(dtype)
            return inner if inner is not None and lo <= inner[0] and inner[1] <= hi else (int(lo), int(hi))
        case _:
            if dtypes.is_int(expr.dtype) and expr.dtype != dtypes.INDEX:
                lo, hi = dtypes.value_range(expr.dtype)
                return int(lo), int(hi)
            return None


def fits(form: Linear, ranges: Ranges) -> bool:
    """Prove that the sum, computed in int64, never wraps around; False without a proof."""
    if form.const == 0 and len(form.terms) == 1 and 1 in form.terms.values():
        return True  # a single variable or constant
    between = linear_bounds(form, ranges)
    return between is not None and _fits(between)


def _fits(between: Interval) -> bool:
    return fits_int64(between[0]) and fits_int64(between[1])


def linear_bounds(form: Linear, ranges: Ranges) -> Interval | None:
    """Bound a linear form as a sum of whole numbers; exact if its terms are independent variables."""
    lo = hi = form.const
    for term, coefficient in form.terms.items():
        inner = ranges.get(term) if isinstance(term, Var) else bounds(term, ranges)
        if inner is None:
            return None
        if coefficient > 0:
            lo += coefficient * inner[0]
            hi += coefficient * inner[1]
        else:
            lo += coefficient * inner[1]
            hi += coefficient * inner[0]
    return lo, hi


def _product(expr: Binary, ranges: Ranges) -> Interval | None:
    a, b = bounds(expr.a, ranges), bounds(expr.b, ranges)
    if a is None or b is None:
        return None
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _divided(op: str, a: Interval | None, b: Interval) -> Interval | None:
    """Bound a quotient or remainder of positive numbers."""
    if op == "floormod":
        if a is not None and b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
            return a[0] % b[0], a[1] % b[0]
        return 0, b[1] - 1
    corners = [] if a is None else [x // y for x in a for y in b]
    return (min(corners), max(corners)) if corners else None
