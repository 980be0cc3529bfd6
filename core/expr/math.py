"""Functions of numbers, as `te` and `tir` give them to users."""

from __future__ import annotations

from math import inf

from pegbox.errors import ExprError
from pegbox.expr import dtypes, intrinsics
from pegbox.expr.build import FALSE, TRUE, as_expr, cast, compare, const, logical_not, maximum, minimum, mul, sub
from pegbox.expr.nodes import Const, Expr


def exp(x: object) -> Expr:
    return intrinsics.call("exp", x)


def exp2(x: object) -> Expr:
    """`2 ** x`."""
    return intrinsics.call("exp2", x)


def exp10(x: object) -> Expr:
    """`10 ** x`."""
    return intrinsics.call("exp10", x)


def log(x: object) -> Expr:
    """Natural logarithm."""
    return intrinsics.call("log", x)


def log2(x: object) -> Expr:
    return intrinsics.call("log2", x)


def log10(x: object) -> Expr:
    return intrinsics.call("log10", x)


def log1p(x: object) -> Expr:
    """`log(1 + x)`, exact for small `x` too."""
    return intrinsics.call("log1p", x)


def sqrt(x: object) -> Expr:
    return intrinsics.call("sqrt", x)


def rsqrt(x: object) -> Expr:
    """`1 / sqrt(x)`."""
    return intrinsics.call("rsqrt", x)


def sin(x: object) -> Expr:
    return intrinsics.call("sin", x)


def cos(x: object) -> Expr:
    return intrinsics.call("cos", x)


def tan(x: object) -> Expr:
    return intrinsics.call("tan", x)


def asin(x: object) -> Expr:
    return intrinsics.call("asin", x)


def acos(x: object) -> Expr:
    return intrinsics.call("acos", x)


def atan(x: object) -> Expr:
    return intrinsics.call("atan", x)


def atan2(y: object, x: object) -> Expr:
    """The angle of the point (x, y)."""
    return intrinsics.call("atan2", y, x)


def sinh(x: object) -> Expr:
    return intrinsics.call("sinh", x)


def cosh(x: object) -> Expr:
    return intrinsics.call("cosh", x)


def tanh(x: object) -> Expr:
    return intrinsics.call("tanh", x)


def asinh(x: object) -> Expr:
    return intrinsics.call("asinh", x)


def acosh(x: object) -> Expr:
    return intrinsics.call("acosh", x)


def atanh(x: object) -> Expr:
    return intrinsics.call("atanh", x)


def sigmoid(x: object) -> Expr:
    """`1 / (1 + exp(-x))`."""
    return intrinsics.call("sigmoid", x)


def erf(x: object) -> Expr:
    return intrinsics.call("erf", x)


def pow(x: object, y: object) -> Expr:
    return intrinsics.call("pow", x, y)


def fmod(x: object, y: object) -> Expr:
    """The remainder of a division that rounds towards zero, of floats."""
    return intrinsics.call("fmod", x, y)


def hypot(x: object, y: object) -> Expr:
    """`sqrt(x * x + y * y)`."""
    return intrinsics.call("hypot", x, y)


def copysign(x: object, y: object) -> Expr:
    """`x` with the sign of `y`."""
    return intrinsics.call("copysign", x, y)


def ldexp(x: object, exponent: object) -> Expr:
    """`x * 2 ** exponent` for an integer exponent, rounded once, where the power itself is no number of the type too.

    Raises:
        ExprError: `x` is no float.
    """
    number = as_expr(x)
    if number.dtype not in dtypes.EXPONENTS:
        raise ExprError(f"ldexp({number}): needs a float, got {number.dtype}; use te.cast('float32', ...) first")
    # Three powers take any number to zero and to infinity. The outermost ones come first: what is left of a number that
    # they round ends as zero, so that only the last product rounds.
    low, high = dtypes.EXPONENTS[number.dtype]
    inner, middle, whole = (_between(exponent, n * low, n * high) for n in (1, 2, 3))
    for part in (sub(whole, middle), sub(middle, inner), inner):
        number = _scaled(number, part)
    return number


def _between(exponent: object, low: int, high: int) -> Expr:
    """The nearest of the numbers from `low` to `high`."""
    if (known := dtypes.integer(exponent)) is not None:
        return const(min(max(known, low), high))
    expr = as_expr(exponent)
    wide = cast("int32", expr) if dtypes.BITS[expr.dtype] < 32 and not dtypes.is_float(expr.dtype) else expr
    return maximum(minimum(wide, high), low)


def _scaled(number: Expr, exponent: Expr) -> Expr:
    """`number * 2 ** exponent`, where the power is a number of its type."""
    if not isinstance(exponent, Const):
        return mul(number, exp2(cast(number.dtype, exponent)))
    return mul(number, const(2.0**exponent.value, number.dtype)) if exponent.value else number


def abs(x: object) -> Expr:
    return intrinsics.call("abs", x)


def floor(x: object) -> Expr:
    return intrinsics.call("floor", x)


def ceil(x: object) -> Expr:
    return intrinsics.call("ceil", x)


def trunc(x: object) -> Expr:
    """Round to the nearest integer towards zero."""
    return intrinsics.call("trunc", x)


def round(x: object) -> Expr:
    """Round to the nearest integer, halves to the even one, as NumPy does."""
    return intrinsics.call("round", x)


nearbyint = round


def popcount(x: object) -> Expr:
    """Count the bits of an integer that are set."""
    return intrinsics.call("popcount", x)


def clz(x: object) -> Expr:
    """Count the bits of an integer before the first one that is set: all of them for 0."""
    return intrinsics.call("clz", x)


def isnan(x: object) -> Expr:
    """Is it no number? Integers always are."""
    number = as_expr(x)
    if not dtypes.is_float(number.dtype):
        return FALSE
    return logical_not(compare("le", abs(number), const(inf, number.dtype)))


def isinf(x: object) -> Expr:
    number = as_expr(x)
    return compare("eq", abs(number), const(inf, number.dtype)) if dtypes.is_float(number.dtype) else FALSE


def isfinite(x: object) -> Expr:
    """Is it neither infinite nor NaN?"""
    number = as_expr(x)
    return compare("lt", abs(number), const(inf, number.dtype)) if dtypes.is_float(number.dtype) else TRUE
