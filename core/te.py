"""The compute language, and TE schedules on it: the names that users import."""

from __future__ import annotations

from pegbox.expr import dtypes, intrinsics
from pegbox.expr.build import all_of, any_of, as_expr, const, maximum, select
from pegbox.expr.nodes import Expr

if_then_else = select


def all(*conditions: object) -> Expr:
    """True where every condition holds."""
    return all_of(conditions)


def any(*conditions: object) -> Expr:
    """True where some condition holds."""
    return any_of(conditions)


def exp(x: object) -> Expr:
    return intrinsics.call("exp", x)


def log(x: object) -> Expr:
    """Natural logarithm."""
    return intrinsics.call("log", x)


def sqrt(x: object) -> Expr:
    return intrinsics.call("sqrt", x)


def rsqrt(x: object) -> Expr:
    """`1 / sqrt(x)`."""
    return intrinsics.call("rsqrt", x)


def tanh(x: object) -> Expr:
    return intrinsics.call("tanh", x)


def sigmoid(x: object) -> Expr:
    """`1 / (1 + exp(-x))`."""
    return intrinsics.call("sigmoid", x)


def erf(x: object) -> Expr:
    return intrinsics.call("erf", x)


def pow(x: object, y: object) -> Expr:
    return intrinsics.call("pow", x, y)


power = pow


def abs(x: object) -> Expr:
    return intrinsics.call("abs", x)


def floor(x: object) -> Expr:
    return intrinsics.call("floor", x)


def ceil(x: object) -> Expr:
    return intrinsics.call("ceil", x)


def round(x: object) -> Expr:
    """To the nearest integer, halves to the even one, as NumPy rounds."""
    return intrinsics.call("round", x)


def min_value(dtype: str) -> Expr:
    """The lowest value of a type (-inf for floats)."""
    return const(dtypes.value_range(dtypes.check(dtype))[0], dtype)


def max_value(dtype: str) -> Expr:
    """The highest value of a type (inf for floats)."""
    return const(dtypes.value_range(dtypes.check(dtype))[1], dtype)


def relu(x: object) -> Expr:
    """`max(x, 0)`."""
    expr = as_expr(x)
    return maximum(expr, const(0, expr.dtype))
