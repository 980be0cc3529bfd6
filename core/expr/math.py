"""Functions of numbers for users of `te` and `tir`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from pegbox.errors import ExprError
from pegbox.expr import dtypes, intrinsics
from pegbox.expr.build import FALSE, TRUE, as_expr, cast, compare, const, logical_not, maximum, minimum, mul, sub
from pegbox.expr.nodes import Const, Expr


def _function(name: str, doc: str = "") -> Callable[[object], Expr]:
    """Make the function of one number that applies an intrinsic."""

    def function(x: object) -> Expr:
        return intrinsics.call(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc or f"Compute {name}(x)."
    return function


exp = _function("exp")
exp2 = _function("exp2", "Compute `2 ** x`.")
exp10 = _function("exp10", "Compute `10 ** x`.")
log = _function("log", "Compute the natural logarithm.")
log2 = _function("log2")
log10 = _function("log10")
log1p = _function("log1p", "Compute `log(1 + x)`, exact for small `x` too.")
sqrt = _function("sqrt")
rsqrt = _function("rsqrt", "Compute `1 / sqrt(x)`.")
sin = _function("sin")
cos = _function("cos")
tan = _function("tan")
asin = _function("asin")
acos = _function("acos")
atan = _function("atan")
sinh = _function("sinh")
cosh = _function("cosh")
tanh = _function("tanh")
asinh = _function("asinh")
acosh = _function("acosh")
atanh = _function("atanh")
sigmoid = _function("sigmoid", "Compute `1 / (1 + exp(-x))`.")
erf = _function("erf")
abs = _function("abs")
nonpositive = _function(
    "nonpositive",
    """Return `x`, a number that the caller knows to be at most 0, or NaN.

    Its exponential is faster to compute; that of a positive number is undefined.
    """,
)
floor = _function("floor")
ceil = _function("ceil")
trunc = _function("trunc", "Round to the nearest integer towards zero.")
round = nearbyint = _function("round", "Round to the nearest integer, halves to the even one, as NumPy does.")
popcount = _function("popcount", "Count the bits of an integer that are set.")
clz = _function("clz", "Count the bits of an integer before the first one that is set: all of them for 0.")


def bitwise_and(x: object, y: object) -> Expr:
    return intrinsics.call("bitwise_and", x, y)


def bitwise_or(x: object, y: object) -> Expr:
    return intrinsics.call("bitwise_or", x, y)


def bitwise_xor(x: object, y: object) -> Expr:
    return intrinsics.call("bitwise_xor", x, y)


def bitwise_not(x: object) -> Expr:
    """Flip every bit of an integer."""
    return intrinsics.call("bitwise_xor", x, -1)


def shift_left(x: object, y: object) -> Expr:
    """Compute `x * 2 ** y` in the integer type; 0 if y reaches the type's width."""
    return intrinsics.call("shift_left", x, y)


def shift_right(x: object, y: object) -> Expr:
    """Compute `x // 2 ** y`; only the sign remains if y reaches the type's width."""
    return intrinsics.call("shift_right", x, y)


def atan2(y: object, x: object) -> Expr:
    """Compute the angle of the point (x, y)."""
    return intrinsics.call("atan2", y, x)


def pow(x: object, y: object) -> Expr:
    return intrinsics.call("pow", x, y)


def fmod(x: object, y: object) -> Expr:
    """Compute the remainder of a division of floats that rounds towards zero."""
    return intrinsics.call("fmod", x, y)


def hypot(x: object, y: object) -> Expr:
    """Compute `sqrt(x * x + y * y)`."""
    return intrinsics.call("hypot", x, y)


def copysign(x: object, y: object) -> Expr:
    """Give `x` the sign of `y`."""
    return intrinsics.call("copysign", x, y)


def ldexp(x: object, exponent: object) -> Expr:
    """Compute `x * 2 ** exponent` for an integer exponent, rounded once, even if the power is not in the type's range.

    Raises:
        ExprError: `x` is not a float.
    """
    number = as_expr(x)
    if number.dtype not in dtypes.EXPONENTS:
        raise ExprError(f"ldexp({number}): needs a float, got {number.dtype}; use te.cast('float32', ...) first")
    # Three powers suffice to bring any number to zero or to infinity. The outer ones come first: a number that they
    # round ends as zero, so that only the last product rounds.
    low, high = dtypes.EXPONENTS[number.dtype]
    inner, middle, whole = (_between(exponent, n * low, n * high) for n in (1, 2, 3))
    for part in (sub(whole, middle), sub(middle, inner), inner):
        if not isinstance(part, Const):
            number = mul(number, exp2(cast(number.dtype, part)))
        elif part.value:
            number = mul(number, const(2.0**part.value, number.dtype))
    return number


def _between(exponent: object, low: int, high: int) -> Expr:
    """Clamp the exponent to the range from `low` to `high`."""
    if (known := dtypes.integer(exponent)) is not None:
        return const(min(max(known, low), high))
    expr = as_expr(exponent)
    wide = cast("int32", expr) if dtypes.BITS[expr.dtype] < 32 and not dtypes.is_float(expr.dtype) else expr
    return maximum(minimum(wide, high), low)


def isnan(x: object) -> Expr:
    """Test for NaN. Integers never are NaN."""
    number = as_expr(x)
    if not dtypes.is_float(number.dtype):
        return FALSE
    return logical_not(compare("le", abs(number), const(inf, number.dtype)))


def isinf(x: object) -> Expr:
    number = as_expr(x)
    return compare("eq", abs(number), const(inf, number.dtype)) if dtypes.is_float(number.dtype) else FALSE


def isfinite(x: object) -> Expr:
    """Test for a value that is neither infinite nor NaN."""
    number = as_expr(x)
    return compare("lt", abs(number), const(inf, number.dtype)) if dtypes.is_float(number.dtype) else TRUE
