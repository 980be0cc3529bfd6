"""Intrinsics: the math functions that both the code generator and the NumPy reference implement."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from pegbox.errors import ExprError
from pegbox.expr import dtypes
from pegbox.expr.build import as_expr, cast, compare, logical_and, logical_not, logical_or
from pegbox.expr.nodes import OPERATORS, Call, Expr

# name -> number of arguments. All are functions of floats, except abs, which also takes integers, and `ON_INTEGERS`.
ARITY: dict[str, int] = {
    "exp": 1, "log": 1, "sqrt": 1, "rsqrt": 1, "tanh": 1, "sigmoid": 1, "erf": 1, "pow": 2,
    "abs": 1, "nonpositive": 1, "floor": 1, "ceil": 1, "round": 1, "trunc": 1,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "atan2": 2,
    "sinh": 1, "cosh": 1, "asinh": 1, "acosh": 1, "atanh": 1,
    "exp2": 1, "exp10": 1, "log2": 1, "log10": 1, "log1p": 1,
    "fmod": 2, "hypot": 2, "copysign": 2, "popcount": 1, "clz": 1,
    "bitwise_and": 2, "bitwise_or": 2, "bitwise_xor": 2, "shift_left": 2, "shift_right": 2,
}  # fmt: skip

ON_INTEGERS = frozenset({"popcount", "clz", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"})
"""Functions of the bits of integers. A shift by the width of the type or more leaves 0, or -1 of a negative number."""

SLOW = frozenset(ARITY) - {"abs", "nonpositive", "floor", "ceil", "round", "trunc", "copysign", *ON_INTEGERS}
"""The functions that take many times longer than an addition."""

# NumPy's names of functions with other names there, and the functions that it lacks.
_NUMPY = {
    "pow": "power", "round": "rint", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "nonpositive": "positive",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "shift_left": "left_shift",
    "shift_right": "right_shift",
}  # fmt: skip
_NOT_OF_NUMPY = frozenset({"rsqrt", "sigmoid", "erf", "exp10", "popcount", "clz"})
NUMPY: dict[str, str] = {name: _NUMPY.get(name, name) for name in ARITY if name not in _NOT_OF_NUMPY}
"""The intrinsics that NumPy has, by NumPy's names."""


def call(name: str, *args: object) -> Expr:
    """Apply an intrinsic to numbers of one type: a float type, except for abs and `ON_INTEGERS`.

    Raises:
        ExprError: the name is unknown, the number of arguments is wrong, or a function of floats gets integers or vice
            versa.
    """
    if name not in ARITY:
        raise ExprError(f"unknown intrinsic {name!r}; use one of {', '.join(ARITY)}")
    if len(args) != ARITY[name]:
        raise ExprError(f"{name} takes {ARITY[name]} argument(s), got {len(args)}")
    exprs = [as_expr(a) for a in args]
    # Python's numbers take the type of operands that are expressions.
    dtype = reduce(dtypes.promote, [raw.dtype for raw in args if isinstance(raw, Expr)] or [exprs[0].dtype])
    if name in ON_INTEGERS and not dtypes.is_int(dtype):
        raise ExprError(
            f"{name}({exprs[0]}): needs an integer, got {dtype}; use te.reinterpret for the bits of a float"
        )
    if not (dtypes.is_float(dtype) or (name in ("abs", *ON_INTEGERS) and dtypes.is_int(dtype))):
        raise ExprError(f"{name}({exprs[0]}): needs a float, got {dtype}; use te.cast('float32', ...) first")
    return Call(name, tuple(cast(dtype, e) for e in exprs), dtype)


def _bitwise(name: str, of_conditions: Callable[..., Expr]) -> Callable[..., Expr]:
    """Make an operator on the bits of integers, or else on conditions."""

    def operator(*operands: object) -> Expr:
        of_integers = all(dtypes.is_int(as_expr(operand).dtype) for operand in operands)
        return call(name, *operands) if of_integers else of_conditions(*operands)

    return operator


def inverted(a: object) -> Expr:
    """Apply the operator ~: flip every bit of an integer, or negate a condition."""
    return call("bitwise_xor", a, -1) if dtypes.is_int(as_expr(a).dtype) else logical_not(a)


OPERATORS.update(
    {
        "and": _bitwise("bitwise_and", logical_and),
        "or": _bitwise("bitwise_or", logical_or),
        "xor": _bitwise("bitwise_xor", partial(compare, "ne")),
        "not": inverted,
        "shift_left": partial(call, "shift_left"),
        "shift_right": partial(call, "shift_right"),
    }
)
