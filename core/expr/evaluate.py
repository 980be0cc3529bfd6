"""Evaluation of one expression in plain Python: slow, and the reference for all other evaluations.

Numbers behave as on the machine: integers wrap around at the width of their type, floats are rounded to their type
after every operation, `//` and `%` round towards minus infinity and give 0 for a zero divisor, and casts are C's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pegbox.errors import ExprError
from pegbox.expr import dtypes
from pegbox.expr.intrinsics import ON_INTEGERS
from pegbox.expr.low_level import Reinterpret
from pegbox.expr.nodes import Binary, Buffer, Call, Cast, Compare, Const, Expr, Load, Logic, Not, Select, Var
from pegbox.expr.numpy_operators import FUNCTIONS
from pegbox.expr.operators import BINARY, COMPARE

Number = int | float | bool
Arrays = Mapping[Buffer, NDArray[Any]]


def evaluate(expr: Expr, values: Mapping[Var, Number], buffers: Arrays | None = None) -> Number:
    """Return the value of `expr` as a Python bool, int or float.

    Only the chosen side of a select is evaluated; `and` and `or` stop at the first operand that decides.

    Raises:
        ExprError: a variable or a buffer has no value, or an index is out of bounds.
    """
    with np.errstate(all="ignore"):
        return _value(expr, values, buffers or {})


def _value(expr: Expr, values: Mapping[Var, Number], buffers: Arrays) -> Number:
    match expr:
        case Const():
            return to_dtype(expr.value, expr.dtype)
        case Var():
            if expr not in values:
                raise ExprError(f"variable {expr.name} has no value; given are {[v.name for v in values]}")
            return to_dtype(values[expr], expr.dtype)
        case Binary(op, a, b):
            return to_dtype(BINARY[op](_value(a, values, buffers), _value(b, values, buffers)), expr.dtype)
        case Compare(op, a, b):
            return bool(COMPARE[op](_value(a, values, buffers), _value(b, values, buffers)))
        case Logic("and", a, b):
            return bool(_value(a, values, buffers) and _value(b, values, buffers))
        case Logic("or", a, b):
            return bool(_value(a, values, buffers) or _value(b, values, buffers))
        case Not(a):
            return not _value(a, values, buffers)
        case Select(cond, a, b):
            return _value(a if _value(cond, values, buffers) else b, values, buffers)
        case Cast(dtype, a):
            return to_dtype(_value(a, values, buffers), dtype)
        case Reinterpret(dtype, a):
            number: Number = np.asarray(_value(a, values, buffers), a.dtype).view(dtype).item()
            return number
        case Call(name, args):
            return to_dtype(_call(name, expr.dtype, [_value(a, values, buffers) for a in args]), expr.dtype)
        case Load(buffer, indices):
            return _element(buffer, tuple(int(_value(i, values, buffers)) for i in indices), buffers)
        case _:
            raise TypeError(f"unknown expression node {type(expr).__name__}")


def to_dtype(value: Number, dtype: str) -> Number:
    """Convert as C does. Floats without an integer counterpart become the lowest integer, as on x86."""
    if dtype == "bool":
        return bool(value != 0)
    if dtypes.is_float(dtype):
        return value if dtype == "float64" and isinstance(value, float) else float(np.dtype(dtype).type(value))
    if isinstance(value, float) and not math.isfinite(value):
        return int(dtypes.value_range(dtype)[0])
    return dtypes.wrap(int(value), dtype)


def _element(buffer: Buffer, indices: tuple[int, ...], buffers: Arrays) -> Number:
    if buffer not in buffers:
        raise ExprError(f"buffer {buffer.name} has no values; given are {[b.name for b in buffers]}")
    if any(not 0 <= i < n for i, n in zip(indices, buffer.shape, strict=True)):
        raise ExprError(f"{buffer.name}{list(indices)} is out of its shape {list(buffer.shape)}")
    value: Number = buffers[buffer][indices].item()
    return value


def _call(name: str, dtype: str, args: list[Number]) -> Number:
    """Apply an intrinsic, to floats in float64, to integers in their own type."""
    if name == "abs":
        return abs(args[0])
    # NumPy's scalars give infinities and NaN, while the math module raises exceptions.
    kind = np.dtype(dtype) if name in ON_INTEGERS else np.dtype("float64")
    number: Number = np.asarray(FUNCTIONS[name](*(kind.type(a) for a in args))).item()
    return number
